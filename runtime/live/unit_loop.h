// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LIVE_UNIT_LOOP_H_
#define SNF_RUNTIME_LIVE_UNIT_LOOP_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/time.h"
#include "runtime/core/unit.h"
#include "runtime/live/earliest_timers.h"
#include "runtime/live/logged_units.h"
#include "runtime/live/loop_unit.h"
#include "runtime/live/packet_server.h"
#include "runtime/live/unit_links.h"
#include "runtime/live/unit_loop_options.h"
#include "runtime/live/unit_reporter.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/ring/call_mark.h"
#include "runtime/ring/doorbell.h"
#include "runtime/ring/loop_control.h"
#include "runtime/ring/loop_progress.h"
#include "runtime/ring/real_clock.h"
#include "runtime/ring/thread_link.h"
#include "runtime/sdk/nf_spec.h"
#include "runtime/sdk/state_schema.h"
#include "runtime/shell/state_figures.h"
#include "runtime/store/state_store.h"
#include "runtime/tables/unit_tables.h"

namespace snf {

// Theory of operation. The event loop that runs units: it turns messages into
// calls of Unit, and what units command into messages. It gets a controller's
// commands, messages about state from all loops of units, and sends what its
// units command to the controller and to other units' loops.
//
//   controller ─ControllerCommand─►  ┌────────┐ ─UnitCommand─► controller
//   loops … ────UnitCommand───────►  │ units  │ ─UnitCommand─► loops …
//                                    └────────┘
//
// The loop works in turns. In a turn it takes a burst from each link
// (UnitLinks), reads the clock once, lets timers that are due run
// (EarliestTimers), and serves each unit that has packets (PacketServer).
//
// A message for which another loop's link has no room is lost, and counted:
// units repeat what matters. Messages to the controller stay until there is
// room, and no turn begins before they are gone.
//
// With a store outside of units, state goes there, and the store is asked
// before the unit that had a flow. While the store owes an answer, the loop
// does not sleep, but polls it in each turn, and waits at most kStoreWait.
//
// Units of a host may show each other the states of flows (HostRecords), in
// place of messages with their bytes.
//
// Units with output loggers (UnitOptions::has_logger) send entries in place of
// words to the controller, and read from the ring which entries are released
// (LoggedUnits). No turn begins before all entries are in the ring. Loggers
// send the state of units that have failed. When another process runs the
// loggers (LoopControl), no packet is served until that process has what the
// units keep. Replicas of shared tables send their updates to the homes, unless
// these are part of the entries (UnitTables).
//
// If the controller fails, the units report to its successor (UnitReporter).
//
// Worked example: a turn receives kStartUnit of unit 0 and 40 packets for it.
// It starts the unit, runs 32 packets and sends 32 × kRelease; the next turn
// runs the other 8, whatever comes meanwhile.
//
// Owner-thread only, but for Stop, Wake, call_mark and the progress in its
// links. Nothing is allocated for a packet.
class UnitLoop {
 public:
  // The clock must outlive the loop, and the NF be good (NfSpec::check).
  UnitLoop(const UnitLoopOptions& options, const NfSpec& nf,
           const RealClock& clock, UnitLoopLinks links);

  // Takes turns until Stop; sleeps when there is nothing to do. After each turn
  // it calls beside(), which returns whether it had anything to do.
  void Run(absl::FunctionRef<bool()> beside = [] { return false; });
  // Lets Run return soon. Any thread.
  void Stop();
  // Lets no timer of the NF run any more (Unit::StopTimers). Any thread.
  void StopTimers() {
    control().stops_timers.store(true, std::memory_order_relaxed);
  }
  // Lets the loop look at the clock, which has skipped. Any thread.
  void Wake() { links_.all().bell->Ring(); }

  // Joins the links to and from the controller to their other ends, whose
  // thread will take this loop's turns. The ends must stay where they are. Call
  // it before anything is sent.
  void Join(LinkOut& from_controller, LinkIn& to_controller) {
    links_.all().from_controller.Join(from_controller);
    to_controller.Join(links_.to_controller());
  }
  // Takes one turn; returns true if there was anything to do.
  bool Turn();
  // Returns true if a message has come. Or how long there is nothing to do, if
  // none comes.
  bool has_mail();
  Nanos MayWait() const;
  // Returns true if somebody waits for what the loggers have not released yet.
  // Else the loop looks at that when it has something else to do.
  bool AwaitsRelease() const;

  const LoopProgress& progress() const { return *links_.all().progress; }
  // Tells which call of an NF is under way.
  const CallMark& call_mark() const { return call_mark_; }
  // Lets the progress in its links tell which packet that is for. Call it
  // before the first turn.
  void ShowCalls() { call_mark_.Show(links_.all().progress->in_call); }
  // Returns what was counted; call it when no turn is under way any more.
  UnitLoopFigures figures() const;
  // Returns null for a unit that is not this loop's.
  const UnitTables* tables(UnitId unit) const {
    const LoopUnit* const shell = shell_of_[value(unit)];
    return shell != nullptr ? &shell->tables : nullptr;
  }
  // Returns a unit of this loop, once no turn is under way any more.
  const Unit& unit(UnitId unit) const { return shell_of_[value(unit)]->unit; }
  // The pool, in which another thread may view packets.
  BufferPool& buffers() { return links_.buffers(); }
  uint32_t buffers_in_use() const { return links_.all().buffers.in_use(); }

 private:
  static constexpr Nanos kStoreWait = Microseconds(50);

  class Inbox;
  class Outbox;
  class Calls;

  LoopControl& control() { return *links_.all().control; }
  LoopUnit& Shell(UnitId unit) { return *shell_of_[value(unit)]; }
  // Follows every call that may have armed or disarmed a timer.
  void NoteTimer(const LoopUnit& shell) {
    timers_.Set(static_cast<size_t>(&shell - shells_.data()),
                shell.next_timer());
  }
  Instant NextDue() const {
    return std::min(timers_.next(), server_.next_end());
  }
  // Returns true if none of the units runs.
  bool is_asleep() const {
    return std::ranges::none_of(shells_, &LoopUnit::ready);
  }
  bool Receive();
  size_t HandleLinks();
  size_t HandleController();
  void AnswerQueries();
  void TakeFromStore(const StoreAnswer& answer);
  void Handle(const ControllerCommand& command);
  [[gnu::noinline]] void HandleOther(const ControllerCommand& command);
  void Handle(const UnitCommand& message, std::span<const std::byte> record);
  void Handle(const TableMessage& message);
  void Start(LoopUnit& shell, uint32_t incarnation);
  void SendToHome(const TableMessage& message);
  void SendStopped(UnitId unit);
  void AfterCall(LoopUnit& shell);
  UnitCall CallNow() { return {now_, links_.buffers(), call_mark_, out_}; }
  // Executes what a call has commanded, and lets the unit go on with it.
  void ExecuteMore(LoopUnit& shell) {
    shell.GoOn(CallNow(), [&] { ExecuteAll(shell); });
  }
  void RunTimers(LoopUnit& shell);
  void ExecuteAll(LoopUnit& shell);
  [[gnu::noinline]] void ExecuteLogged(LoopUnit& shell);
  bool HandOver();
  void MakeReport();
  void on_name(LoopUnit& shell, const FlowName& name);
  void ShowState(const LoopUnit& shell, FlowId flow);
  void TakeState(const ControllerCommand& order,
                 std::span<const std::byte> record);
  void Execute(LoopUnit& shell, const UnitCommand& command);
  void SendRecord(const UnitCommand& command,
                  std::span<const std::byte> record);
  void SendToUnit(const UnitCommand& command,
                  std::span<const std::byte> record);
  bool Flush();
  void Publish();

  const RealClock& clock_;
  StateSchema schema_;
  const uint32_t index_;
  UnitLinks links_;
  StateFigures state_;
  uint32_t queries_ = 0;                // of shells, to be answered
  std::optional<LoggedUnits> loggers_;  // if units have loggers
  UnitReporter reporter_;
  CallMark call_mark_;
  std::vector<LoopUnit> shells_;     // by unit / loops
  std::vector<LoopUnit*> shell_of_;  // by unit; null: not this loop's
  EarliestTimers timers_;            // of shells_
  PacketServer server_;
  Instant now_ = Instant::min();
  UnitOut out_;
  uint64_t sleeps_ = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_LIVE_UNIT_LOOP_H_
