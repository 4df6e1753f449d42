// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_MOVED_FLOW_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_MOVED_FLOW_H_

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "controller/hand_over/hand_over.h"
#include "platform/check/checker.h"
#include "platform/run/run_digests.h"
#include "runtime/core/unit.h"

namespace snf {

// A flow on its way from one controller's driver to another's.
struct MovedFlow {
  HandedFlow flow;
  State state;
  std::vector<std::byte> record;  // of the state
  // Not part of the message: the run's digests and checks of the flow so far.
  RunDigests::OfFlow digests;
  Checker::Moved checked;
};

// States of flows that came from another controller (flow_moves.h). A state
// waits here for the null packet that the controller sends ahead, and comes to
// the same unit. Owner-thread only.
class ArrivingFlows {
 public:
  // The flow must not be here.
  void Add(FlowId flow, State state, std::vector<std::byte> record) {
    state.flow = flow;
    state.pushed = true;
    const bool is_new =
        states_.try_emplace(flow, Arriving{state, std::move(record)}).second;
    SNF_CHECK(is_new);
  }
  // Hands the unit the state that comes with this packet, if any does.
  void on_packet(Instant now, const PacketMeta& meta, Unit& unit) {
    if (states_.empty()) return;
    const auto arriving = states_.find(meta.flow);
    if (arriving == states_.end()) return;
    const Arriving& came = arriving->second;
    SNF_CHECK(unit.on_handed_over(now, came.state, came.record));
    states_.erase(arriving);
  }
  // The packet that was to bring the flow's state was never sent.
  void on_unsent(FlowId flow) { states_.erase(flow); }

 private:
  struct Arriving {
    State state;
    std::vector<std::byte> record;
  };

  std::map<FlowId, Arriving> states_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_MOVED_FLOW_H_
