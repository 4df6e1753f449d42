// SPDX-License-Identifier: Apache-2.0
//
// What a controller's loop does when a loop of units has ended.
#include <algorithm>

#include "base/check.h"
#include "controller/live/controller_loop.h"

namespace snf {

bool ControllerLoop::IsRecovering() const {
  return controller_.is_recovering() ||
         (recovery_.has_value() &&
          std::ranges::any_of(recovery_->loops, &Recovery::Loop::has_ended));
}

// Before anybody hears of the failure: what the units did not get they never
// will, and their loggers take what the units had sent.
void ControllerLoop::EndChannels(size_t loop) {
  SNF_CHECK(recovery_.has_value());
  ControllerLinks::UnitLoopEnds& ends = links_.loops[loop];
  ends.in.SkipAll();
  ends.out.SkipAll();
  ends.progress->next_due.store(Instant::max().ns);
  const uint32_t units = controller_.units().max_units();
  for (auto unit = static_cast<uint32_t>(loop); unit < units;
       unit += static_cast<uint32_t>(links_.loops.size())) {
    tables_.on_unit_failed(UnitId{static_cast<uint16_t>(unit)});
  }
  recovery_->loops[loop].has_ended = true;
  recovery_->loops[loop].started.clear();
  ControllerLinks::LoggerLoopEnd& loggers = links_.loggers[loop];
  loggers.control->ends.fetch_add(1, std::memory_order_seq_cst);
  loggers.bell->Ring();
}

// Returns true if a loop that has units goes on without this one.
bool ControllerLoop::HasOtherLoop(size_t loop) const {
  const size_t loops =
      std::min<size_t>(links_.loops.size(), controller_.units().max_units());
  for (size_t other = 0; other < loops; ++other) {
    if (other != loop && !recovery_->loops[other].has_ended) return true;
  }
  return false;
}

// Takes what is for units of the loop that are started now, or were while it
// ended, out of out_.
void ControllerLoop::TakeStarted(size_t loop,
                                 std::vector<ControllerCommand>& kept) {
  std::vector<UnitId>& started = recovery_->loops[loop].started;
  const ControllerOut all = out_;
  out_.clear();
  for (const ControllerCommand& command : all.commands()) {
    const bool is_of_loop = command.kind != ControllerCommand::Kind::kSeal &&
                            command.unit != kNoUnit &&
                            value(command.unit) % links_.loops.size() == loop;
    if (is_of_loop && command.kind == ControllerCommand::Kind::kStartUnit) {
      started.push_back(command.unit);
    }
    if (is_of_loop && std::ranges::count(started, command.unit) > 0) {
      kept.push_back(command);
    } else {
      out_.push(command);
    }
  }
}

// Lets the first unit of the loop fail, from `unit` on, that has something to
// lose; leaves in out_ what the controller commands, and the next one in
// `unit`. Returns false if there is none.
bool ControllerLoop::FailNext(size_t loop, uint32_t& unit,
                              ControllerEvents& events) {
  using UnitState = UnitPool::State;
  const UnitPool& units = controller_.units();
  const auto loops = static_cast<uint32_t>(links_.loops.size());
  for (; unit < units.max_units(); unit += loops) {
    const UnitId id{static_cast<uint16_t>(unit)};
    const UnitState state = units.state(id);
    if (state == UnitState::kStopped || state == UnitState::kCrashed) continue;
    if (std::ranges::count(recovery_->loops[loop].started, id) > 0) continue;
    recovery_->old_numbers[unit] = units.channel_number(id);
    Recovery::Loop& ended = recovery_->loops[loop];
    ended.awaits_survivors = true;
    ended.round = 0;  // older answers are not enough
    ended.unsealed.push_back(id);
    if (state == UnitState::kActive || state == UnitState::kStarting) {
      if (succession_.has_value()) succession_->set_up(id, false);
      events.on_unit_down(now_, id);
    }
    std::erase_if(starting_, [id](const UnitStart& start) {
      return start.command.unit == id;
    });
    out_.clear();
    SNF_CHECK(
        controller_.on_unit_failed(now_, id, units.incarnation(id), out_));
    unit += loops;
    return true;
  }
  return false;
}

bool ControllerLoop::MayBegin(size_t loop) const {
  const LogControl& control = *links_.loggers[loop].control;
  const Recovery::Loop& ended = recovery_->loops[loop];
  return !ended.awaits_survivors && ended.unsealed.empty() &&
         control.drained.load(std::memory_order_acquire) ==
             control.ends.load(std::memory_order_relaxed);
}

void ControllerLoop::BeginLoop(size_t loop) {
  Recovery::Loop& begun = recovery_->loops[loop];
  begun.has_ended = false;
  for (const PacketHandle packet : begun.buffers) {
    ReturnBuffer(BufferPool::Party{static_cast<uint8_t>(loop + 1)}, packet);
  }
  begun.buffers.clear();
  links_.loops[loop].out.Flush();
}

void ControllerLoop::SendSeal(const ControllerCommand& command) {
  const Seal& seal = command.seal;
  const size_t loop = value(seal.unit) % links_.loops.size();
  Recovery::Loop& ended = recovery_->loops[loop];
  if (ended.awaits_survivors && ended.round == 0 && !seal.is_sealed) {
    ended.round = seal.round;
  }
  links_.loggers[loop].out->Send(command);
}

// Leaves in out_ what the controller commands.
void ControllerLoop::HandleRecovery(const UnitCommand& command, bool of_logger,
                                    ControllerEvents& events) {
  using Kind = UnitCommand::Kind;
  SNF_CHECK(recovery_.has_value());
  switch (command.kind) {
    case Kind::kSendDone: {
      if (!of_logger) {
        controller_.on_done(now_, command.done, out_);
        return;
      }
      const size_t loop = value(command.unit) % links_.loops.size();
      Recovery::Loop& ended = recovery_->loops[loop];
      if (ended.round != 0 && command.done.round >= ended.round) {
        // The loggers have taken all that the units had sent before they
        // answered to that Seal.
        if (ended.awaits_survivors) TakeSurvivors(loop, events);
        if (command.done.flow == kNoFlow) {
          std::erase(ended.unsealed, command.unit);
        }
      }
      controller_.on_sealed(now_, command.done, out_);
      return;
    }
    case Kind::kSendGrants:
      controller_.on_grants_sealed(now_, command.unit, command.grants, out_);
      return;
    default:
      SNF_CHECK(false);
  }
}

// What is still under way to or in the units of the loop that failed is in no
// logger. One that was started since waits for the next process.
void ControllerLoop::TakeSurvivors(size_t loop, ControllerEvents& events) {
  recovery_->loops[loop].awaits_survivors = false;
  const auto is_lost = [&](UnitId unit) {
    return value(unit) % links_.loops.size() == loop && !hears(unit);
  };
  recovery_->packets.TakeOut(is_lost, [&](const PacketsUnderWay::Sent& sent) {
    --in_channels_;
    const uint32_t slot = slot_of(sent.meta.flow);
    if (under_way_.size() > 0) --under_way_[slot];
    // What set the flow's alias is done again.
    if (controller_.aliases().clock(slot) == sent.meta.clock) {
      events.on_alias_over(sent.meta.flow, sent.meta.clock);
    }
    if (sent.packet == kNoPacket) {
      ++recovery_->null_packets_lost;
      return;
    }
    events.on_survivor(sent.packet, sent.meta);
    if (!controller_.on_survivor(sent.meta, sent.packet)) {
      events.on_drop(now_, sent.packet, DropReason::kUnitFailed);
    }
  });
}

}  // namespace snf
