// SPDX-License-Identifier: Apache-2.0
//
// What a controller's loop does when its controller has failed.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "controller/live/controller_loop.h"
#include "runtime/wire/link_payload.h"

namespace snf {

// Of what is for the loop, some messages are sent still.
void ControllerLoop::CutLink(size_t loop, Rng& rng, ControllerEvents& events) {
  LinkOut& out = links_.loops[loop].out;
  const auto cut = [&](const Cell& cell) {
    on_unsent(cell.As<ControllerCommand>(), loop, events);
  };
  const size_t staged = out.CountStaged(PayloadFromController);
  out.Cut(PayloadFromController, rng.Below(staged + 1), cut);
  if (!shares_thread_ && !out.FlushWhole(PayloadFromController)) {
    out.Cut(PayloadFromController, 0, cut);
  }
}

// What becomes of a message that the controller had in its buffers.
void ControllerLoop::on_unsent(const ControllerCommand& command, size_t loop,
                               ControllerEvents& events) {
  using Kind = ControllerCommand::Kind;
  switch (command.kind) {
    case Kind::kEnqueue:
      --in_channels_;
      if (under_way_.size() > 0) --under_way_[slot_of(command.meta.flow)];
      if (recovery_.has_value()) recovery_->packets.Remove(command);
      ++succession_->figures().clocks_lost;
      if (command.packet != kNoPacket) LosePacket(command.packet, events);
      return;
    case Kind::kDrop:
      // It is on its way home, and the loop's.
      succession_->of_loop(loop).returns.push_back(command.packet);
      return;
    case Kind::kStartUnit:
      // Whoever starts it finds that it did not begin.
      starting_.push_back({.ready = now_, .command = command});
      next_ready_ = std::min(next_ready_, now_);
      return;
    case Kind::kAliasAck:
      // The flow does not have it, and asks again.
      if (command.alias_ack.result == AliasResult::kGranted) {
        events.on_alias_over(command.alias_ack.flow, command.alias_ack.clock);
      }
      return;
    default:
      return;
  }
}

void ControllerLoop::LosePacket(PacketHandle packet, ControllerEvents& events) {
  ++succession_->figures().packets_lost;
  events.on_drop(now_, packet, DropReason::kControllerFailed);
}

void ControllerLoop::Succeed() {
  SNF_CHECK(succession_.has_value());
  const uint32_t epoch = succession_->Succeed();
  links_.controllers->newest.store(epoch, std::memory_order_release);
  for (const ControllerLinks::UnitLoopEnds& loop : links_.loops) {
    loop.bell->Ring();
  }
}

// Packets that come while there is no controller.
void ControllerLoop::HoldBatch(ControllerEvents& events) {
  for (const Arrival& arrival : batch_) {
    if (succession_->Hold(arrival)) continue;
    events.on_drop(now_, arrival.packet, DropReason::kControllerFailed);
  }
  batch_.clear();
}

// Takes a word that is not about a packet, while there is no controller.
void ControllerLoop::HandleUnled(size_t loop, bool of_logger, const Cell& cell,
                                 std::span<const std::byte> payload) {
  using Kind = UnitCommand::Kind;
  LinkIn& in = of_logger ? links_.loggers[loop].in : links_.loops[loop].in;
  const WordsToController& words =
      of_logger ? logger_words_[loop] : words_[loop];
  if (!words.IsSound(cell, payload)) return in.Close();
  const auto& word = cell.As<UnitCommand>();
  if (word.kind == Kind::kSendNote || word.kind == Kind::kSendEnded) {
    succession_->Keep(word);
    return;
  }
  if (word.kind < Kind::kReportName) return;  // it was for the one before
  if (!succession_->on_word(loop, of_logger, word, payload)) {
    words.Refuse(word.unit, "report", "kind", static_cast<uint8_t>(word.kind));
    in.Close();
  } else if (word.kind == Kind::kReported) {
    in.Pause();
  }
}

// All have reported.
void ControllerLoop::BeginSuccessor(ControllerEvents& events) {
  std::vector<UnitId> starting;
  for (const UnitStart& start : starting_) {
    starting.push_back(start.command.unit);
  }
  if (!succession_->Begin(controller_, now_, starting, in_channels_)) {
    words_[0].Refuse(kNoUnit, "report", "packets", in_channels_);
  }
  if (recovery_.has_value()) {
    recovery_->packets = PacketsUnderWay(*links_.buffers);
    for (const PacketsUnderWay::Sent& sent : succession_->packets()) {
      recovery_->packets.Add(
          ControllerCommand::Enqueue(sent.unit, sent.packet, sent.meta));
    }
  }
  for (ControllerLinks::UnitLoopEnds& loop : links_.loops) loop.in.GoOn();
  for (ControllerLinks::LoggerLoopEnd& loop : links_.loggers) loop.in.GoOn();
  for (size_t i = 0; i < links_.loops.size(); ++i) {
    for (const PacketHandle packet :
         std::exchange(succession_->of_loop(i).returns, {})) {
      links_.loops[i].out.Send(ControllerCommand::Drop(packet, {}));
    }
  }
  TellUnits(events);
  events.on_successor(now_, controller_);
}

// The successor takes other units for up than the one before, perhaps.
void ControllerLoop::TellUnits(ControllerEvents& events) {
  for (uint32_t i = 0; i < controller_.units().max_units(); ++i) {
    const UnitId unit{static_cast<uint16_t>(i)};
    const UnitPool::State state = controller_.units().state(unit);
    const bool is_up = state == UnitPool::State::kActive ||
                       state == UnitPool::State::kStarting;
    if (is_up == succession_->was_up(unit)) continue;
    if (is_up) {
      events.on_unit_up(now_, unit);
    } else {
      events.on_unit_down(now_, unit);
    }
    succession_->set_up(unit, is_up);
  }
}

// What notes and ends of flows lead to is in out_.
void ControllerLoop::HandleTell(const UnitCommand& word,
                                ControllerEvents& events) {
  out_.clear();
  if (word.kind == UnitCommand::Kind::kSendEnded) {
    controller_.on_ended(word.ended.flow);
    return;
  }
  if (word.note.over) events.on_alias_over(word.note.flow, word.note.clock);
  controller_.on_flow_note(now_, word.note, out_);
  if (succession_.has_value()) succession_->Note(word);
}

void ControllerLoop::SendName(const ControllerCommand& command) {
  const FlowName name = controller_.NameOf(command.end.flow);
  if (name.key == FlowKey{}) return;  // it is over already
  link_to_[value(command.unit)]->Send(command,
                                      std::as_bytes(std::span(&name, 1)));
}

}  // namespace snf
