// SPDX-License-Identifier: Apache-2.0
//
// What a controller's loop does when a loop of units has ended, or when its
// controller has failed.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/check.h"
#include "controller/core/owner_history.h"
#include "controller/live/controller_loop.h"
#include "runtime/wire/link_payload.h"

namespace snf {

// --- A loop of units has ended. ---

// With a starter, a loop that has ended may be at rest: what waits for it is
// seen elsewhere.
bool ControllerLoop::IsRecovering() const {
  return controller_.is_recovering() ||
         (recovery_.has_value() && starter_ == nullptr &&
          std::ranges::any_of(recovery_->loops, &Recovery::Loop::has_ended));
}

// Before anybody hears of the failure: what the units did not get they never
// will, and their loggers take what the units had sent.
void ControllerLoop::EndChannels(size_t loop) {
  SNF_CHECK(recovery_.has_value());
  ControllerLinks::UnitLoopEnds& ends = links_.loops[loop];
  ends.in.SkipAll();
  ends.out.SkipAll();
  if (relay_.has_value()) relay_->EndLoop(loop);
  ends.progress->next_due.store(Instant::max().ns);
  const uint32_t units = controller_.units().max_units();
  for (auto unit = static_cast<uint32_t>(loop); unit < units;
       unit += static_cast<uint32_t>(links_.loops.size())) {
    tables_.on_unit_failed(UnitId{static_cast<uint16_t>(unit)});
  }
  Recovery::Loop& ended = recovery_->loops[loop];
  ended.has_ended = true;
  ended.starts = false;
  ended.started.clear();
  ControllerLinks::LoggerLoopEnd& loggers = links_.loggers[loop];
  loggers.control->ends.fetch_add(1, std::memory_order_seq_cst);
  loggers.bell->Ring();
}

// Returns true if a loop that has units goes on without this one, or is begun
// when one of its units starts.
bool ControllerLoop::HasOtherLoop(size_t loop) const {
  const size_t loops =
      std::min<size_t>(links_.loops.size(), controller_.units().max_units());
  for (size_t other = 0; other < loops; ++other) {
    if (other == loop) continue;
    if (starter_ != nullptr || !recovery_->loops[other].has_ended) return true;
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
    if (state == UnitState::kActive || state == UnitState::kStarting ||
        is_leased_) {
      if (succession_.has_value()) succession_->set_up(id, false);
      TellUp(id, false, events);
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
  return has_controller() && !ended.awaits_survivors &&
         ended.unsealed.empty() &&
         control.drained.load(std::memory_order_acquire) ==
             control.ends.load(std::memory_order_relaxed);
}

void ControllerLoop::StartLoop(size_t loop) {
  recovery_->loops[loop].starts = true;
  // The last one may have written there.
  for (const PacketHandle packet : recovery_->loops[loop].buffers) {
    if (!links_.copies.empty()) links_.copies[loop].Claim(packet);
  }
  ControllerEpoch* const controllers = links_.loops[loop].controllers;
  if (controllers == nullptr || !succession_.has_value()) return;
  controllers->newest.store(succession_->epoch(), std::memory_order_release);
  controllers->begun.store(succession_->epoch(), std::memory_order_release);
}

void ControllerLoop::ReopenLoggers() {
  for (ControllerLinks::LoggerLoopEnd& loop : links_.loggers) {
    loop.in.Reopen();
  }
}

// The flow's history has the owners before the present one until all that they
// had is taken over, and each of them may ask those before it. Without a
// controller what the last one knew counts. Where that is not known, or some
// owner was forgotten, any unit may.
bool ControllerLoop::MayPull(const Pull& pull) const {
  if (!has_controller() && succession_->is_heir()) return true;
  const Controller& known =
      has_controller() ? controller_ : succession_->former();
  if (known.owners().forgotten() > 0) return true;
  const FlowTable& flows = known.flows();
  const uint32_t slot = slot_of(pull.flow);
  if (slot >= flows.used() ||
      flows.numbers(slot).generation != generation_of(pull.flow)) {
    return false;
  }
  bool may = flows.cold(slot).owner == pull.requester;
  known.owners().ForEach(slot, [&](const OwnerHistory::Run& run) {
    may |= run.unit == pull.requester;
  });
  return may;
}

bool ControllerLoop::IsUp(UnitId unit) const {
  if (!has_controller()) return succession_->was_up(unit);
  switch (controller_.units().state(unit)) {
    case UnitPool::State::kStopped:
    case UnitPool::State::kCrashed:
    case UnitPool::State::kFailed:
      return false;
    default:
      return true;
  }
}

// What a dead controller knew is out of date once a unit has failed since; of
// one of another process nothing is known.
bool ControllerLoop::NeedsLoggers() const {
  if (!has_controller() &&
      (succession_->is_heir() || recovery_->has_ended_unled)) {
    return true;
  }
  const Controller& known =
      has_controller() ? controller_ : succession_->former();
  bool is_source = known.is_recovering();
  for (uint32_t slot = 0; slot < known.flows().used(); ++slot) {
    known.owners().ForEach(slot, [&](const OwnerHistory::Run& run) {
      is_source |= run.at_logger && !run.is_taken && !run.is_superseded;
    });
  }
  return is_source;
}

void ControllerLoop::BeginLoop(size_t loop) {
  Recovery::Loop& begun = recovery_->loops[loop];
  begun.has_ended = begun.starts = false;
  for (const PacketHandle packet : begun.buffers) {
    ReturnBuffer(BufferPool::Party{static_cast<uint8_t>(loop + 1)}, packet);
  }
  begun.buffers.clear();
  FlushAll();
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
  packets_->TakeOut(is_lost, [&](const PacketsUnderWay::Sent& sent) {
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
    if (!controller_.on_survivor(sent.meta, sent.packet)) {
      events.on_drop(now_, sent.packet, DropReason::kUnitFailed);
    } else if (succession_.has_value()) {
      recovery_->survivors.insert(sent.packet);
    }
  });
}

// --- The controller has failed. ---

// Of what is for the loop, some messages are sent still; without `rng` none.
void ControllerLoop::CutLink(size_t loop, Rng* rng, ControllerEvents& events) {
  LinkOut& out = links_.loops[loop].out;
  const auto cut = [&](const Cell& cell) {
    on_unsent(cell.As<ControllerCommand>(), loop, events);
  };
  const size_t staged = out.CountStaged(PayloadFromController);
  out.Cut(PayloadFromController, rng != nullptr ? rng->Below(staged + 1) : 0,
          cut);
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
      if (packets_.has_value()) packets_->Remove(command);
      ++succession_->figures().clocks_lost;
      if (command.packet != kNoPacket) LosePacket(command.packet, events);
      return;
    case Kind::kDrop:
      // It is on its way home, and the loop's.
      succession_->of_loop(loop).returns.push_back(command.packet);
      return;
    case Kind::kStartUnit:
      if (is_leased_) return;  // the successor finds a unit that is not used
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

// The controller had packets that survived units, and was to hear of others.
// What is for the next process of a loop is not sent.
void ControllerLoop::AbandonRecovery(ControllerEvents& events) {
  if (!recovery_.has_value()) return;
  for (const PacketHandle packet : std::exchange(recovery_->survivors, {})) {
    LosePacket(packet, events);
  }
  for (size_t i = 0; i < links_.loops.size(); ++i) {
    Recovery::Loop& loop = recovery_->loops[i];
    loop.awaits_survivors = false;
    loop.round = 0;
    loop.unsealed.clear();
    loop.started.clear();
    if (IsDead(i)) links_.loops[i].out.SkipAll();
  }
}

void ControllerLoop::MakeNext() {
  options_.epoch = succession_->epoch() + 1;
  controller_ = Controller(options_, *policy_);
  prepare_(controller_);
  left_.clear();
}

// Before it has done all that is left to do: another one begins anew.
void ControllerLoop::FailAgain(ControllerEvents& events) {
  ReportDrained(events);
  succession_->Fail(std::move(controller_));
  for (size_t i = 0; i < links_.loops.size(); ++i) CutLink(i, nullptr, events);
  AbandonRecovery(events);
  MakeNext();
}

// The units of the loop have failed while there is no controller.
void ControllerLoop::EndUnits(size_t loop, ControllerEvents& events) {
  EndChannels(loop);
  recovery_->has_ended_unled = true;
  Succession::OfLoop& of_loop = succession_->of_loop(loop);
  of_loop.of_units = {};
  of_loop.returns.clear();  // the next process finds them
  const auto is_of_loop = [&](UnitId unit) {
    return value(unit) % links_.loops.size() == loop;
  };
  for (uint32_t i = 0; i < controller_.units().max_units(); ++i) {
    const UnitId unit{static_cast<uint16_t>(i)};
    if (!is_of_loop(unit) || !succession_->was_up(unit)) continue;
    succession_->set_up(unit, false);
    succession_->on_unit_failed(unit);
    events.on_unit_down(now_, unit);
  }
  std::erase_if(starting_, [&](const UnitStart& start) {
    return is_of_loop(start.command.unit);
  });
}

// --- So has its process. ---

// What the dead process had of packets that NFs made goes back to their units.
void ControllerLoop::Inherit(const PlacementPolicy& policy) {
  succession_->Inherit(links_.controllers->newest.load(),
                       tables_.newest_incarnation(),
                       Controller(options_, policy));
  options_.epoch = succession_->epoch() + 1;
  controller_ = Controller(options_, policy);
  links_.buffers->TakeAll();
  for (size_t i = 0; i < links_.copies.size(); ++i) {
    BufferPool& copies = links_.copies[i];
    const BufferPool::Party party{static_cast<uint8_t>(i + 1)};
    copies.ForEachClaimed(party, [&](PacketHandle packet) {
      copies.Disclaim(packet);
      succession_->of_loop(i).returns.push_back(packet);
    });
  }
}

// A packet left its unit, and did not come to its end. What the NF made is in a
// buffer of the unit's: those that the dead process had begun to handle were
// seen above, or are back already.
void ControllerLoop::LoseWord(size_t loop, const UnitCommand& command) {
  if (command.packet != kNoPacket) ++succession_->figures().packets_lost;
  if (command.kind != UnitCommand::Kind::kEmit) return;
  const ControllerLinks::LoggerLoopEnd& loggers = links_.loggers[loop];
  if (loggers.in.handled() <= loggers.note->taken.load()) return;
  succession_->of_loop(loop).returns.push_back(command.packet);
}

// All buffers but those of packets that were reported are free.
void ControllerLoop::TakeInherited() {
  for (const ControllerCommand& start : succession_->StartsOfWaiting()) {
    starting_.push_back({.ready = now_, .command = start});
    next_ready_ = std::min(next_ready_, now_);
  }
  absl::flat_hash_set<PacketHandle> reported;
  for (const PacketsUnderWay::Sent& sent : succession_->packets()) {
    ++in_channels_;
    if (under_way_.size() > 0) ++under_way_[slot_of(sent.meta.flow)];
    if (sent.packet == kNoPacket || reported.insert(sent.packet).second) {
      continue;
    }
    words_[value(sent.unit) % links_.loops.size()].Refuse(
        sent.unit, "report", "packet", value(sent.packet));
  }
  links_.buffers->FreeOthers(
      [&](PacketHandle packet) { return reported.contains(packet); });
}

void ControllerLoop::Succeed() {
  SNF_CHECK(succession_.has_value());
  if (lease_finder_ != nullptr) lease_finder_->on_failure();
  const uint32_t epoch = succession_->Succeed();
  for (const ControllerLinks::LoggerLoopEnd& loggers : links_.loggers) {
    if (loggers.control != nullptr) loggers.control->newest.store(epoch);
  }
  for (size_t i = 0; i < links_.loops.size(); ++i) {
    if (!IsDead(i)) continue;
    succession_->on_no_units(i);
    links_.loggers[i].control->asked.store(epoch, std::memory_order_seq_cst);
    links_.loggers[i].bell->Ring();
  }
  links_.controllers->newest.store(epoch, std::memory_order_release);
  // Before any of them can hear of another one that has seen it (U14).
  for (const ControllerLinks::UnitLoopEnds& loop : links_.loops) {
    if (loop.controllers == nullptr) continue;
    loop.controllers->newest.store(epoch, std::memory_order_release);
  }
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
  if (!words.IsSound(cell, payload)) {
    if (!of_logger || !recovery_.has_value()) in.Close();
    return;
  }
  if (cell.is_table()) return;  // what has no answer comes again
  const auto& word = cell.As<UnitCommand>();
  if (word.kind == Kind::kSendNote || word.kind == Kind::kSendEnded) {
    succession_->Keep(word);
    return;
  }
  if (word.kind < Kind::kReportName) return;  // it was for the one before
  if (!succession_->on_word(loop, of_logger, word, payload)) {
    words.Refuse(word.unit, "report", "kind", static_cast<uint8_t>(word.kind));
    in.Close();
  } else if (!succession_->awaits(loop, of_logger)) {
    in.Pause();
  }
}

// What was under way to units that have failed, or in them, nobody has
// reported.
void ControllerLoop::LosePacketsOfDead(ControllerEvents& events) {
  if (!recovery_.has_value()) return;
  const auto is_lost = [&](UnitId unit) {
    return IsDead(value(unit) % links_.loops.size());
  };
  packets_->TakeOut(is_lost, [&](const PacketsUnderWay::Sent& sent) {
    --in_channels_;
    if (under_way_.size() > 0) --under_way_[slot_of(sent.meta.flow)];
    ++succession_->figures().clocks_lost;
    const AliasTable& aliases = succession_->former().aliases();
    if (aliases.clock(slot_of(sent.meta.flow)) == sent.meta.clock) {
      events.on_alias_over(sent.meta.flow, sent.meta.clock);
    }
    if (sent.packet == kNoPacket) {
      ++recovery_->null_packets_lost;
    } else {
      LosePacket(sent.packet, events);
    }
  });
}

// Returns true if each loop of units has reported the packets that it was sent,
// and that have not left it, once. Where loops may end while others go on, one
// that has not is told to the faults: it will be made to end, and all will
// report anew. Of a loop that reports to an heir nobody knows what it was sent.
bool ControllerLoop::AreReportsTrue() {
  if (!recovery_.has_value()) return true;
  const size_t loops = links_.loops.size();
  std::vector<uint64_t> sent(loops);
  packets_->ForEach([&](const PacketsUnderWay::Sent& packet) {
    ++sent[value(packet.unit) % loops];
  });
  const bool is_heir = succession_->is_heir();
  std::vector<uint64_t> reported(loops);
  std::vector<bool> lies(loops);
  absl::flat_hash_set<PacketHandle> seen;
  for (const PacketsUnderWay::Sent& packet : succession_->packets()) {
    const size_t loop = value(packet.unit) % loops;
    ++reported[loop];
    const bool is_new =
        packet.packet == kNoPacket || seen.insert(packet.packet).second;
    if (!is_new || (!is_heir && !packets_->Has(packet))) lies[loop] = true;
  }
  bool are_true = true;
  for (size_t i = 0; i < loops; ++i) {
    const bool is_dead = IsDead(i);
    if (is_dead || (!lies[i] && (is_heir || sent[i] == reported[i]))) continue;
    words_[i].Refuse(kNoUnit, "report", "packets", reported[i]);
    links_.loops[i].in.Close();
    are_true = false;
  }
  return are_true;
}

// All have reported.
void ControllerLoop::BeginSuccessor(ControllerEvents& events) {
  const bool is_heir = succession_->is_heir();
  if (is_heir) TakeInherited();
  std::vector<UnitId> starting;
  for (const UnitStart& start : starting_) {
    starting.push_back(start.command.unit);
  }
  LosePacketsOfDead(events);
  if (recovery_.has_value()) recovery_->has_ended_unled = false;
  if (!succession_->Begin(controller_, now_, starting, in_channels_)) {
    words_[0].Refuse(kNoUnit, "report", "packets", in_channels_);
  }
  if (settle_ != nullptr) settle_(controller_);
  for (uint32_t i = 0;
       recovery_.has_value() && i < controller_.units().max_units(); ++i) {
    const UnitId unit{static_cast<uint16_t>(i)};
    if (!IsDead(i % links_.loops.size())) continue;
    recovery_->old_numbers[i] = controller_.units().channel_number(unit);
  }
  if (packets_.has_value()) {
    packets_.emplace(*links_.buffers);
    for (const PacketsUnderWay::Sent& sent : succession_->packets()) {
      if (sent.packet != kNoPacket && !links_.buffers->IsInUse(sent.packet)) {
        Refuse(sent.unit, "report", "packet", value(sent.packet));
        continue;
      }
      packets_->Add(
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
  // Leased units are up for others, too.
  if (!is_leased_) TellUnits(events);
  events.on_successor(now_, controller_);
  if (lease_finder_ != nullptr) lease_finder_->on_successor();
  if (!is_heir) return;
  for (const PacketsUnderWay::Sent& sent : succession_->packets()) {
    events.on_inherited(sent.meta, sent.packet);
  }
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
  link_to_[value(command.unit)]->Send(command,
                                      std::as_bytes(std::span(&name, 1)));
}

}  // namespace snf
