// SPDX-License-Identifier: Apache-2.0
#include "controller/live/unled_loop.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "controller/live/controller_loop.h"
#include "runtime/wire/link_payload.h"

namespace snf {

UnledLoop::UnledLoop(ControllerLoop& loop, const ControllerOptions& options,
                     size_t loops)
    : loop_(loop),
      succession_(options.max_units, options.max_flows,
                  LoopReports::Sources(loops), counters_),
      reports_(options, loops, succession_),
      returns_(loops),
      told_up_(options.max_units),
      room_(
          std::min(options.unit_queue_packets, options.start_buffer_packets)) {}

// --- The controller has failed. ---

// Sends a random number of the messages that wait for the loop, without `rng`
// none, and loses the rest.
void UnledLoop::CutLink(size_t loop, Rng* rng, ControllerEvents& events) {
  LinkOut& out = loop_.links_.loops()[loop].out;
  const auto cut = [&](const Cell& cell) {
    on_unsent(cell.As<ControllerCommand>(), loop, events);
  };
  const size_t staged = out.CountStaged(PayloadFromController);
  out.Cut(PayloadFromController, rng != nullptr ? rng->Below(staged + 1) : 0,
          cut);
  if (!loop_.shares_thread_ && !out.FlushWhole(PayloadFromController)) {
    out.Cut(PayloadFromController, 0, cut);
  }
}

// Undoes a message that the controller had in its buffers.
void UnledLoop::on_unsent(const ControllerCommand& command, size_t loop,
                          ControllerEvents& events) {
  using Kind = ControllerCommand::Kind;
  switch (command.kind) {
    case Kind::kEnqueue:
      loop_.slots_.Leave(command.meta);
      if (loop_.links_.knows_packets()) loop_.links_.packets().Remove(command);
      ++counters_.clocks_lost;
      if (command.packet != kNoPacket) LosePacket(command.packet, events);
      return;
    case Kind::kDrop:
      // The buffer is on its way home, and still the loop's.
      KeepBuffer(loop, command.packet);
      return;
    case Kind::kStartUnit:
      if (loop_.commands_.is_leased())
        return;  // the successor finds it not used
      // The start goes on without the controller.
      loop_.commands_.starter().AddReady(loop_.now_, command);
      return;
    case Kind::kAliasAck:
      // The flow does not have the alias, and asks again.
      if (command.alias_ack.result == AliasResult::kGranted) {
        events.on_alias_over(command.alias_ack.flow, command.alias_ack.clock);
      }
      return;
    default:
      return;
  }
}

void UnledLoop::LosePacket(PacketHandle packet, ControllerEvents& events) {
  ++counters_.packets_lost;
  events.on_drop(loop_.now_, packet, DropReason::kControllerFailed);
}

// Loses the packets that survived their units and that the controller had.
void UnledLoop::AbandonRecovery(ControllerEvents& events) {
  if (!loop_.recovery_.has_value()) return;
  for (const PacketHandle packet : loop_.recovery_->Abandon()) {
    LosePacket(packet, events);
  }
}

void UnledLoop::FailController() {
  succession_.Fail(std::move(loop_.controller_));
  reports_.Restart();
}

void UnledLoop::MakeNext() {
  loop_.options_.epoch = succession_.newest_epoch();
  loop_.controller_ = Controller(loop_.options_, *loop_.policy_);
  prepare_(loop_.controller_);
  loop_.TakeLeft();
}

// The controller fails before it has done all that is left to do.
void UnledLoop::FailAgain(ControllerEvents& events) {
  loop_.ReportDrained(events);
  FailController();
  for (size_t i = 0; i < returns_.size(); ++i) CutLink(i, nullptr, events);
  AbandonRecovery(events);
  MakeNext();
}

// The units of the loop have failed while there is no controller.
void UnledLoop::EndUnits(size_t loop, ControllerEvents& events) {
  loop_.recovery_->EndChannels(loop);
  has_ended_ = true;
  reports_.Forget(loop);
  returns_[loop].clear();  // the next process finds them
  for (uint32_t i = 0; i < told_up_.size(); ++i) {
    const UnitId unit{static_cast<uint16_t>(i)};
    if (loop_.links_.loop_of(unit) != loop || !was_up(unit)) continue;
    set_up(unit, false);
    reports_.on_unit_failed(unit);
    events.on_unit_down(loop_.now_, unit);
  }
  loop_.commands_.starter().Forget(
      [&](UnitId unit) { return loop_.links_.loop_of(unit) == loop; });
}

// --- The controller's process has failed. ---

// Buffers of packets that NFs made, which the dead process had, go back to
// their units.
void UnledLoop::Inherit() {
  succession_.Inherit(loop_.links_.controllers().newest.load(),
                      Controller(loop_.options_, *loop_.policy_));
  reports_.Inherit(loop_.tables().newest_incarnation());
  reports_.Restart();
  loop_.options_.epoch = succession_.newest_epoch();
  loop_.controller_ = Controller(loop_.options_, *loop_.policy_);
  loop_.links_.buffers().TakeAll();
  for (size_t i = 0; i < loop_.links_.copies().size(); ++i) {
    BufferPool& copies = loop_.links_.copies()[i];
    const BufferPool::Party party{static_cast<uint8_t>(i + 1)};
    copies.ForEachClaimed(party, [&](PacketHandle packet) {
      copies.Disclaim(packet);
      KeepBuffer(i, packet);
    });
  }
}

// A packet left its unit and is lost with the dead process. A packet that the
// NF made is in a buffer of the unit, which goes back. If the dead process had
// begun to handle the word, Inherit has returned the buffer, or it is back.
void UnledLoop::LoseWord(size_t loop, const UnitCommand& command) {
  if (command.packet != kNoPacket) ++counters_.packets_lost;
  if (command.kind != UnitCommand::Kind::kEmit) return;
  const ControllerLinks::LoggerLoopEnd& loggers = loop_.links_.loggers()[loop];
  if (loggers.in.handled() <= loggers.note->taken.load()) return;
  KeepBuffer(loop, command.packet);
}

// All buffers but those of packets that were reported are free.
void UnledLoop::TakeInherited() {
  for (const ControllerCommand& start : reports_.StartsOfWaiting()) {
    loop_.commands_.starter().AddReady(loop_.now_, start);
  }
  absl::flat_hash_set<PacketHandle> reported;
  for (const PacketsUnderWay::Sent& sent : reports_.packets()) {
    loop_.slots_.Enter(sent.meta);
    if (sent.packet == kNoPacket || reported.insert(sent.packet).second) {
      continue;
    }
    loop_.links_.words(loop_.links_.loop_of(sent.unit), false)
        .Refuse(sent.unit, "report", "packet", value(sent.packet));
  }
  loop_.links_.buffers().FreeOthers(
      [&](PacketHandle packet) { return reported.contains(packet); });
}

// --- Reports. ---

void UnledLoop::Succeed() {
  if (lease_finder_ != nullptr) lease_finder_->on_failure();
  const uint32_t epoch = succession_.Gather();
  LoopLinks& links = loop_.links_;
  for (const ControllerLinks::LoggerLoopEnd& loggers : links.loggers()) {
    if (loggers.control != nullptr) loggers.control->newest.store(epoch);
  }
  for (size_t i = 0; i < links.size(); ++i) {
    if (!loop_.IsDead(i)) continue;
    reports_.on_no_units(i);
    links.loggers()[i].control->asked.store(epoch, std::memory_order_seq_cst);
    links.loggers()[i].bell->Ring();
  }
  links.controllers().newest.store(epoch, std::memory_order_release);
  // Comes before any loop can hear of another loop that has seen the epoch
  // (U14).
  for (const ControllerLinks::UnitLoopEnds& loop : links.loops()) {
    if (loop.controllers == nullptr) continue;
    loop.controllers->newest.store(epoch, std::memory_order_release);
  }
  for (const ControllerLinks::UnitLoopEnds& loop : links.loops()) {
    loop.bell->Ring();
  }
}

void UnledLoop::HoldBatch(ControllerEvents& events) {
  for (const Arrival& arrival : loop_.batch_) {
    if (succession_.Hold(arrival)) continue;
    events.on_drop(loop_.now_, arrival.packet, DropReason::kControllerFailed);
  }
  loop_.batch_.clear();
}

// Takes a word that is not about a packet, while there is no controller.
void UnledLoop::HandleWord(size_t loop, bool of_logger, const Cell& cell,
                           std::span<const std::byte> payload) {
  using Kind = UnitCommand::Kind;
  LinkIn& in = loop_.links_.in(loop, of_logger);
  const WordsToController& words = loop_.links_.words(loop, of_logger);
  if (!words.IsSound(cell, payload)) {
    if (!of_logger || !loop_.recovery_.has_value()) in.Close();
    return;
  }
  if (cell.is_table()) {
    // Loggers with too many updates take no entries, and report behind these.
    // Units repeat requests without an answer.
    if (of_logger)
      loop_.tables_.Take(loop_.now_, LoadAs<TableMessage>(payload.data()),
                         loop_.links_);
    return;
  }
  const auto& word = cell.As<UnitCommand>();
  if (word.kind == Kind::kSendNote || word.kind == Kind::kSendEnded) {
    reports_.Keep(word);
    return;
  }
  if (word.kind < Kind::kReportName) return;  // was for the former controller
  if (!reports_.on_word(loop, of_logger, word, payload)) {
    words.Refuse(word.unit, "report", "kind", static_cast<uint8_t>(word.kind));
    in.Close();
  } else if (!reports_.awaits(loop, of_logger)) {
    in.Pause();
  }
}

// Returns true if each loop of units has reported each packet in it once. If
// loops may end while others go on, a loop that has not is refused: its process
// will be ended, and all loops report anew. An heir cannot know which packets a
// loop was sent.
bool UnledLoop::AreReportsTrue() {
  if (!loop_.recovery_.has_value()) return true;
  const size_t loops = returns_.size();
  std::vector<uint64_t> sent(loops);
  loop_.links_.packets().ForEach([&](const PacketsUnderWay::Sent& packet) {
    ++sent[loop_.links_.loop_of(packet.unit)];
  });
  std::vector<uint64_t> reported(loops);
  std::vector<bool> lies(loops);
  absl::flat_hash_set<PacketHandle> seen;
  for (const PacketsUnderWay::Sent& packet : reports_.packets()) {
    const size_t loop = loop_.links_.loop_of(packet.unit);
    ++reported[loop];
    const bool is_new =
        packet.packet == kNoPacket || seen.insert(packet.packet).second;
    if (!is_new || (!is_heir() && !loop_.links_.packets().Has(packet))) {
      lies[loop] = true;
    }
  }
  bool are_true = true;
  for (size_t i = 0; i < loops; ++i) {
    if (loop_.IsDead(i)) continue;
    if (!lies[i] && (is_heir() || sent[i] == reported[i])) continue;
    loop_.links_.words(i, false).Refuse(kNoUnit, "report", "packets",
                                        reported[i]);
    loop_.links_.loops()[i].in.Close();
    are_true = false;
  }
  return are_true;
}

// If loops may end while others go on, a loop whose link is closed will be
// ended, and all report anew.
bool UnledLoop::CanBegin() {
  if (succession_.phase() != Phase::kGathering || !succession_.has_all()) {
    return false;
  }
  if (lease_finder_ != nullptr && !lease_finder_->has_answers()) return false;
  const auto is_closed = [](const ControllerLinks::UnitLoopEnds& loop) {
    return loop.in.is_closed();
  };
  if (loop_.recovery_.has_value() &&
      std::ranges::any_of(loop_.links_.loops(), is_closed)) {
    return false;
  }
  return AreReportsTrue();
}

// --- The successor. ---

// Packets under way to failed units, or in these, were reported by no unit.
void UnledLoop::LosePacketsOfDead(ControllerEvents& events) {
  if (!loop_.recovery_.has_value()) return;
  const auto is_lost = [&](UnitId unit) {
    return loop_.IsDead(loop_.links_.loop_of(unit));
  };
  loop_.recovery_->TakeLost(is_lost, succession_.former().aliases(), events,
                            [&](const PacketsUnderWay::Sent& sent) {
                              ++counters_.clocks_lost;
                              if (sent.packet == kNoPacket) return;
                              LosePacket(sent.packet, events);
                            });
}

// The packets under way are those that were reported.
void UnledLoop::TakeReported() {
  if (!loop_.links_.knows_packets()) return;
  const BufferPool& buffers = loop_.links_.buffers();
  loop_.links_.ForgetPackets();
  for (const PacketsUnderWay::Sent& sent : reports_.packets()) {
    if (sent.packet != kNoPacket && !buffers.IsInUse(sent.packet)) {
      loop_.Refuse(sent.unit, "report", "packet", value(sent.packet));
      continue;
    }
    loop_.links_.packets().Add(
        ControllerCommand::Enqueue(sent.unit, sent.packet, sent.meta));
  }
}

void UnledLoop::BeginSuccessor(ControllerEvents& events) {
  const bool is_heir = reports_.is_heir();
  if (is_heir) TakeInherited();
  const std::vector<UnitId> starting = loop_.commands_.starter().units();
  LosePacketsOfDead(events);
  has_ended_ = false;
  reports_.Begin(starting);
  succession_.Begin(loop_.controller_, loop_.now_);
  if (loop_.in_channels() != reports_.packets().size()) {
    loop_.links_.words(0, false).Refuse(kNoUnit, "report", "packets",
                                        loop_.in_channels());
  }
  if (settle_ != nullptr) settle_(loop_.controller_);
  if (loop_.recovery_.has_value()) loop_.recovery_->on_successor();
  TakeReported();
  loop_.links_.Resume();
  for (size_t i = 0; i < returns_.size(); ++i) {
    for (const PacketHandle packet : std::exchange(returns_[i], {})) {
      loop_.links_.loops()[i].out.Send(ControllerCommand::Drop(packet, {}));
    }
  }
  // Leased units are up for other controllers, too.
  if (!loop_.commands_.is_leased()) TellUnits(events);
  events.on_successor(loop_.now_, loop_.controller_);
  if (lease_finder_ != nullptr) lease_finder_->on_successor();
  if (!is_heir) return;
  for (const PacketsUnderWay::Sent& sent : reports_.packets()) {
    events.on_inherited(sent.meta, sent.packet);
  }
}

// The successor may take other units for up than its predecessor.
void UnledLoop::TellUnits(ControllerEvents& events) {
  for (uint32_t i = 0; i < told_up_.size(); ++i) {
    const UnitId unit{static_cast<uint16_t>(i)};
    const UnitPool::State state = loop_.controller_.units().state(unit);
    const bool is_up = state == UnitPool::State::kActive ||
                       state == UnitPool::State::kStarting;
    if (is_up == was_up(unit)) continue;
    if (is_up) {
      events.on_unit_up(loop_.now_, unit);
    } else {
      events.on_unit_down(loop_.now_, unit);
    }
    set_up(unit, is_up);
  }
}

}  // namespace snf
