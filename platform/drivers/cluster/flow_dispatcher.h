// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_CLUSTER_FLOW_DISPATCHER_H_
#define SNF_PLATFORM_DRIVERS_CLUSTER_FLOW_DISPATCHER_H_

#include <cstdint>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "base/messages/lease_messages.h"
#include "base/packet/flow_key.h"
#include "base/packet/ip_address.h"
#include "platform/run/run_setup.h"
#include "resource_manager/core/dispatch_table.h"
#include "runtime/sdk/nf.h"

namespace snf {

// Gives controllers 0 … n - 1 their blocks of an external address: parts[c] has
// the blocks of controller c (PartsOf).
void GiveBlocks(const std::vector<std::vector<PieceRange>>& parts,
                IpAddress address, DispatchTable& table);

// Chooses the controller, of 0 … n - 1, of a flow (proto/protocol.md §7). A
// packet to an alias, an external endpoint, is for the controller that has the
// alias's block; else a hash of the flow decides. An address has blocks from
// its first alias on.
//
// A value; owner-thread only.
class FlowDispatcher {
 public:
  // Returns an error if that number of controllers cannot run the NF. `units`
  // counts the units of all of them, and of controllers that join.
  static absl::Status Check(const NetworkFunction& example,
                            uint32_t controllers, uint64_t units);

  // The NF must pass Check; `controllers` ≤ 255.
  FlowDispatcher(const NetworkFunction& example, uint32_t controllers);

  // With `by_alias`, the key is an alias, whose block decides.
  ControllerId Steer(const FlowKey& key, bool by_alias) const;
  // A flow of the controller has this alias from now on. Returns false if the
  // alias is in another controller's block.
  bool on_alias(ControllerId of, const FlowKey& alias);

 private:
  std::vector<std::vector<PieceRange>> blocks_;  // by controller
  DispatchTable table_;
  std::set<IpAddress> external_;  // addresses whose blocks are given
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_CLUSTER_FLOW_DISPATCHER_H_
