// SPDX-License-Identifier: Apache-2.0
#include "controller/live/loop_commands.h"

#include <span>

#include "controller/live/loop_recovery.h"
#include "controller/live/unled_loop.h"

namespace snf {

LoopCommands::LoopCommands(const ControllerLoopOptions& options,
                           Controller& controller, LoopLinks& links,
                           std::optional<LoopRecovery>& recovery,
                           std::optional<UnledLoop>& unled)
    : is_leased_(options.controller.leased),
      shares_units_(options.shares_units),
      controller_(controller),
      links_(links),
      recovery_(recovery),
      unled_(unled),
      starter_(options.cold_start_delay, options.warm_start_delay,
               options.controller.max_units),
      leased_up_(options.controller.max_units) {}

void LoopCommands::Execute(Instant now, const ControllerCommand& command,
                           ControllerEvents& events) {
  using Kind = ControllerCommand::Kind;
  switch (command.kind) {
    case Kind::kDrop:
      aliases_unknown_ += command.reason == DropReason::kNoAlias ? 1 : 0;
      if (recovery_.has_value()) recovery_->OnEnd(command.packet);
      events.on_drop(now, command.packet, command.reason);
      return;
    case Kind::kName:
      if (hears(command.unit)) SendName(command);
      return;
    case Kind::kStartUnit:
      SetUp(now, command.unit, true, events);
      if (starter_.Begin(now, command)) FinishStart(now, command);
      return;
    case Kind::kParkUnit:
      SetUp(now, command.unit, false, events);
      // The start has failed: it is no longer under way.
      starter_.Forget([&](UnitId unit) { return unit == command.unit; });
      break;
    case Kind::kEndFlow:
      events.on_end_flow(command.end);
      break;
    case Kind::kForsake:
      // All units hear of it, one of them as the owner.
      events.on_forsake(now, command.end);
      break;
    case Kind::kSeal:
      recovery_->SendSeal(command);
      return;
    case Kind::kForget:
      if (!command.of_logger) break;
      links_.loggers()[links_.loop_of(command.unit)].out->Send(command);
      return;
    default:
      break;
  }
  if (hears(command.unit)) Send(command);
}

void LoopCommands::FinishStart(Instant now, const ControllerCommand& command) {
  Send(command);
  // The unit's loop runs: what follows in the link finds the unit started.
  controller_.on_unit_ready(now, command.unit);
}

void LoopCommands::SendName(const ControllerCommand& command) {
  const FlowName name = controller_.NameOf(command.end.flow);
  links_.to(command.unit).Send(command, std::as_bytes(std::span(&name, 1)));
}

void LoopCommands::FinishStarts(Instant now) {
  starter_.TakeReady(
      now, [&](const ControllerCommand& start) { FinishStart(now, start); });
}

void LoopCommands::BeginStarts(Instant now, size_t loop) {
  starter_.BeginLoop(now,
                     [&](UnitId unit) { return links_.loop_of(unit) == loop; });
}

void LoopCommands::SetUp(Instant now, UnitId unit, bool is_up,
                         ControllerEvents& events) {
  if (unled_.has_value()) unled_->set_up(unit, is_up);
  // A lease may begin anew while its unit is being left.
  if (is_leased_) {
    if (shares_units_ || leased_up_[value(unit)] == is_up) return;
    leased_up_[value(unit)] = is_up;
  }
  if (is_up) {
    events.on_unit_up(now, unit);
  } else {
    events.on_unit_down(now, unit);
  }
}

}  // namespace snf
