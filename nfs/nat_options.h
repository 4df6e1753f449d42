// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_NAT_OPTIONS_H_
#define SNF_NFS_NAT_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/byte_order.h"
#include "base/packet/ip_prefix.h"
#include "base/time.h"
#include "base/tunnels/ip_translation.h"
#include "nfs/nat_static.h"
#include "runtime/sdk/nf_options.h"

namespace snf {

// The outside endpoints from which an external endpoint takes packets (RFC 4787
// §5).
enum class NatFiltering : uint8_t {
  kEndpointIndependent,      // all
  kAddressDependent,         // peers at addresses to which the inside has sent
  kAddressAndPortDependent,  // peers to which the inside has sent
};

// The options of --nf nat:… . NfOptions::status() reports errors.
struct NatOptions {
  explicit NatOptions(NfOptions& options);

  static constexpr uint32_t kMaxAddresses = 256;
  static constexpr size_t kMaxPools = 256;
  static constexpr int64_t kMaxPeers = 256;

  // The external addresses of all pools, ascending.
  std::vector<be32> addresses;
  // ip=192.0.2.1-192.0.2.4+192.0.2.9,
  // pool=10.1.0.0/16:192.0.2.5+10.2.0.0/16:192.0.2.6-192.0.2.7: the external
  // addresses of inside networks, the longest prefix first. The last pool is
  // that of "ip", for all others.
  struct Pool {
    IpPrefix inside;
    std::vector<be32> addresses = {};
    std::vector<uint16_t> indexes = {};  // of the same in NatOptions::addresses
  };
  std::vector<Pool> pools;
  const Pool& PoolOf(be32 inside) const;
  // ports=1024-65535: external ports and ICMP identifiers, of each address and
  // protocol.
  uint16_t first_port = 1024;
  uint16_t last_port = 65'535;
  // port_block=512,subscribers=10.0.0.0/24: each inside address of the network
  // has 512 external ports of each protocol for itself. Its place in the
  // network tells which (RFC 7422). 0: all inside addresses share the ports.
  static constexpr uint32_t kMaxSubscribers = 512;
  uint32_t port_block = 0;
  IpPrefix subscribers;
  // overflow=4096: the last 4,096 ports of each address and protocol are in no
  // block. A subscriber whose block is full gets them one by one (RFC 7422 §2).
  uint32_t overflow = 0;
  uint32_t first_overflow() const { return last_port - overflow + 1u; }
  uint32_t subscriber_count() const { return 1u << (128 - subscribers.length); }
  // Returns the place, from 0 on, or nothing for other inside addresses.
  std::optional<uint32_t> SubscriberOf(be32 inside) const;
  // The external address of the block, as its index, and the ports.
  struct Block {
    size_t address;
    uint32_t first;
    uint32_t last;
  };
  Block BlockOf(uint32_t subscriber) const;
  // filtering=endpoint_independent
  NatFiltering filtering = NatFiltering::kEndpointIndependent;
  // host_ports=4096: the most mappings of one inside address, so that one host
  // cannot take all ports (RFC 6888 REQ-4); 0 for any number.
  uint32_t host_ports = 4096;
  // peers=16: the number of peers that a mapping remembers, for its filter and
  // for the states of its TCP connections.
  uint32_t peers = 16;
  // The times after its last outbound packet at which a mapping ends. RFC 4787
  // REQ-5, RFC 5382 REQ-5 and RFC 5508 REQ-2 want no less than 2 min, 2 h 4
  // min, 4 min and 60 s.
  Nanos udp_timeout = Seconds(300);
  Nanos tcp_timeout = Seconds(7'440);
  Nanos tcp_transitory_timeout = Seconds(240);
  Nanos icmp_timeout = Seconds(60);
  // refresh=outbound|both: with both, inbound packets also keep a mapping
  // alive.
  bool inbound_refreshes = false;
  // pooling=paired|arbitrary: paired gives an inside address one external
  // address, arbitrary chooses one for each endpoint.
  bool is_paired = true;
  // other=drop|pass: with pass, IPv6 packets pass untouched, those from the
  // outside if they answer the inside.
  bool passes_other = false;
  // log_bindings=overflow: logs mappings with ports of the overflow alone. The
  // options tell whose the ports of blocks are (RFC 7422 §2).
  bool logs_overflow_alone = false;
  // log_bindings=false: with true, each mapping that begins or ends is a log
  // record (nat_log.h).
  bool logs_bindings = false;
  // nat64=64:ff9b::/96: packets of IPv6 from the inside to this prefix become
  // packets of IPv4, and their answers packets of IPv6.
  std::optional<Ipv4InIpv6> nat64;
  // mtu=1500: the most bytes of a packet of IPv6 that NAT64 makes.
  uint32_t mtu = 1'500;
  // forward=tcp:203.0.113.1:80->10.0.0.5:8080,
  // exempt=10.0.0.0/8->192.168.0.0/16
  NatStatic fixed;

 private:
  void AskNat64(NfOptions& options);
  void AskBlocks(NfOptions& options);
  uint32_t BlocksOfAnAddress() const {
    return (last_port - first_port + 1u - overflow) / port_block;
  }
  void AskPools(NfOptions& options);
};

}  // namespace snf

#endif  // SNF_NFS_NAT_OPTIONS_H_
