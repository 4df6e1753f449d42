// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_CORE_DISPATCH_TABLE_H_
#define SNF_RESOURCE_MANAGER_CORE_DISPATCH_TABLE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/messages/lease_messages.h"
#include "base/packet/flow_key.h"

namespace snf {

// Theory of operation. Says which controller gets a packet (proto/protocol.md
// §7), in runs on captures; at ports, platform/ports/steering.h does. The
// destination's external block has an owner, or else the live controller with
// the highest weight for the flow gets it; a weight is a hash of flow and
// controller (Thaler and Ravishankar, "Using Name-Based Mappings to Increase
// Hit Rates", 1998). So flows of a controller that leaves are spread over the
// others, and all other flows stay. Each change that is accepted raises the
// epoch by one; one that is refused changes nothing.
//
// A block that outlives its controller has no owner until it is given again:
// its packets are steered by the flow meanwhile. A flow that goes on under
// another controller takes its external endpoint along: that one is pinned.
//
// Worked example: controllers 1 and 2; block {203.0.113.9, ports 1024-2047} is
// 2's. A packet to 203.0.113.9:1500 goes to 2, one to 203.0.113.9:80 to the one
// with the higher weight.
//
// A value; owner-thread only. Steer costs O(log blocks + controllers).
class DispatchTable {
 public:
  // The most blocks: as many as there are ports of 64 addresses, by 1,024.
  static constexpr size_t kMaxBlocks = 4'096;
  static constexpr size_t kMaxPins = 1 << 20;

  // The external ports first … last of an address.
  struct Block {
    IpAddress address;
    uint16_t first = 0;
    uint16_t last = 0;
  };

  uint64_t epoch() const { return epoch_; }
  uint64_t refused() const { return refused_; }

  // Return false, and count a refusal: Join if the controller is live already,
  // Leave if it is not, Give if the owner is not live, the block is empty or
  // overlaps another, or there are kMaxBlocks.
  bool Join(ControllerId controller);
  bool Leave(ControllerId controller);
  bool Give(const Block& block, ControllerId owner);
  // Packets to that external endpoint, which a flow has, go to this controller
  // from now on, whatever block it is in. Returns false, and counts a refusal,
  // if there are kMaxPins others. Pins outlive their controllers.
  bool Pin(const FlowKey& endpoint, ControllerId owner);

  // Returns the controller of a packet with this destination, whose flow has
  // this symmetric key; none if no controller is live.
  std::optional<ControllerId> Steer(const IpAddress& destination, uint16_t port,
                                    const FlowKey& connection) const;
  // The same of a packet to an external endpoint.
  std::optional<ControllerId> SteerTo(const FlowKey& endpoint) const;
  // The controller to which the endpoint is pinned, or whose block it is in.
  std::optional<ControllerId> OwnerOf(const FlowKey& endpoint) const;

 private:
  struct Owned {
    uint16_t last;
    ControllerId owner;
  };
  std::optional<ControllerId> FindBlock(const IpAddress& address,
                                        uint16_t port) const;
  bool Refuse() {
    ++refused_;
    return false;
  }

  uint64_t epoch_ = 0;
  uint64_t refused_ = 0;
  std::vector<ControllerId> live_;  // in ascending order
  // By address and first port; no two overlap.
  std::map<std::pair<IpAddress, uint16_t>, Owned> blocks_;
  absl::flat_hash_map<FlowKey, ControllerId, FlowKeyHash> pins_;
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_CORE_DISPATCH_TABLE_H_
