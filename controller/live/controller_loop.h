// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_LIVE_CONTROLLER_LOOP_H_
#define SNF_CONTROLLER_LIVE_CONTROLLER_LOOP_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/messages/messages.h"
#include "base/messages/unit_commands.h"
#include "base/packet/flow_key.h"
#include "base/rng.h"
#include "base/time.h"
#include "controller/core/controller.h"
#include "controller/core/options.h"
#include "controller/core/placement.h"
#include "controller/hand_over/hand_over.h"
#include "controller/live/channel_slots.h"
#include "controller/live/controller_events.h"
#include "controller/live/controller_links.h"
#include "controller/live/loop_commands.h"
#include "controller/live/loop_links.h"
#include "controller/live/loop_recovery.h"
#include "controller/live/loop_starter.h"
#include "controller/live/loop_tables.h"
#include "controller/live/loop_words.h"
#include "controller/live/unled_loop.h"
#include "controller/rebuild/lease_finder.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/ring/real_clock.h"
#include "runtime/ring/thread_link.h"
#include "runtime/tables/table_homes.h"

namespace snf {

struct ControllerLoopFigures {
  uint64_t packets_by_alias = 0;  // arrived
  uint64_t aliases_unknown = 0;   // of these, dropped: no flow had the alias
};

// Theory of operation. The event loop around a controller: it turns arrivals,
// words of units, and time into calls of Controller, and the controller's
// commands into messages to the loops of units (unit_loop.h).
//
//   host ─Arrive─► batch ─► Controller ─ControllerCommand─► unit loops …
//   host ◄─on_packet, ControllerEvents─┐       ▲                │
//                                      └───────┴─UnitCommand────┘
//
// The host takes turns on its thread: a turn takes a burst from each link,
// reads the clock once, handles the messages, and does what is due. Arrivals
// are collected into a batch, which the host hands over with HandleBatch, or
// the next turn does if there were messages.
//
// Worked example: three Arrive and a HandleBatch put kStartUnit and
// 3 × kEnqueue into the link to the loop of unit 0. Two turns later three
// kRelease are there: on_packet is called for each, the host calls FreeSlot
// three times, and the controller is told once that 3 packets left unit 0.
//
// Parts: LoopLinks has all links; LoopTables the homes of the NF's shared
// tables; LoopWords turns words into calls of Controller, LoopCommands executes
// its commands; ChannelSlots has the slots of units' channels; LoopRecovery, if
// loops of units may end, what becomes of their packets; UnledLoop, if the
// controller may fail, what happens until packets go to a successor.
//
// Units with output loggers leave it to these to
// report the end of packets, on links of their own.
//
// Words of units and loggers pass a decoder first. A bad word is told to the
// links' WireFaults and closes the link that it came by: nothing more of that
// link is heard.
//
// If the controller may fail with its process, words stay in their rings until
// all that they led to is sent, so that an heir hears them as well, but for
// the ends of packets. An heir has the packets that are reported; packets in
// the rings to the dead process are lost. If a unit leaves the ring to it full,
// the ring from it is released once half full, and a note may be lost.
//
// Owner-thread only. Nothing is allocated for a packet.
class ControllerLoop {
 public:
  static constexpr size_t kBatch = 32;
  using Prepare = UnledLoop::Prepare;

  // The policy and the clock must outlive the loop. The tables' homes are those
  // of the NF that the units run.
  ControllerLoop(const ControllerLoopOptions& options,
                 const PlacementPolicy& policy, TableHomes tables,
                 const RealClock& clock, ControllerLinks links);
  // Its parts refer to it.
  ControllerLoop(const ControllerLoop&) = delete;
  ControllerLoop& operator=(const ControllerLoop&) = delete;

  // --- Before anything else. ---

  // Asks `starter`, which outlives the loop, before each start of a unit.
  // Without one, all loops of units run at all times.
  void set_starter(LoopStarter& starter) {
    commands_.starter().set_starter(starter);
  }
  // A controller that leases its units and may fail asks `finder`, which
  // outlives the loop, for their leases.
  void set_lease_finder(LeaseFinder& finder) {
    if (unled_.has_value()) unled_->set_lease_finder(finder);
  }
  // Of a loop that inherits: `prepare` gets each new controller before anything
  // else, to add the NF's pools; `settle` gets each that was made of reports,
  // before it is asked for anything.
  void set_prepare(Prepare prepare, Prepare settle);
  // Returns the ends of a link that is to be joined. They stay where they are.
  ControllerLinks::UnitLoopEnds& ends(size_t loop) {
    return links_.loops()[loop];
  }

  // --- Packets and turns. ---

  // Adds a packet to the batch. It arrived at `arrival`, not after now().
  void Arrive(const FlowKey& key, Instant arrival, uint32_t original_length,
              PacketHandle packet, bool by_alias) {
    batch_.emplace_back(key, arrival, original_length, packet, by_alias);
    if (has_controller()) [[likely]]
      controller_.Expect(batch_);
    packets_by_alias_ += by_alias ? 1 : 0;
  }
  // Counts the packets in the batch, and those that wait for a controller.
  size_t batch_size() const {
    return batch_.size() + (unled_.has_value() ? unled_->waiting() : 0);
  }
  // Hands the batch to the controller, and sends what it commands.
  template <ControllerHost Host>
  void HandleBatch(Host& host);
  // Handles what the units have sent, and what is due; returns true if there
  // was anything. The time is read after the messages were taken.
  template <ControllerHost Host>
  bool Turn(Host& host);
  // Sleeps until there is something to do, for `most` at most, or yields if
  // that is hardly any time.
  void IdleWait(Nanos most);
  // Waits for what units send, for `most` at most: spins for some 50 µs, if
  // there are CPUs to spare and as long as `is_other_work` is false, then
  // sleeps. Units must have threads of their own.
  void AwaitUnits(Nanos most, absl::FunctionRef<bool()> is_other_work);
  // The packet of this on_packet is at its end: frees its slot of the unit's
  // channel.
  void FreeSlot(const UnitCommand& command, ControllerEvents& events);
  // Sends a buffer to the unit loop whose share it belongs to: party i + 1 of
  // the pool is loop i.
  void ReturnBuffer(BufferPool::Party owner, PacketHandle packet);
  // The host knows that a word of a unit, or of its logger if it has one, is
  // false.
  void Refuse(UnitId unit, std::string_view kind, std::string_view field,
              uint64_t value) {
    links_.Refuse(unit, kind, field, value);
  }

  // --- Leases and pieces. ---

  // With ControllerOptions::leased: as Controller::on_lease and on_revoke. The
  // unit's loop runs.
  template <ControllerHost Host>
  bool Lease(UnitId unit, uint32_t share, Host& host);
  template <ControllerHost Host>
  bool Revoke(UnitId unit, bool at_once, Host& host);
  // Returns the leased units in which nothing of the controller is left, since
  // the last call.
  std::vector<UnitId> TakeLeft() { return words_.TakeLeft(); }
  // As Controller::DeleteFlow; false without a controller.
  template <ControllerHost Host>
  bool DeleteFlow(FlowId flow, Deletion why, Host& host);
  // Asks for the state of a flow: ControllerEvents::on_state answers, unless
  // its unit is about to change the state, or has no room to answer. Returns
  // false if no unit has the flow, or the way to the unit is full.
  bool AskState(FlowId flow);
  // Continues a flow of another controller, whose state and record these are
  // (FlowHandOver). Returns false if there is no room now, or a flow of that
  // key.
  template <ControllerHost Host>
  bool TakeFlow(const HandedFlow& flow, const State& state,
                std::span<const std::byte> record, Host& host);
  // Adds pieces, which were not of this controller before, to a pool of the NF.
  template <ControllerHost Host>
  void AddPieces(const PieceBlock& pieces, Host& host);

  // --- Loops of units that begin and end. ---

  // A loop of units runs now: starts that wait for it go on.
  void BeginStarts(size_t loop) { commands_.BeginStarts(now_, loop); }
  // Returns true if nothing is under way between this and the loop of units,
  // and no packet lies in a buffer of its share.
  bool IsIdle(size_t loop) { return links_.IsIdle(loop); }
  // The process that ran the loop of units has ended, which was seen.
  template <ControllerHost Host>
  void EndLoop(size_t loop, Host& host);
  // As LoopLinks::FindIn.
  const PacketsUnderWay::Sent* FindIn(size_t loop, PacketHandle packet) const {
    return links_.FindIn(loop, packet);
  }
  // Called just before EndLoop, while the controller is led, for a packet on
  // which the loop's NF has failed. The packet is dropped as kNfFailed, and its
  // clock is lost.
  void Condemn(size_t loop, PacketHandle packet) {
    recovery_->Condemn(loop, packet);
  }
  // Drops all packets of the flow in the loop, too; the flow is
  // given up (Controller::Condemn).
  void CondemnFlow(size_t loop, FlowId flow) {
    recovery_->CondemnFlow(loop, flow);
    controller_.Condemn(flow);
  }
  // Returns true once a new process may run the loop: nothing of the old one is
  // under way.
  bool MayBegin(size_t loop) const;
  // Another process is about to be started, which is to run the loop; then it
  // runs.
  void StartLoop(size_t loop);
  void BeginLoop(size_t loop);
  // The process of the loggers has ended, which was seen. Links that a bad word
  // of it closed are open again, for the next process; what came by them since
  // is dropped.
  void ReopenLoggers() { links_.ReopenLoggers(); }
  // Returns true if the unit has a process, as far as is known.
  bool IsUp(UnitId unit) const;
  // Returns true if loggers may have state of a failed unit that no unit has
  // taken over. Then they cannot be replaced.
  bool NeedsLoggers() const { return !WhyLoggers().empty(); }
  // Returns what only loggers have, as part of a sentence; "" if units have
  // all.
  std::string WhyLoggers() const;

  // --- The controller's failure. ---

  // The controller fails. It may have been about to handle the batch, and to
  // send commands: how far it came is drawn from `rng`. Packets that it had are
  // lost, and told. `prepare` gets each later controller as set_prepare says.
  template <ControllerHost Host>
  void Fail(Rng& rng, const Prepare& prepare, Host& host);
  // The failure was seen: over turns, a successor is made of reports.
  void Succeed();
  // Returns true if there is a controller; packets wait until is_led().
  bool has_controller() const {
    return !unled_.has_value() || unled_->has_controller();
  }
  bool is_led() const { return !unled_.has_value() || unled_->is_led(); }
  // Null if the controller may not fail.
  const Succession* succession() const {
    return unled_.has_value() ? &unled_->succession() : nullptr;
  }
  // Returns true while a successor that is being made awaits the report of the
  // loop of units, or of its loggers.
  bool AwaitsReport(size_t loop, bool of_logger) const {
    return unled_.has_value() && unled_->AwaitsReport(loop, of_logger);
  }

  // --- What it knows. ---

  // Returns the time of the last turn, or of ReadClock if that was later.
  Instant now() const { return now_; }
  Instant ReadClock() { return now_ = clock_.Now(); }
  // Returns how many slots of all units' channels are in use: packets that were
  // sent to units and are not yet at their end.
  uint64_t in_channels() const { return slots_.in_use(); }
  // Returns the number of these of the flow with this slot of the controller's
  // table, if options.counts_flows.
  uint64_t under_way(uint32_t slot) const { return slots_.under_way(slot); }
  bool is_starting() const { return !commands_.starter().empty(); }  // units
  // Returns when something is due, here or in a unit loop; Instant::max() for
  // never.
  Instant NextDue() const;
  // Returns when something is due in a unit loop; Instant::max() for never.
  Instant NextDueOfUnits() const { return links_.next_due(); }
  // Returns true while something that failed is not made good.
  bool IsRecovering() const;
  // Returns true if nothing is under way to or from a unit, and nothing is due.
  bool IsQuiet() const;
  // Counts clocks without a packet that were in units which have failed.
  uint64_t null_packets_lost() const {
    return recovery_.has_value() ? recovery_->null_packets_lost() : 0;
  }
  // Counts messages about state that units' links had no room for, and Pulls
  // of units that the flow was not sent to (StateRelay).
  uint64_t relayed_lost() const {
    return links_.relay().has_value() ? links_.relay()->lost() : 0;
  }
  uint64_t pulls_refused() const {
    return links_.relay().has_value() ? links_.relay()->refused() : 0;
  }
  Controller& controller() { return controller_; }
  const Controller& controller() const { return controller_; }
  const TableHomes& tables() const { return tables_.homes(); }
  // The loop has ended; other controllers may go on with the same tables.
  void LeaveTables() { tables_.homes().Leave(); }
  ControllerLoopFigures figures() const {
    return {.packets_by_alias = packets_by_alias_,
            .aliases_unknown = commands_.aliases_unknown()};
  }

 private:
  friend class LoopRecovery;
  friend class UnledLoop;

  // Returns false if there is no room for some of it.
  bool FlushAll();
  template <typename MakeCall, ControllerHost Host>
  void Call(const MakeCall& call, Host& host);
  template <ControllerHost Host>
  size_t HandleLink(size_t loop, bool of_logger, Host& host);
  void ReportDrained(ControllerEvents& events);
  bool MayPull(const Pull& pull) const;
  // Sends what is in out_.
  template <ControllerHost Host>
  void ExecuteAll(Host& host);

  Instant NextTimer() const {
    return std::min({controller_.next_wakeup(), tables().next_wakeup(),
                     commands_.starter().next_ready()});
  }
  bool IsDead(size_t loop) const {
    return recovery_.has_value() && recovery_->IsDead(loop);
  }
  // Returns the controller that knows most.
  const Controller& known() const {
    return unled_.has_value() ? unled_->succession().known(controller_)
                              : controller_;
  }
  const RealClock& clock_;
  ControllerOptions options_;  // of the controller that runs
  const PlacementPolicy* policy_;
  bool shares_thread_;
  Controller controller_;
  LoopTables tables_;
  LoopLinks links_;
  std::optional<LoopRecovery> recovery_;
  std::optional<UnledLoop> unled_;
  LoopCommands commands_;
  LoopWords words_;

  Instant now_ = Instant::min();
  std::vector<Arrival> batch_;
  ControllerOut out_;
  ChannelSlots slots_;
  uint64_t packets_by_alias_ = 0;
};

}  // namespace snf

#include "controller/live/controller_loop_inl.h"

#endif  // SNF_CONTROLLER_LIVE_CONTROLLER_LOOP_H_
