// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_NAT_PORTS_H_
#define SNF_NFS_NAT_PORTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_order.h"
#include "nfs/nat_options.h"
#include "nfs/nat_packet.h"
#include "runtime/sdk/state.h"

namespace snf {

// Returns the key of an endpoint: of an inside end, or as an alias.
FlowKey KeyOf(NatEnd end, IpProtocol protocol);

// The external ports of a NAT: a pool for each address, protocol, and half of
// the ports, which are those below 1024 and the others (RFC 4787 REQ-3a); or,
// with port_block, for each subscriber and protocol, and with overflow one more
// for each address and protocol. Ports of forwards are given to no mapping.
// `options` must outlive it.
class NatPorts {
 public:
  // Declares a pool of the NF, as NetworkFunction::declare_pool does.
  using Declare = std::function<PoolId(std::string name, uint32_t first,
                                       uint32_t last, be32 address)>;
  NatPorts(const NatOptions& options, const Declare& declare);

  // Returns the index of the external address for the packet's source. With
  // port_block, nothing if the source is no subscriber.
  std::optional<size_t> AddressOf(const NatView& view) const;

  // The outcome of Take. Without a port, the packet has to wait for pieces of
  // `pool`, or, if there is no pool, for nothing: there are none left.
  struct Taken {
    std::optional<PoolId> pool = std::nullopt;
    std::optional<be16> port = std::nullopt;
  };
  // Takes the port nearest to the inside one for the mapping of the packet's
  // source: that port itself, then one of its parity, then any, then one of the
  // other half (RFC 4787 REQ-4). With port_block, the port is of the source's
  // block, or of the overflow once the block has none. AddressOf gave
  // `address`.
  Taken Take(size_t address, const NatView& view, FlowState& flow) const;

 private:
  static constexpr size_t kProtocols = 3;
  static constexpr uint32_t kWellKnownPorts = 1024;

  struct Range {
    uint32_t first;
    uint32_t last;
  };

  static size_t KindOf(IpProtocol protocol);
  // Declares the pool of some ports of an address.
  std::optional<PoolId> DeclarePool(const Declare& declare, size_t address,
                                    size_t kind, Range ports);
  // Returns the pool, or nothing if that half has no ports.
  std::optional<PoolId> PoolOf(size_t address, IpProtocol protocol,
                               bool is_high) const;
  Taken TakeOfBlock(size_t address, const NatView& view, FlowState& flow) const;
  // `preferred` is the port at which the search begins.
  std::optional<uint32_t> TakeFrom(PoolId pool, Range ports, uint32_t preferred,
                                   const NatView& view, FlowState& flow) const;
  std::optional<uint32_t> TakeBetweenForwards(PoolId pool, Range ports,
                                              PiecePreference wish,
                                              FlowState& flow) const;

  const NatOptions& options_;
  // See PoolOf; with port_block, by subscriber and protocol, then, with
  // overflow, by address and protocol.
  std::vector<std::optional<PoolId>> pools_;
  std::vector<std::vector<uint16_t>> kept_;  // ports of forwards, by pool
};

}  // namespace snf

#endif  // SNF_NFS_NAT_PORTS_H_
