// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_LIVE_CONTROLLER_LOOP_H_
#define SNF_CONTROLLER_LIVE_CONTROLLER_LOOP_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/byte_order.h"
#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages/messages.h"
#include "base/packet/flow_key.h"
#include "base/rng.h"
#include "base/time.h"
#include "controller/core/commands.h"
#include "controller/core/controller.h"
#include "controller/core/options.h"
#include "controller/core/placement.h"
#include "controller/live/controller_events.h"
#include "controller/live/loop_starter.h"
#include "controller/live/packets_under_way.h"
#include "controller/live/succession.h"
#include "controller/rebuild/lease_finder.h"
#include "platform/process/real_clock.h"
#include "runtime/core/unit_commands.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/ring/doorbell.h"
#include "runtime/ring/loop_control.h"
#include "runtime/ring/loop_progress.h"
#include "runtime/ring/thread_link.h"
#include "runtime/tables/table_homes.h"
#include "runtime/tables/table_message.h"
#include "runtime/wire/decoder.h"
#include "runtime/wire/state_relay.h"
#include "runtime/wire/wire_faults.h"

namespace snf {

struct ControllerLoopOptions {
  ControllerOptions controller;
  // How long units take to start; 0: they are ready at once.
  Nanos cold_start_delay;
  Nanos warm_start_delay;
  // Drop reasons and pools of the NF.
  uint32_t nf_reasons = 0;
  uint32_t pools = 0;
  // Packets under way are also counted by flow (under_way).
  bool counts_flows = false;
  // The only loop of units takes its turns on this thread, before those of the
  // controller, and its links are joined.
  bool shares_thread = false;
  // Units that are leased run for other controllers as well, which are not told
  // of here: events do not say when they are up.
  bool shares_units = false;
  // Loops of units may end while others go on (EndLoop). Units have loggers.
  bool recovers = false;
  // The controller may fail (Fail), or its process. Units have loggers; and no
  // shared tables, unless their homes are kept (TableHomes::Keep).
  bool fails = false;
  // With `fails`: the loop takes the place of that of another process, which
  // had made these controllers and is dead. Succeed has to follow.
  bool inherits = false;
};

// Connects a controller to the loops of units. Where it points to outlives the
// controller's loop.
struct ControllerLinks {
  struct UnitLoopEnds {
    LinkOut out;
    LinkIn in;
    LoopProgress* progress;
    Doorbell* bell = nullptr;  // of the loop, if the controller may fail
    // The loop reads its controller's epoch here, if it has memory of its own
    // and the controller may fail.
    ControllerEpoch* controllers = nullptr;
  };
  Doorbell* bell;                   // the controller's; all unit loops ring it
  BufferPool* buffers;              // the controller's end of the pool
  WireFaults* faults;               // what it finds wrong in what units say
  std::vector<UnitLoopEnds> loops;  // loop i of n runs the units i, n + i, …
  // The loops of the units' loggers, if they have some: loop i has those of
  // unit loop i.
  struct LoggerLoopEnd {
    LinkIn in;
    const LoopProgress* progress;
    std::optional<LinkOut> out{};  // if loops may end, as what follows
    LogControl* control = nullptr;
    Doorbell* bell = nullptr;
    ControllerNote* note = nullptr;  // if the controller may fail
  };
  std::vector<LoggerLoopEnd> loggers{};
  ControllerEpoch* controllers = nullptr;  // if the controller may fail
  // If loops of units have memory of their own (LoopRegion): other bells that
  // they and their loggers ring; by loop, where it finds packets, and the links
  // of messages about state, which are relayed.
  std::vector<Doorbell*> other_bells{};
  std::vector<BufferPool> copies{};
  std::vector<StateRelay::Loop> relayed{};
  uint32_t record_bytes = 0;
};

struct ControllerLoopFigures {
  uint64_t packets_by_alias = 0;  // arrived
  uint64_t aliases_unknown = 0;   // of these, dropped: no flow had the alias
};

// Theory of operation. The event loop around a controller: it turns arrivals,
// what units say, and time into calls of Controller, and what the controller
// commands into messages to the loops of units (unit_loop.h). The homes of the
// NF's shared tables live here as well.
//
//   host ─Arrive─► batch ─► Controller ─ControllerCommand─► unit loops …
//   host ◄─on_packet, ControllerEvents─┐       ▲                │
//                                      └───────┴─UnitCommand────┘
//
// It works in turns, which the host takes on its thread: a turn takes a burst
// from each link, reads the clock once, handles the messages, and does what is
// due. Arrivals are collected into a batch, which the host hands over with
// HandleBatch, or the next turn does if there were messages.
//
// Worked example: three Arrive and a HandleBatch put kStartUnit and
// 3 × kEnqueue into the link to the loop of unit 0. Two turns later three
// kRelease are there: on_packet is called for each, the host calls FreeSlot
// three times, and the controller is told once that 3 packets left unit 0.
//
// Units with output loggers leave to these to say what became of packets, on
// links of their own.
//
// Of loops of units that have memory of their own, the loop copies a packet
// there before it sends the handle, and back when it hears of its end; and it
// relays what they say to each other about state.
//
// What units and loggers say passes a decoder first. A bad word is told to the
// links' WireFaults and closes the link that it came by: no more is heard of
// the units at its other end.
//
// When a loop of units has ended, because its process has, the host calls
// EndLoop. What the units had said is taken, all of them have failed, and their
// loggers are told. What these release comes before their first answer; of the
// units' packets that is all that left them, and the others survive (F4). Then
// the loop may begin again.
//
// The controller itself may fail, at any point between two messages that it
// sends: then the host calls Fail, and Succeed once it knows, and another one
// is made (succession.h). Packets go on to leave meanwhile. What was sent to
// units is there, whole; what was not is lost, and told. A loop of units may
// end at any time as well: then reports begin anew, and the packets that were
// in its units are lost with the controller.
//
// So may its process, of a loop whose units have memory of their own; a loop of
// another process then goes on with the same memory, and makes its controller
// of reports in the same way. What units and loggers say stays in their rings
// until what it led to is sent, so that the next one hears it as well, but for
// what becomes of packets. Of these it has those that are reported; others,
// which were in the rings to the dead process or with it, are lost. That is,
// unless a unit takes so little from its ring that the one from it is half
// full: then a note may be lost with the process that was handling it.
//
// Owner-thread only. Nothing is allocated for a packet.
class ControllerLoop {
 public:
  static constexpr size_t kBatch = 32;
  // Of a link's messages, a turn without a controller takes so many bursts.
  static constexpr uint32_t kReportBursts = 32;

  // The policy and the clock must outlive the loop. The tables' homes are those
  // of the NF that the units run.
  ControllerLoop(const ControllerLoopOptions& options,
                 const PlacementPolicy& policy, TableHomes tables,
                 const RealClock& clock, ControllerLinks links);

  // With ControllerOptions::leased: as Controller::on_lease and on_revoke. The
  // unit's loop runs.
  template <ControllerHost Host>
  bool Lease(UnitId unit, uint32_t share, Host& host) {
    out_.clear();
    const bool is_leased = controller_.on_lease(now_, unit, share, out_);
    ExecuteAll(host);
    FlushAll();
    return is_leased;
  }
  template <ControllerHost Host>
  bool Revoke(UnitId unit, bool at_once, Host& host) {
    out_.clear();
    const bool is_revoked = controller_.on_revoke(now_, unit, at_once, out_);
    ExecuteAll(host);
    FlushAll();
    return is_revoked;
  }
  // Returns the leased units in which nothing of the controller is left, since
  // the last call.
  std::vector<UnitId> TakeLeft() { return std::exchange(left_, {}); }

  // Asks `starter`, which outlives the loop, before each start of a unit. Call
  // it before anything else. Without one, all loops of units run at all times.
  void set_starter(LoopStarter& starter) { starter_ = &starter; }
  // A controller that leases its units and may fail asks `finder`, which
  // outlives the loop, for their leases. Call it before anything else.
  void set_lease_finder(LeaseFinder& finder) { lease_finder_ = &finder; }
  // A loop of units runs now: starts that wait for it go on.
  void BeginStarts(size_t loop);
  // Returns true if nothing is under way between this and the loop of units,
  // and no packet lies in a buffer of its share.
  bool IsIdle(size_t loop);

  // Gives the ends of a link that is to be joined. They stay where they are.
  ControllerLinks::UnitLoopEnds& ends(size_t loop) {
    return links_.loops[loop];
  }

  // Adds a packet to the batch. It arrived at `arrival`, not after now().
  void Arrive(const FlowKey& key, Instant arrival, uint32_t original_length,
              PacketHandle packet, bool by_alias) {
    batch_.emplace_back(key, arrival, original_length, packet, by_alias);
    if (has_controller()) [[likely]]
      controller_.Expect(batch_);
    figures_.packets_by_alias += by_alias ? 1 : 0;
  }
  // Counts those in it, and those that wait for a controller.
  size_t batch_size() const {
    return batch_.size() +
           (succession_.has_value() ? succession_->waiting() : 0);
  }
  // Hands the batch to the controller, and sends what it commands.
  template <ControllerHost Host>
  void HandleBatch(Host& host);
  // Handles what the units have sent, and what is due; returns true if there
  // was anything. The time is read after the messages were taken.
  template <ControllerHost Host>
  bool Turn(Host& host);
  // Sleeps until there is something to do, for `most` at the most, or yields if
  // that is hardly any time.
  void IdleWait(Nanos most);

  // A packet that on_packet told of is at its end: it frees its slot of the
  // unit's channel.
  void FreeSlot(const UnitCommand& command, ControllerEvents& events) {
    const PacketMeta& meta = command.meta;
    --in_channels_;
    if (under_way_.size() > 0) --under_way_[slot_of(meta.flow)];
    if (recovery_.has_value() && recovery_->IsOld(command)) return;
    if (!has_controller()) [[unlikely]]
      return;  // reports tell which are in use
    if (drained_.unit != command.unit) ReportDrained(events);
    drained_.unit = command.unit;
    ++drained_.packets;
    const uint32_t cost = controller_.CostOf(meta.original_length);
    drained_.bytes += cost;
    if (!meta.has_payload()) return;
    ++with_payload_.packets;
    with_payload_.bytes += cost;
  }
  // A word of a unit, or of its logger if it has one, cannot be, by what the
  // host knows.
  void Refuse(UnitId unit, std::string_view kind, std::string_view field,
              uint64_t value);
  // The process that ran the loop of units has ended, which was seen.
  template <ControllerHost Host>
  void EndLoop(size_t loop, Host& host);
  // Returns true once a new process may run the loop: what the old one left is
  // where it should be.
  bool MayBegin(size_t loop) const;
  // Another process is about to be started, which is to run the loop.
  void StartLoop(size_t loop);
  // It runs.
  void BeginLoop(size_t loop);
  // The process of the loggers has ended, which was seen. Of links that a bad
  // word of its has closed, what came from there on is dropped, and they are
  // open again, for the next one.
  void ReopenLoggers();
  // Returns true if the unit has a process, as far as is known.
  bool IsUp(UnitId unit) const;
  // Returns true if loggers may have what no unit has: of one that has failed,
  // whose flows others have still to take over. So they cannot be replaced.
  bool NeedsLoggers() const;
  // The controller fails. It may have been about to handle what is in the
  // batch, and to send what that led to: how far it came is drawn from `rng`.
  // What it had is lost, and told. `prepare` is told of the next one, before it
  // gets anything, to add the NF's pools to it, and of those after it.
  using Prepare = std::function<void(Controller&)>;
  template <ControllerHost Host>
  void Fail(Rng& rng, const Prepare& prepare, Host& host);
  // The same `prepare`, of a loop that inherits; `settle` is told of each one
  // that was made of reports, before it is asked for anything.
  void set_prepare(Prepare prepare, Prepare settle) {
    prepare_ = std::move(prepare);
    settle_ = std::move(settle);
  }
  // Its end was seen: another one is made of what units report, over turns.
  void Succeed();
  // There is a controller; until is_led() it does not take packets yet.
  bool has_controller() const {
    return !succession_.has_value() || succession_->has_controller();
  }
  bool is_led() const {
    return !succession_.has_value() || succession_->is_up();
  }
  const Succession* succession() const {
    return succession_.has_value() ? &*succession_ : nullptr;
  }
  // Returns true while a controller that is being made awaits the report of the
  // loop of units, or of its loggers.
  bool AwaitsReport(size_t loop, bool of_logger) const {
    return succession_.has_value() &&
           succession_->phase() == Succession::Phase::kGathering &&
           succession_->awaits(loop, of_logger);
  }

  // Counts clocks without a packet that were in units which have failed.
  uint64_t null_packets_lost() const {
    return recovery_.has_value() ? recovery_->null_packets_lost : 0;
  }
  // Counts messages about state that units' links had no room for (StateRelay).
  uint64_t relayed_lost() const {
    return relay_.has_value() ? relay_->lost() : 0;
  }
  // Counts Pulls of units that the flow was not sent to (the same).
  uint64_t pulls_refused() const {
    return relay_.has_value() ? relay_->refused() : 0;
  }

  // Sends a buffer to the unit loop whose share it belongs to: party i + 1 of
  // the pool is loop i.
  void ReturnBuffer(BufferPool::Party owner, PacketHandle packet);

  // Pieces come to a pool of the NF, which were not of this controller before.
  template <ControllerHost Host>
  void AddPieces(const PieceBlock& pieces, Host& host) {
    out_.clear();
    controller_.AddPieces(now_, pieces, false, out_);
    ExecuteAll(host);
    FlushAll();
  }

  // Returns the time of the last turn, or of ReadClock if that was later.
  Instant now() const { return now_; }
  Instant ReadClock() { return now_ = clock_.Now(); }

  // Returns how many slots of all units' channels are in use: packets that were
  // sent to units and are not yet at their end.
  uint64_t in_channels() const { return in_channels_; }
  // Returns the number of these of the flow with this slot of the controller's
  // table, if options.counts_flows.
  uint64_t under_way(uint32_t slot) const { return under_way_[slot]; }
  // Returns true if units are starting.
  bool is_starting() const { return !starting_.empty(); }
  // Returns when something is due, here or in a unit loop; Instant::max() for
  // never.
  Instant NextDue() const;
  // Returns true while something that failed is not made good.
  bool IsRecovering() const;
  // Returns true if nothing is under way to or from a unit, and nothing is due.
  bool IsQuiet() const;

  Controller& controller() { return controller_; }
  const Controller& controller() const { return controller_; }
  const TableHomes& tables() const { return tables_; }
  const ControllerLoopFigures& figures() const { return figures_; }

 private:
  Instant NextTimer() const {
    return std::min(
        {controller_.next_wakeup(), tables_.next_wakeup(), next_ready_});
  }
  // What a controller whose loops of units may end has beyond others.
  struct Recovery {
    struct Loop {
      bool has_ended = false;
      bool starts = false;  // another process is about to run it
      bool awaits_survivors = false;
      uint32_t round = 0;  // of the first Seal; 0: it was not sent yet
      std::vector<UnitId> unsealed;  // whose loggers have still to answer
      std::vector<UnitId> started;   // while it ended; for its next process
      std::vector<PacketHandle> buffers;  // to be returned once it begins again
    };
    std::vector<Loop> loops;
    std::vector<uint64_t> old_numbers;  // by unit: of channels that have ended
    bool has_ended_unled = false;  // a loop, since the last controller failed
    // Packets that the controller has to find other units for.
    absl::flat_hash_set<PacketHandle> survivors{};
    uint64_t null_packets_lost = 0;

    // The packet, if it survived a unit, has gone to another, or was dropped.
    void OnEnd(PacketHandle packet) {
      if (!survivors.empty()) [[unlikely]]
        survivors.erase(packet);
    }
    // It went to the unit by a channel that has ended.
    bool IsOld(const UnitCommand& command) const {
      return command.meta.channel_number <= old_numbers[value(command.unit)];
    }
  };

  // Returns false if there is no room for some of it.
  bool FlushAll();
  void CloseBrokenLinks();
  // Of loops of units that are not trusted with what others have: a packet goes
  // to one, and a word about a packet has come. TakePacket returns false if
  // that cannot be.
  void GivePacket(const ControllerCommand& command);
  bool TakePacket(size_t loop, const UnitCommand& command);
  // Of a controller that fails (controller_loop_recovery.cc):
  template <ControllerHost Host>
  bool TurnUnled(Host& host);
  template <ControllerHost Host>
  size_t HandleLinkUnled(size_t loop, bool of_logger, Host& host);
  void HandleUnled(size_t loop, bool of_logger, const Cell& cell,
                   std::span<const std::byte> payload);
  template <ControllerHost Host>
  void Mend(Host& host);
  void CutLink(size_t loop, Rng* rng, ControllerEvents& events);
  void on_unsent(const ControllerCommand& command, size_t loop,
                 ControllerEvents& events);
  void LosePacket(PacketHandle packet, ControllerEvents& events);
  void AbandonRecovery(ControllerEvents& events);
  void MakeNext();
  void FailAgain(ControllerEvents& events);
  void EndUnits(size_t loop, ControllerEvents& events);
  void LosePacketsOfDead(ControllerEvents& events);
  bool IsDead(size_t loop) const {
    return recovery_.has_value() && recovery_->loops[loop].has_ended &&
           !recovery_->loops[loop].starts;
  }
  template <ControllerHost Host>
  void EndLoopUnled(size_t loop, Host& host);
  void HoldBatch(ControllerEvents& events);
  void Inherit(const PlacementPolicy& policy);
  void LoseWord(size_t loop, const UnitCommand& command);
  void TakeInherited();
  // Take a burst from all links, and let go of what was handled.
  void ReceiveAll();
  void Receive(LinkIn& in) const {
    if (keeps_words_) {
      in.ReceiveKept();
    } else {
      in.Receive();
    }
  }
  void ReleaseHandled(bool is_flushed);
  // Returns true unless units have still to say what is leased.
  bool has_leases() const {
    return lease_finder_ == nullptr || lease_finder_->has_answers();
  }
  bool AreReportsTrue();
  void BeginSuccessor(ControllerEvents& events);
  void TellUnits(ControllerEvents& events);
  void HandleTell(const UnitCommand& word, ControllerEvents& events);
  void SendName(const ControllerCommand& command);
  template <ControllerHost Host>
  size_t HandleLink(size_t loop, LinkIn& in, const WordsToController& words,
                    Host& host);
  void HandleRecovery(const UnitCommand& command, bool of_logger,
                      ControllerEvents& events);
  void EndChannels(size_t loop);
  bool MayPull(const Pull& pull) const;
  bool HasOtherLoop(size_t loop) const;
  bool FailNext(size_t loop, uint32_t& unit, ControllerEvents& events);
  void TakeStarted(size_t loop, std::vector<ControllerCommand>& kept);
  void TakeSurvivors(size_t loop, ControllerEvents& events);
  void SendSeal(const ControllerCommand& command);
  // `loop` is where the message came from.
  void HandleOther(size_t loop, bool of_logger, const Cell& cell,
                   std::span<const std::byte> payload,
                   ControllerEvents& events);
  void on_alias(const Alias& alias, ControllerEvents& events);
  void on_table(const TableMessage& message);
  void SendToUnit(const TableMessage& message);
  void ReportDrained(ControllerEvents& events);
  void FinishStarts();
  void RunTableTimers();
  // Sends what is in out_.
  template <ControllerHost Host>
  void ExecuteAll(Host& host);
  void Execute(const ControllerCommand& command, ControllerEvents& events);
  void TellUp(UnitId unit, bool is_up, ControllerEvents& events);
  void StartUnit(const ControllerCommand& command);
  void FinishStart(const ControllerCommand& command);
  void Send(const ControllerCommand& command) {
    link_to_[value(command.unit)]->Send(command);
  }
  // What has failed hears nothing more.
  bool hears(UnitId unit) const {
    return controller_.units().state(unit) != UnitPool::State::kCrashed;
  }

  const RealClock& clock_;
  ControllerOptions options_;  // of the controller that runs
  const PlacementPolicy* policy_;
  Nanos cold_start_delay_;
  Nanos warm_start_delay_;
  bool shares_thread_;
  bool is_leased_;
  bool shares_units_;
  std::vector<bool> leased_up_;  // by unit: events told of it
  std::vector<UnitId> left_;
  LoopStarter* starter_ = nullptr;
  LeaseFinder* lease_finder_ = nullptr;
  Controller controller_;
  TableHomes tables_;
  ControllerLinks links_;
  std::vector<WordsToController> words_;         // by loop
  std::vector<WordsToController> logger_words_;  // the same
  std::vector<LinkOut*> link_to_;                // by unit
  std::vector<Doorbell*> bells_;                 // all that it waits at
  // If units are not trusted with what others have: what each was sent.
  std::optional<PacketsUnderWay> packets_;
  std::optional<StateRelay> relay_;
  std::optional<Recovery> recovery_;
  std::optional<Succession> succession_;  // if the controller may fail
  // What was heard stays in its ring for another process.
  bool keeps_words_ = false;
  Prepare prepare_;  // the next one
  Prepare settle_;   // may be null

  Instant now_ = Instant::min();
  std::vector<Arrival> batch_;
  ControllerOut out_;
  uint64_t in_channels_ = 0;
  LazyArray<uint64_t> under_way_;  // by the slot of the flow
  // Units that are starting: the commands, and when they are ready; max: once
  // their loop runs.
  struct UnitStart {
    Instant ready;
    ControllerCommand command;
  };
  std::vector<UnitStart> starting_;
  Instant next_ready_ = Instant::max();  // the earliest of them
  // One unit has drained this, and the controller was not told of it yet.
  DrainReport drained_;
  DrainReport with_payload_;  // of these
  ControllerLoopFigures figures_;
};

template <ControllerHost Host>
void ControllerLoop::HandleBatch(Host& host) {
  if (!is_led()) [[unlikely]]
    return HoldBatch(host);
  for (size_t done = 0; done < batch_.size();) {
    out_.clear();
    done += controller_.on_packets(now_, std::span(batch_).subspan(done), out_);
    ExecuteAll(host);
  }
  batch_.clear();
  FlushAll();
}

template <ControllerHost Host>
bool ControllerLoop::Turn(Host& host) {
  if (!has_controller()) [[unlikely]]
    return TurnUnled(host);
  const bool has_relayed = relay_.has_value() && relay_->Turn();
  ReceiveAll();
  CloseBrokenLinks();
  // Units set out with it before: no packet is released before it was run.
  ReadClock();
  size_t messages = 0;
  for (size_t i = 0; i < words_.size(); ++i) {
    messages += HandleLink(i, links_.loops[i].in, words_[i], host);
  }
  for (size_t i = 0; i < logger_words_.size(); ++i) {
    messages += HandleLink(i, links_.loggers[i].in, logger_words_[i], host);
  }
  ReportDrained(host);
  const bool is_due = now_ >= NextTimer();
  if (is_due) {
    FinishStarts();
    out_.clear();
    controller_.on_timers(now_, out_);
    ExecuteAll(host);
    RunTableTimers();
  }
  if (!is_led()) [[unlikely]]
    Mend(host);
  // Packets that the host released may have come back.
  if (!batch_.empty() && messages > 0) HandleBatch(host);
  const bool is_flushed = FlushAll();
  if (keeps_words_) ReleaseHandled(is_flushed);
  return messages > 0 || is_due || has_relayed;
}

template <ControllerHost Host>
size_t ControllerLoop::HandleLink(size_t loop, LinkIn& in,
                                  const WordsToController& words, Host& host) {
  return in.Handle(
      words, [&](const Cell& cell, std::span<const std::byte> payload) {
        const auto& command = cell.As<UnitCommand>();
        if (command.kind <= UnitCommand::Kind::kDropPayload) [[likely]] {
          if (packets_.has_value() && !TakePacket(loop, command)) {
            return Refuse(command.unit, "end of a packet", "packet",
                          value(command.packet));
          }
          host.on_packet(now_, command);
        } else {
          HandleOther(loop, &words != &words_[loop], cell, payload, host);
          ExecuteAll(host);
        }
      });
}

template <ControllerHost Host>
void ControllerLoop::Fail(Rng& rng, const Prepare& prepare, Host& host) {
  SNF_CHECK(succession_.has_value() && is_led());
  prepare_ = prepare;
  ReportDrained(host);
  const size_t handled = rng.Below(batch_.size() + 1);
  const std::span<const Arrival> first = std::span(batch_).first(handled);
  for (size_t done = 0; done < handled;) {
    out_.clear();
    done += controller_.on_packets(now_, first.subspan(done), out_);
    ExecuteAll(host);
  }
  for (size_t i = handled; i < batch_.size(); ++i) {
    LosePacket(batch_[i].packet, host);
  }
  batch_.clear();
  succession_->Fail(std::move(controller_));
  for (size_t i = 0; i < links_.loops.size(); ++i) CutLink(i, &rng, host);
  AbandonRecovery(host);
  MakeNext();
}

template <ControllerHost Host>
bool ControllerLoop::TurnUnled(Host& host) {
  size_t messages = relay_.has_value() && relay_->Turn() ? 1 : 0;
  for (uint32_t burst = 0; burst < kReportBursts; ++burst) {
    const size_t before = messages;
    for (size_t i = 0; i < links_.loops.size(); ++i) {
      if (succession_->awaits(i, false)) Receive(links_.loops[i].in);
      if (succession_->awaits(i, true)) Receive(links_.loggers[i].in);
    }
    CloseBrokenLinks();
    ReadClock();
    for (size_t i = 0; i < links_.loops.size(); ++i) {
      if (succession_->awaits(i, false)) {
        messages += HandleLinkUnled(i, false, host);
      }
      if (succession_->awaits(i, true)) {
        messages += HandleLinkUnled(i, true, host);
      }
    }
    if (keeps_words_) ReleaseHandled(true);
    if (messages == before) break;
  }
  HoldBatch(host);
  const auto is_closed = [](const ControllerLinks::UnitLoopEnds& loop) {
    return loop.in.is_closed();
  };
  if (succession_->phase() != Succession::Phase::kGathering ||
      !succession_->has_all() || !has_leases() ||
      (recovery_.has_value() && std::ranges::any_of(links_.loops, is_closed)) ||
      !AreReportsTrue()) {
    return messages > 0;
  }
  BeginSuccessor(host);
  for (const UnitCommand& word : succession_->TakeKept()) {
    HandleTell(word, host);
    ExecuteAll(host);
  }
  Mend(host);
  return true;
}

template <ControllerHost Host>
size_t ControllerLoop::HandleLinkUnled(size_t loop, bool of_logger,
                                       Host& host) {
  LinkIn& in = of_logger ? links_.loggers[loop].in : links_.loops[loop].in;
  const WordsToController& words =
      of_logger ? logger_words_[loop] : words_[loop];
  return in.Handle(words, [&](const Cell& cell,
                              std::span<const std::byte> payload) {
    const auto& command = cell.As<UnitCommand>();
    if (command.kind > UnitCommand::Kind::kDropPayload) {
      HandleUnled(loop, of_logger, cell, payload);
    } else if (succession_->is_heir()) {
      LoseWord(loop, command);
    } else if (packets_.has_value() && !TakePacket(loop, command)) {
      Refuse(command.unit, "end of a packet", "packet", value(command.packet));
    } else {
      host.on_packet(now_, command);
    }
  });
}

template <ControllerHost Host>
void ControllerLoop::Mend(Host& host) {
  out_.clear();
  const bool is_done = succession_->Mend(controller_, now_, out_);
  ExecuteAll(host);
  FlushAll();
  if (!is_done || succession_->IsCrowded(in_channels_, batch_.size())) return;
  succession_->Finish();
  const std::vector<Arrival> later = std::exchange(batch_, {});
  batch_ = succession_->TakeWaiting();
  batch_.insert(batch_.end(), later.begin(), later.end());
  HandleBatch(host);
}

// What was reported is out of date.
template <ControllerHost Host>
void ControllerLoop::EndLoopUnled(size_t loop, Host& host) {
  using Phase = Succession::Phase;
  const Phase phase = succession_->phase();
  if (phase == Phase::kMending) FailAgain(host);
  if (phase == Phase::kGathering) succession_->Restart();
  for (ControllerLinks::UnitLoopEnds& each : links_.loops) each.in.GoOn();
  for (ControllerLinks::LoggerLoopEnd& each : links_.loggers) each.in.GoOn();
  LinkIn& in = links_.loops[loop].in;
  const uint64_t most = in.received() + in.capacity();
  do {
    Receive(in);
  } while ((HandleLinkUnled(loop, false, host) > 0 || in.has_items()) &&
           in.received() < most);
  CloseBrokenLinks();
  EndUnits(loop, host);
  if (phase != Phase::kDead) Succeed();
}

template <ControllerHost Host>
void ControllerLoop::EndLoop(size_t loop, Host& host) {
  if (!is_led()) [[unlikely]]
    return EndLoopUnled(loop, host);
  LinkIn& in = links_.loops[loop].in;
  // No more than a ring holds: whoever else has mapped it may lie about it.
  const uint64_t most = in.received() + in.capacity();
  do {
    Receive(in);
  } while ((HandleLink(loop, in, words_[loop], host) > 0 || in.has_items()) &&
           in.received() < most);
  ReportDrained(host);
  CloseBrokenLinks();  // what follows forgets what was wrong
  EndChannels(loop);
  // While one fails, others of the process may get packets, or be started: they
  // fail as well, and what they got is not for the next process. But if no
  // other process has units, one that is started waits for the next.
  const bool keeps_started = !HasOtherLoop(loop);
  std::vector<ControllerCommand> kept;
  for (bool has_failed = true; has_failed;) {
    has_failed = false;
    for (uint32_t unit = static_cast<uint32_t>(loop);
         FailNext(loop, unit, host);) {
      if (keeps_started) TakeStarted(loop, kept);
      ExecuteAll(host);
      has_failed = true;
    }
  }
  links_.loops[loop].out.SkipAll();
  for (const ControllerCommand& command : kept) {
    out_.clear();
    out_.push(command);
    ExecuteAll(host);
  }
  FlushAll();
}

template <ControllerHost Host>
void ControllerLoop::ExecuteAll(Host& host) {
  for (const ControllerCommand& command : out_.commands()) {
    if (command.kind == ControllerCommand::Kind::kEnqueue) [[likely]] {
      ++in_channels_;
      if (under_way_.size() > 0) ++under_way_[slot_of(command.meta.flow)];
      if (packets_.has_value()) GivePacket(command);
      host.on_enqueue(command.meta);
      Send(command);
    } else {
      Execute(command, host);
    }
  }
}

}  // namespace snf

#endif  // SNF_CONTROLLER_LIVE_CONTROLLER_LOOP_H_
