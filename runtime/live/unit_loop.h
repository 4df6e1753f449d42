// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LIVE_UNIT_LOOP_H_
#define SNF_RUNTIME_LIVE_UNIT_LOOP_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/time.h"
#include "runtime/core/kept_report.h"
#include "runtime/core/service_model.h"
#include "runtime/core/state_figures.h"
#include "runtime/core/unit.h"
#include "runtime/core/unit_options.h"
#include "runtime/core/unit_shell.h"
#include "runtime/live/log_handover.h"
#include "runtime/live/paced_service.h"
#include "runtime/live/unit_logs.h"
#include "runtime/live/unit_turns.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/ring/call_mark.h"
#include "runtime/ring/doorbell.h"
#include "runtime/ring/loop_control.h"
#include "runtime/ring/loop_progress.h"
#include "runtime/ring/real_clock.h"
#include "runtime/ring/thread_link.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/nf_spec.h"
#include "runtime/sdk/state_schema.h"
#include "runtime/store/state_store.h"
#include "runtime/tables/unit_tables.h"
#include "runtime/wire/decoder.h"
#include "runtime/wire/log_word.h"
#include "runtime/wire/wire_faults.h"

namespace snf {

struct UnitLoopOptions {
  // The loop of this index among `loops` runs the units index, loops + index,
  // 2 · loops + index … below max_units.
  uint32_t index = 0;
  uint32_t loops = 1;
  uint32_t max_units = 64;
  uint32_t incarnation = LogWord::kIncarnation;  // of all units
  UnitOptions unit;                              // of each unit
  TableOptions tables;
  // A unit is as fast as this says; absent: as fast as it can be.
  std::optional<ServiceModel> service;
  // Tell for how long units were busy (LoopProgress): by the service model, or
  // else by the clock, which costs two more readings of it a turn.
  bool measures_busy = false;
};

// Holds what connects a loop to a controller and to all loops of units. Where
// it points to outlives the loop.
struct UnitLoopLinks {
  BufferPool buffers;  // as a party of its own
  Doorbell* bell;      // the loop's; all who send to it ring it
  LoopProgress* progress;
  LoopControl* control;
  WireFaults* faults;  // gets what is wrong in words of others
  LinkIn from_controller;
  LinkOut to_controller;
  // By index, the own among them. If is_relayed: the own, and that of a relay
  // to all other loops.
  std::vector<LinkIn> from_loops;
  std::vector<LinkOut> to_loops;
  bool is_relayed = false;
  StateStore* store = nullptr;  // with UnitOptions::has_store
  // Set if units have loggers, which keep the state of units that have failed.
  std::optional<LinkOut> to_loggers{};
  std::optional<LinkIn> from_loggers{};
  // Set if the loggers' process may end: the next one gets what units keep.
  std::optional<LinkOut> to_new_loggers{};
  // Set if loops of other controllers run the same units, on the same thread.
  UnitTurns* turns = nullptr;
  // Set if the controller may fail; units have loggers then.
  const ControllerEpoch* controllers = nullptr;
};

// Counts what a loop's units did.
struct UnitLoopFigures {
  StateFigures state;
  uint32_t held_packets_max = 0;  // in one unit
  uint64_t sleeps = 0;            // for want of work
  UnitLogFigures logs;
  // The counts of all parts of the NF, in order, summed over units; empty if
  // the loop has none.
  std::vector<uint64_t> nf_counts;
};

// Theory of operation. The event loop that runs units: it turns messages into
// calls of Unit, and what units command into messages. It gets a controller's
// commands, messages about state from all loops of units, and sends what its
// units command to the controller and to other units' loops.
//
//   controller ─ControllerCommand─►  ┌────────┐ ─UnitCommand─► controller
//   loops … ────UnitCommand───────►  │ units  │ ─UnitCommand─► loops …
//                                    └────────┘
//
// It works in turns. In a turn it takes a burst from each link, reads the
// clock once, lets timers that are due run, and serves each unit that has
// packets, kServedInATurn at the most. If units have a capacity, what a packet
// causes happens when its service ends.
//
// A message for which another loop's link has no room is lost, and counted:
// units repeat what matters. Messages to the controller stay until there is
// room, and no turn begins before they are gone.
//
// With a store outside of units, state goes there, and the store is asked
// before the unit that had a flow. While the store owes an answer, the loop
// does not sleep, but polls it in each turn, and waits at most kStoreWait.
//
// Words of others pass a decoder first. A bad word is added to WireFaults and
// closes its link: nothing more is taken from its sender.
//
// Units with output loggers (UnitOptions::has_logger) send entries, by
// UnitLogs, in place of words to the controller, and read from the ring which
// entries are released. No turn begins before all entries are in the ring.
// Loggers send the state of units that have failed. Messages about state stay
// in their ring until they are handled, so that the next process that runs the
// loop begins with a whole one. When another process runs the loggers
// (LoopControl), no packet is served until that process has what the units keep
// (LogHandover).
//
// If the loggers' process may end, updates of shared tables are part of the
// entries: loggers send them to the homes, and say which are merged. Then
// replicas here only take totals; else they send updates as well (UnitTables).
//
// Where loops of several controllers share units, each of them takes Turns on
// the thread of all, and begins a packet when the unit is to serve it
// (UnitTurns).
//
// If the controller fails, a successor with a higher epoch takes its place. A
// loop that sees the epoch first handles all that the predecessor has sent,
// then reports what its units have (proto/protocol.md F9), and behind that
// repeats their open requests. The loop reads the epoch after it has taken
// messages of other loops and before it handles them: their senders have
// reported to no newer controller (U14). The loggers report once they have all
// entries that units made before their reports.
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
    links_.control->stops_timers.store(true, std::memory_order_relaxed);
  }
  // Lets the loop look at the clock, which has skipped. Any thread.
  void Wake() { links_.bell->Ring(); }

  // Joins the links to and from the controller to their other ends, whose
  // thread will take this loop's turns. The ends must stay where they are. Call
  // it before anything is sent.
  void Join(LinkOut& from_controller, LinkIn& to_controller) {
    links_.from_controller.Join(from_controller);
    to_controller.Join(links_.to_controller);
  }
  // Takes one turn; returns true if there was anything to do.
  bool Turn();
  // Returns true if a message has come. Or how long there is nothing to do, if
  // none comes.
  bool has_mail();
  Nanos MayWait() const;

  const LoopProgress& progress() const { return *links_.progress; }
  // Tells which call of an NF is under way.
  const CallMark& call_mark() const { return call_mark_; }
  // Lets the progress in its links tell which packet that is for. Call it
  // before the first turn.
  void ShowCalls() { call_mark_.Show(links_.progress->in_call); }
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
  BufferPool& buffers() { return links_.buffers; }
  uint32_t buffers_in_use() const { return links_.buffers.in_use(); }

 private:
  static constexpr uint32_t kServedInATurn = 32;
  static constexpr Nanos kStoreWait = Microseconds(50);

  struct LoopUnit : UnitShell {
    UnitTables tables;
    bool is_listed = false;  // in runnable_
    // Of a DoneQuery that is to be answered; 0: there is none.
    uint32_t asked_round = 0;
    bool awaits_turn = false;  // of UnitTurns: its packet is not served yet
    bool has_left = false;     // … and nothing of its controller is here
    PacedService service{};    // of a unit with a capacity
    uint32_t incarnation = 0;  // 0: it was never started
    KeptReport kept{};         // for another controller
  };

  LoopUnit& Shell(UnitId unit) { return *shell_of_[value(unit)]; }
  static Instant NextTimer(const LoopUnit& shell) {
    return std::min(shell.unit.next_wakeup(), shell.tables.next_wakeup());
  }
  // Follows every call that may have armed or disarmed a timer.
  void NoteTimer(const LoopUnit& shell) {
    Instant& timer = timers_[static_cast<size_t>(&shell - shells_.data())];
    timer = NextTimer(shell);
    next_timer_ = std::min(next_timer_, timer);
  }
  bool Receive();
  size_t HandleLinks();
  size_t HandleController();
  void AnswerQueries();
  bool PollStore();
  void TakeFromStore(const StoreAnswer& answer);
  void CloseBrokenLinks();
  void Handle(const ControllerCommand& command);
  [[gnu::noinline]] void HandleOther(const ControllerCommand& command);
  void Handle(const UnitCommand& message, std::span<const std::byte> record);
  void Handle(const TableMessage& message);
  void SendToHome(const TableMessage& message);
  void SendStopped(UnitId unit);
  // Returns true if none of the units runs.
  bool is_asleep() const {
    return std::ranges::none_of(shells_, &LoopUnit::ready);
  }
  void AfterCall(LoopUnit& shell);
  UnitCall CallNow() { return {now_, links_.buffers, call_mark_, out_}; }
  // Executes what a call has commanded, and lets the unit go on with it.
  void ExecuteMore(LoopUnit& shell) {
    shell.GoOn(CallNow(), [&] { ExecuteAll(shell); });
  }
  void List(LoopUnit& shell);
  bool ServeAll();
  [[gnu::noinline]] bool ServeAllByTheClock();
  bool Serve(LoopUnit& shell);
  bool Begin(LoopUnit& shell);
  void BeginService(LoopUnit& shell);
  [[gnu::noinline]] bool TakeTurn(LoopUnit& shell);
  [[gnu::noinline]] void EndTurn(const LoopUnit& shell);
  [[gnu::noinline]] void SeeEmpty(LoopUnit& shell);
  void Finish(LoopUnit& shell);
  void RunTimers();
  void RunTimers(LoopUnit& shell);
  void ExecuteAll(LoopUnit& shell);
  [[gnu::noinline]] void ExecuteLogged(LoopUnit& shell);
  void LookForReleased();
  bool HandleReleased();
  // True while another process of loggers is to get what the units keep.
  bool must_hand_over() const {
    return handover_.has_value() &&
           links_.control->logger_process.load(std::memory_order_relaxed) !=
               handed_over_;
  }
  // True while another controller is to get what the units have to report.
  bool must_report() const {
    return links_.controllers != nullptr &&
           links_.controllers->newest.load(std::memory_order_acquire) != epoch_;
  }
  void MakeReport();
  UnitReport StandingOf(const LoopUnit& shell) const;
  void on_name(LoopUnit& shell, const FlowName& name);
  bool HandOver();
  void on_released(LoopUnit& shell, const UnitLogs::Sent& entry);
  class Outbox;
  void Execute(LoopUnit& shell, const UnitCommand& command);
  void SendRecord(const UnitCommand& command,
                  std::span<const std::byte> record);
  void SendToUnit(const UnitCommand& command,
                  std::span<const std::byte> record);
  bool Flush();
  void Publish();

  UnitLoopLinks links_;
  const RealClock& clock_;
  StateSchema schema_;
  uint32_t index_;
  uint32_t loops_;
  std::optional<WordsToUnits> words_;          // of the controller
  std::vector<WordsBetweenUnits> unit_words_;  // of links_.from_loops
  uint32_t queries_ = 0;                       // of shells, to be answered
  std::optional<UnitLogs> logs_;               // if units have loggers
  std::optional<LogHandover> handover_;        // if those may end
  // Processes of loggers: which gets what units keep, and which has got it.
  uint32_t handing_over_ = 0;
  uint32_t handed_over_ = 0;
  uint32_t epoch_ = 0;  // of the controller to which the units have reported
  CallMark call_mark_;
  std::optional<ServiceModel> service_;  // absent: as fast as can be
  bool measures_busy_;
  Nanos busy_;
  std::vector<LoopUnit> shells_;     // by unit / loops
  std::vector<LoopUnit*> shell_of_;  // by unit; null: not this loop's
  std::vector<Instant> timers_;      // of shells_: the earliest
  std::vector<LoopUnit*> runnable_;
  Instant now_ = Instant::min();
  Instant next_timer_ = Instant::max();  // the earliest of all units
  Instant next_service_end_ = Instant::max();
  UnitOut out_;
  StateFigures state_;
  uint32_t held_packets_max_ = 0;
  uint64_t sleeps_ = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_LIVE_UNIT_LOOP_H_
