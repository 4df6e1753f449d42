// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_GROUP_AWAY_LIST_H_
#define SNF_PLATFORM_DAEMON_GROUP_AWAY_LIST_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "base/rendezvous.h"
#include "controller/core/controller.h"
#include "controller/hand_over/standby_flows.h"
#include "platform/daemon/group/away_flows.h"
#include "platform/daemon/group/host_homes.h"

namespace snf {

// Lists the flows of which a member is told that has come back
// (proto/protocol.md H8): flows of hosts that it has from now on, and of which
// others have the pieces. Such flows run here, or wait here as copies, or
// packets of them go from here to another member.
//
// Owner-thread only.
class AwayList {
 public:
  explicit AwayList(HostHomes hosts) : hosts_(std::move(hosts)) {}

  // Begins again, for hosts of these homes.
  void Begin(MemberSet homes, const StandbyFlows& copies,
             const AwayFlows& away);
  // Looks at some flows of the controller, whose pieces `home_of` tells.
  // Returns true once it has looked at all.
  bool Look(const Controller& c, absl::FunctionRef<uint32_t(FlowId)> home_of);
  // Returns the next flow that was found.
  std::optional<AwayFlow> Next();

 private:
  void Add(const FlowName& name, uint32_t home);

  HostHomes hosts_;
  MemberSet homes_ = 0;
  uint32_t next_slot_ = 0;
  std::vector<AwayFlow> found_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_GROUP_AWAY_LIST_H_
