// SPDX-License-Identifier: Apache-2.0
#include "controller/live/loop_recovery.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "controller/live/controller_loop.h"

namespace snf {

// Comes before the controller hears of the failure: the units get nothing more,
// and their loggers take what the units had sent.
void LoopRecovery::EndChannels(size_t loop) {
  ControllerLinks::UnitLoopEnds& ends = loop_.links_.loops()[loop];
  ends.in.SkipAll();
  ends.out.SkipAll();
  if (loop_.links_.relay().has_value()) loop_.links_.relay()->EndLoop(loop);
  ends.progress->next_due.store(Instant::max().ns);
  const uint32_t units = loop_.controller_.units().max_units();
  for (auto unit = static_cast<uint32_t>(loop); unit < units;
       unit += static_cast<uint32_t>(loops_.size())) {
    loop_.tables_.homes().on_unit_failed(UnitId{static_cast<uint16_t>(unit)});
  }
  Loop& ended = loops_[loop];
  ended.has_ended = true;
  ended.starts = false;
  ended.started.clear();
  ControllerLinks::LoggerLoopEnd& loggers = loop_.links_.loggers()[loop];
  loggers.control->ends.fetch_add(1, std::memory_order_seq_cst);
  loggers.bell->Ring();
}

// Returns true if another loop that has units runs, or is begun when one of its
// units starts.
bool LoopRecovery::HasOther(size_t loop) const {
  const size_t loops =
      std::min<size_t>(loops_.size(), loop_.controller_.units().max_units());
  for (size_t other = 0; other < loops; ++other) {
    if (other == loop) continue;
    if (loop_.commands_.starter().has_starter() || !loops_[other].has_ended)
      return true;
  }
  return false;
}

// Moves commands to units that were started while their loop ended, or are now,
// from the loop's out_ to `kept`.
void LoopRecovery::TakeStarted(size_t loop,
                               std::vector<ControllerCommand>& kept) {
  std::vector<UnitId>& started = loops_[loop].started;
  const ControllerOut all = loop_.out_;
  loop_.out_.clear();
  for (const ControllerCommand& command : all.commands()) {
    const bool is_of_loop = command.kind != ControllerCommand::Kind::kSeal &&
                            command.unit != kNoUnit &&
                            loop_.links_.loop_of(command.unit) == loop;
    if (is_of_loop && command.kind == ControllerCommand::Kind::kStartUnit) {
      started.push_back(command.unit);
    }
    if (is_of_loop && std::ranges::count(started, command.unit) > 0) {
      kept.push_back(command);
    } else {
      loop_.out_.push(command);
    }
  }
}

// Lets the first unit of the loop fail, from `unit` on, that has something to
// lose. Leaves in out_ what the controller commands, and in `unit` the next
// unit of the loop. Returns false if there is no such unit.
bool LoopRecovery::FailNext(size_t loop, uint32_t& unit,
                            ControllerEvents& events) {
  const UnitPool& units = loop_.controller_.units();
  const auto loops = static_cast<uint32_t>(loops_.size());
  Loop& ended = loops_[loop];
  for (; unit < units.max_units(); unit += loops) {
    const UnitId id{static_cast<uint16_t>(unit)};
    const UnitState state = units.state(id);
    if (state == UnitState::kStopped || state == UnitState::kCrashed) continue;
    if (std::ranges::count(ended.started, id) > 0) continue;
    old_numbers_[unit] = units.channel_number(id);
    ended.awaits_survivors = true;
    ended.round = 0;  // older answers are not enough
    ended.unsealed.push_back(id);
    if (state == UnitState::kActive || state == UnitState::kStarting ||
        loop_.commands_.is_leased()) {
      loop_.commands_.SetUp(loop_.now_, id, false, events);
    }
    loop_.commands_.starter().Forget(
        [id](UnitId other) { return other == id; });
    loop_.out_.clear();
    SNF_CHECK(loop_.controller_.on_unit_failed(
        loop_.now_, id, units.incarnation(id), loop_.out_));
    unit += loops;
    return true;
  }
  return false;
}

bool LoopRecovery::MayBegin(size_t loop) const {
  const LogControl& control = *loop_.links_.loggers()[loop].control;
  const Loop& ended = loops_[loop];
  return !ended.awaits_survivors && ended.unsealed.empty() &&
         control.drained.load(std::memory_order_acquire) ==
             control.ends.load(std::memory_order_relaxed);
}

void LoopRecovery::Start(size_t loop) {
  loops_[loop].starts = true;
  // The last process may have written there.
  for (const PacketHandle packet : loops_[loop].buffers) {
    if (!loop_.links_.copies().empty())
      loop_.links_.copies()[loop].Claim(packet);
  }
}

void LoopRecovery::Begin(size_t loop) {
  Loop& begun = loops_[loop];
  begun.has_ended = begun.starts = false;
  for (const PacketHandle packet : begun.buffers) {
    loop_.ReturnBuffer(BufferPool::Party{static_cast<uint8_t>(loop + 1)},
                       packet);
  }
  begun.buffers.clear();
}

bool LoopRecovery::KeepBuffer(size_t loop, PacketHandle packet) {
  if (!loops_[loop].has_ended) return false;
  loops_[loop].buffers.push_back(packet);
  return true;
}

bool LoopRecovery::any_ended() const {
  return std::ranges::any_of(loops_, &Loop::has_ended);
}

void LoopRecovery::SendSeal(const ControllerCommand& command) {
  const Seal& seal = command.seal;
  const size_t loop = loop_.links_.loop_of(seal.unit);
  Loop& ended = loops_[loop];
  if (ended.awaits_survivors && ended.round == 0 && !seal.is_sealed) {
    ended.round = seal.round;
  }
  loop_.links_.loggers()[loop].out->Send(command);
}

void LoopRecovery::on_done(const DoneAnswer& done, bool of_logger,
                           ControllerEvents& events) {
  Controller& controller = loop_.controller_;
  if (!of_logger) {
    controller.on_done(loop_.now_, done, loop_.out_);
    return;
  }
  const size_t loop = loop_.links_.loop_of(done.unit);
  Loop& ended = loops_[loop];
  if (ended.round != 0 && done.round >= ended.round) {
    // The loggers have taken all that the units had sent before they answered
    // to that Seal.
    if (ended.awaits_survivors) TakeSurvivors(loop, events);
    if (done.flow == kNoFlow) std::erase(ended.unsealed, done.unit);
  }
  controller.on_sealed(loop_.now_, done, loop_.out_);
}

// Packets that are still under way to the failed units of the loop, or in them,
// are in no logger. Units that were started since have not failed.
void LoopRecovery::TakeSurvivors(size_t loop, ControllerEvents& events) {
  Loop& ended = loops_[loop];
  ended.awaits_survivors = false;
  const PacketHandle condemned = std::exchange(ended.condemned, kNoPacket);
  const FlowId condemned_flow = std::exchange(ended.condemned_flow, kNoFlow);
  const auto is_condemned = [=](const PacketsUnderWay::Sent& sent) {
    return sent.packet == condemned || sent.meta.flow == condemned_flow;
  };
  const auto is_lost = [&](UnitId unit) {
    return loop_.links_.loop_of(unit) == loop && !loop_.commands_.hears(unit);
  };
  // A packet that had set its flow's alias will set it again.
  TakeLost(
      is_lost, loop_.controller_.aliases(), events,
      [&](const PacketsUnderWay::Sent& sent) {
        if (sent.packet == kNoPacket) return;
        if (is_condemned(sent)) {
          events.on_drop(loop_.now_, sent.packet, DropReason::kNfFailed);
        } else if (!loop_.controller_.on_survivor(sent.meta, sent.packet)) {
          events.on_drop(loop_.now_, sent.packet, DropReason::kUnitFailed);
        } else if (loop_.unled_.has_value()) {
          survivors_.insert(sent.packet);
        }
      });
}

absl::flat_hash_set<PacketHandle> LoopRecovery::Abandon() {
  for (size_t i = 0; i < loops_.size(); ++i) {
    Loop& loop = loops_[i];
    loop.awaits_survivors = false;
    loop.condemned = kNoPacket;
    loop.condemned_flow = kNoFlow;
    loop.round = 0;
    loop.unsealed.clear();
    loop.started.clear();
    if (IsDead(i)) loop_.links_.loops()[i].out.SkipAll();
  }
  return std::exchange(survivors_, {});
}

void LoopRecovery::on_successor() {
  for (uint32_t i = 0; i < loop_.controller_.units().max_units(); ++i) {
    const UnitId unit{static_cast<uint16_t>(i)};
    if (!IsDead(i % loops_.size())) continue;
    old_numbers_[i] = loop_.controller_.units().channel_number(unit);
  }
}

}  // namespace snf
