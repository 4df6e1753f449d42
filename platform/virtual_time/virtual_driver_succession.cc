// SPDX-License-Identifier: Apache-2.0
//
// What a run does where a controller fails (controller_faults.h).
#include "platform/run/run_setup.h"
#include "platform/virtual_time/virtual_driver.h"

namespace snf {

void VirtualDriver::Succeed(uint32_t epoch) {
  ControllerOptions options = options_.controller;
  options.epoch = epoch;
  controller_ = Controller(options, policy_);
  controller_.set_decision_observer(observers_.decision_observer());
  AddPiecePools(*example_, controller_);
}

void VirtualDriver::ExecuteOf(const ControllerOut& out) {
  for (const ControllerCommand& command : out.commands()) Execute(command);
}

Alias VirtualDriver::TakeAlias() {
  const Alias alias = aliases_.front();
  aliases_.pop_front();
  return alias;
}

void VirtualDriver::HandleHeld(const Event& event, const Alias& alias) {
  if (event.kind == Event::Kind::kAliasAtController) {
    aliases_.push_front(alias);
  }
  Handle(event);
}

// What the controller that failed had in its buffers.
void VirtualDriver::Unsent(const Event& event) {
  if (event.kind == Event::Kind::kPacketAtUnit) {
    --in_channels_;
    --units_.of(event.unit).process.in_channel;
    observers_.on_unsent(now(), event.unit, event.meta);
    if (event.packet == kNoPacket) return;
    exits_.Drop(now(), event.packet, DropReason::kControllerFailed);
  } else if (event.kind == Event::Kind::kEndFlowAtUnit) {
    observers_.on_end_unsent(now(), event.end);
  } else if (event.kind == Event::Kind::kAliasAckAtUnit) {
    // The flow does not have it, and asks again.
    FlowNote lost;
    lost.flow = event.alias_ack.flow;
    lost.clock = event.alias_ack.clock;
    lost.over = true;
    observers_.on_flow_note(lost);
  } else if (event.kind == Event::Kind::kPiecesAtUnit &&
             event.pieces.mask != 0) {
    observers_.on_grant_unsent(now(), event.pieces);
  }
}

}  // namespace snf
