// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_DISPATCH_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_DISPATCH_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/packet/flow_key.h"
#include "base/rng.h"
#include "resource_manager/core/dispatch_table.h"
#include "runtime/sdk/nf.h"

namespace snf {

// Knows which of several controllers take flows, and which one takes which
// flow. A controller that joins waits until it has a unit. Owner-thread only.
class ClusterDispatch {
 public:
  // The run begins with that many controllers. The NF must outlive the object.
  ClusterDispatch(const NetworkFunction& example, uint32_t controllers)
      : example_(example), controllers_(controllers) {}

  // Lets the controller take flows from now on.
  void Add(ControllerId id);
  // The controller is to take flows once it has a unit: Enter adds it, and
  // returns false if it does not wait for that.
  void Await(ControllerId id) { joining_.push_back(id); }
  bool Enter(ControllerId id);
  void Remove(ControllerId id);

  // Returns the controllers that take flows, in the order in which they came.
  const std::vector<ControllerId>& live() const { return live_; }
  // Returns true if the controller takes flows, or waits to.
  bool has(ControllerId id) const;
  // Returns that controller, or a random one for Kill::kAnyController, if it
  // takes flows.
  std::optional<ControllerId> Choose(int controller, Rng& rng) const;

  // Returns the controller of a packet with that key.
  ControllerId Steer(const FlowKey& key, bool by_alias) const;
  // Packets to this alias belong to the controller from now on.
  void on_alias(ControllerId of, const FlowKey& alias);

 private:
  const NetworkFunction& example_;
  uint32_t controllers_;
  DispatchTable table_;
  std::vector<ControllerId> live_;
  std::vector<ControllerId> joining_;
  std::map<IpAddress, bool> external_;  // addresses whose blocks are given
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_DISPATCH_H_
