// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_FAILOVER_H_
#define SNF_CONTROLLER_CORE_FAILOVER_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages/controller_commands.h"
#include "base/messages/failure_messages.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "controller/core/options.h"
#include "controller/core/owner_history.h"
#include "controller/core/unit_set.h"

// SNF_FAILOVER_RULE(rule, condition, otherwise) marks where the controller
// keeps to a rule of proto/protocol.md §6. Its value is `condition`; nothing
// else is compiled into the product. In a build for tests, which defines
// SNF_RULES_CAN_BE_LEFT_OUT, its value is `otherwise` while that rule is left
// out: so a test can show that the rule is needed, and that it would notice.

#ifdef SNF_RULES_CAN_BE_LEFT_OUT

namespace snf {

enum class FailoverRule {
  kNone,
  kWait,        // F2: nothing is re-routed before all have answered
  kSurvivors,   // F3: survivors are asked, not only loggers
  kOldLoggers,  // F3: so are loggers that were sealed earlier
  kLost,        // F1, F4: lost clocks are re-routed
  kDone,        // F4: done clocks are not re-routed
  kNull,        // F4: a flow without lost clocks is moved by a null packet
  kSource,      // F5: the state of a failed unit is at its logger
  kRedirect,    // F6: the unit that holds the next clock is redirected
  kAlias,       // U9: aliases of lost clocks are withdrawn
  kPiecesLast,  // F10: pieces come back behind that
  kEnds,        // U11: an end that no logger has comes again
  kForget,      // U7: Takeovers are sent in place of a failed unit
};
inline FailoverRule left_out_failover_rule = FailoverRule::kNone;

}  // namespace snf

#define SNF_FAILOVER_RULE(rule, condition, otherwise)                       \
  (::snf::left_out_failover_rule == ::snf::FailoverRule::rule ? (otherwise) \
                                                              : (condition))

#else

#define SNF_FAILOVER_RULE(rule, condition, otherwise) (condition)

#endif

namespace snf {

class Controller;

// The outcome of an answer; all but kTaken change nothing.
enum class AnswerResult : uint8_t {
  kTaken,
  kRound,        // it is of an older round
  kNotAsked,     // its sender was not asked, or has said that it has no more
  kFutureClock,  // it names a clock that was not given yet
};

// Collects the done clock of each flow after units have failed
// (proto/protocol.md F2, F3): the highest clock that a sealed logger or a
// surviving unit reports as applied. The round is complete when all reports are
// complete. If another unit fails meanwhile, the round restarts: the clocks
// that this unit reported may be lost with it.
//
// A value; owner-thread only; nothing is allocated after construction. Takes 8
// bytes for each flow slot that is named. Reported clocks must lie within 2^31
// of the flow's newest; older ones are ignored.
class SealRound {
 public:
  // Rounds are numbered from the one after `before` on.
  SealRound(uint32_t max_flows, uint32_t max_units, uint32_t before = 0)
      : max_units_(max_units),
        round_(before),
        units_(max_units),
        loggers_(max_units),
        flows_(max_flows) {}

  // Begins a round, in which no unit or logger has been asked yet. Returns its
  // number.
  uint32_t Begin() {
    units_.Clear();
    loggers_.Clear();
    return ++round_;
  }
  // The round waits for that unit, below max_units, or its logger.
  void AwaitUnit(UnitId unit) { units_.Insert(unit); }
  void AwaitLogger(UnitId unit) { loggers_.Insert(unit); }
  bool awaits_unit(UnitId unit) const { return units_.Has(unit); }
  // The unit has stopped: it keeps nothing.
  void on_stopped(UnitId unit) { units_.Erase(unit); }
  uint32_t number() const { return round_; }
  bool complete() const { return units_.size() + loggers_.size() == 0; }

  // A sealed logger or a surviving unit answers. The flow's slot is below
  // max_flows, and `newest` its newest clock; it does not matter for kNoFlow.
  AnswerResult on_sealed(const SealAnswer& answer, Clock newest) {
    return Add(answer, newest, loggers_);
  }
  AnswerResult on_done(const DoneAnswer& answer, Clock newest) {
    return Add(answer, newest, units_);
  }
  // The flow is over: another may get its slot.
  void Erase(uint32_t slot) {
    if (round_ > 0) flows_[slot].round = 0;
  }

  // Returns the clock up to which the flow, whose newest clock this is, is
  // done; 0 if it was not reported.
  Clock done(uint32_t slot, Clock newest) const {
    const Flow& flow = flows_[slot];
    if (flow.round != round_) return Clock{};
    return newest - (static_cast<uint32_t>(value(newest)) - flow.applied);
  }

 private:
  struct Flow {
    uint32_t applied;  // its low bits
    uint32_t round;    // in which it was named last
  };
  static_assert(sizeof(Flow) == 8);

  AnswerResult Add(const DoneAnswer& answer, Clock newest, UnitSet& awaited) {
    if (answer.round != round_) return AnswerResult::kRound;
    if (value(answer.unit) >= max_units_ || !awaited.Has(answer.unit)) {
      return AnswerResult::kNotAsked;
    }
    if (answer.flow == kNoFlow) {
      awaited.Erase(answer.unit);
      return AnswerResult::kTaken;
    }
    if (answer.applied > newest) return AnswerResult::kFutureClock;
    const uint32_t slot = slot_of(answer.flow);
    if (answer.applied > done(slot, newest) &&
        value(newest) - value(answer.applied) < uint64_t{1} << 31) {
      flows_[slot] = {static_cast<uint32_t>(value(answer.applied)), round_};
    }
    return AnswerResult::kTaken;
  }

  uint32_t max_units_;
  uint32_t round_;
  UnitSet units_;    // whose answers are not complete yet
  UnitSet loggers_;  // the same
  LazyArray<Flow> flows_;
};

// Theory of operation. How a controller makes good the failure of a unit
// (proto/protocol.md F1-F6), in five steps, each of which pauses while there is
// no room for commands:
//
//   1. Sealing: the loggers of the units that have failed are sealed (kSeal).
//
//   2. Asking: the surviving units are asked for their applied clocks
//      (kDoneQuery).
//
//   3. Waiting until all have answered (SealRound).
//
//   4. Redirecting, flow by flow: aliases requested at lost clocks are
//      withdrawn, and units that wait for state of a failed unit are told that
//      it is at its logger. Then the unit's pieces may be used again
//      (PiecePools): earlier, flows might still have had aliases that name
//      them.
//
//   5. Moving, flow by flow: the flows of the failed unit go to other units.
//
// For a flow, let `done` be the highest clock that any unit or logger has
// applied. A clock above it that a failed unit owned is lost: it is re-routed,
// in order, as a tombstone, or as the packet itself if that survives
// (on_survivor). Its state is at the owner of the previous clock, or at the
// failed unit's logger. The unit that holds the next packet is redirected. A
// flow that a failed unit owned last, and of which no clock is lost, goes to
// another unit by a null packet. Meanwhile the flow's packets are routed on:
// they wait at their units.
//
// A flow whose state cannot be located is given up. So are condemned ones
// (Controller::Condemn), and flows whose lost
// clocks find no room, if no flow has found room for kMaxWait and no unit is
// starting: then all units wait for these flows. A flow that is given up
// restarts with its next packet, under another id, and the units drop their
// data of it (kForsake).
//
// A flow that is over, and whose end no logger has, is moved in the same way;
// its end follows to the unit that got its last clock.
//
// Another failure restarts all steps; flows that are moved already count at
// their new units. So every logger that was ever sealed is asked, since its
// state may not have been taken over yet.
//
// Worked example: unit 0 had clocks 1-4 of a flow and unit 1 has clock 5. Unit
// 0 fails; its logger has applied 3. Clock 4 goes to unit 1 as a tombstone with
// unit 0's logger as its source, and the Redirect of clock 5 says that its
// state is at unit 1 itself. The history is then: 1-3 at unit 0's logger, 4- at
// unit 1.

// The runs of clocks of one flow, oldest first; the last is that of the owner.
// They lie in one of two rooms of equal size, which outlive the object: no
// other may use them meanwhile.
class OwnerRuns {
 public:
  using Run = OwnerHistory::Run;

  OwnerRuns(std::span<Run> room, std::span<Run> spare)
      : room_(room), spare_(spare) {}

  // Returns false, and does nothing, if there is no room.
  bool Append(const Run& run) {
    if (count_ == room_.size()) return false;
    room_[count_++] = run;
    return true;
  }
  std::span<Run> all() { return room_.first(count_); }
  std::span<const Run> all() const { return room_.first(count_); }
  // Returns the run with that clock, or null.
  const Run* Find(Clock clock) const {
    for (const Run& run : all()) {
      if (clock >= run.first && clock <= run.last) return &run;
    }
    return nullptr;
  }
  // Gives the clock, which a run has, to `unit`. Returns false, and does
  // nothing, if there is no room.
  bool Assign(Clock clock, UnitId unit) {
    if (count_ + 2 > room_.size()) return false;
    OwnerRuns made(spare_, room_);
    for (const Run& run : all()) {
      if (clock < run.first || clock > run.last) {
        made.Extend(run);
        continue;
      }
      Run part = run;
      part.last = clock - 1;
      if (part.first <= part.last) made.Extend(part);
      made.Extend({.first = clock, .last = clock, .unit = unit});
      part = run;
      part.first = clock + 1;
      if (part.first <= part.last) made.Extend(part);
    }
    *this = made;
    return true;
  }

 private:
  // Appends a run, or extends the last one if that is at the same place.
  void Extend(const Run& run) {
    Run* const last = count_ > 0 ? &room_[count_ - 1] : nullptr;
    if (last != nullptr && last->unit == run.unit &&
        last->at_logger == run.at_logger &&
        last->is_superseded == run.is_superseded) {
      last->last = run.last;
    } else {
      Append(run);
    }
  }

  std::span<Run> room_;
  std::span<Run> spare_;
  size_t count_ = 0;
};

// A packet that was in the channel of a failed unit and survives it.
struct Survivor {
  FlowId flow{};
  Clock clock{};
  Instant arrival{};
  PacketHandle packet = kNoPacket;
  uint32_t original_length = 0;
};

// A controller's recovery, which works on the controller that it belongs to:
// its calls name that, always the same one. A value; owner-thread only; nothing
// is allocated after construction. Costs next to nothing until a unit fails,
// and then 8 bytes a flow, 48 a run of the longest history, and 32 a surviving
// packet. A lost clock takes time in proportion to its flow's history.
class Failover {
 public:
  // A history has at most `max_runs`.
  Failover(const ControllerOptions& options, uint32_t max_runs)
      : round_(options.max_flows, options.max_units, FirstRound(options)),
        crashed_(options.max_units),
        sealed_(options.max_units),
        forsaken_(options.max_units),
        runs_(size_t{max_runs} + kMoreRuns),
        more_runs_(runs_.size()),
        packets_(std::min(
            size_t{options.max_units} *
                (options.unit_queue_packets + size_t{options.recovery_slots}),
            kMaxSurvivors)) {}

  // Returns a number below all rounds of this epoch, so that answers to an
  // earlier controller fit no round of a later one. A new controller may use
  // this number for its own questions.
  static uint32_t FirstRound(const ControllerOptions& options) {
    return options.epoch << 16;
  }

  // As in controller.h.
  bool on_unit_failed(Controller& c, Instant now, UnitId unit,
                      uint32_t incarnation, ControllerOut& out);
  bool on_survivor(Controller& c, const PacketMeta& meta, PacketHandle packet);
  void on_sealed(Controller& c, Instant now, const SealAnswer& answer,
                 ControllerOut& out);
  void on_done(Controller& c, Instant now, const DoneAnswer& answer,
               ControllerOut& out);
  // Stops waiting for the unit's answer.
  void on_unit_stopped(UnitId unit) {
    if (!is_active()) return;
    round_.on_stopped(unit);
    if (phase_ == Phase::kWaiting) wakeup_ = Instant::min();
  }
  // The unit failed under an earlier controller: its logger may keep state that
  // was not taken over.
  void on_sealed_before(UnitId unit) { sealed_.Insert(unit); }
  // The flow in that slot is over.
  void Erase(uint32_t slot) { round_.Erase(slot); }
  // Continues as far as there is room; to be called at wakeup().
  void Advance(Controller& c, Instant now, ControllerOut& out);

  bool is_active() const { return phase_ != Phase::kIdle; }
  Instant wakeup() const { return wakeup_; }
  // The unit has failed, and its flows are not all moved yet.
  bool HasCrashed(UnitId unit) const {
    return is_active() && crashed_.Has(unit);
  }

 private:
  friend class Rebuild;

  static constexpr size_t kMaxSurvivors = 1 << 20;
  // Runs besides those in the history: the owner's, and the ones that a split
  // adds.
  static constexpr size_t kMoreRuns = 3;
  enum class Phase : uint8_t {
    kIdle,
    kSealing,
    kAsking,
    kWaiting,
    kRedirecting,
    kMoving,
    kDropping,  // surviving packets that are not needed
  };
  struct SourceOfState {
    UnitId unit = kNoUnit;
    StateSource kind = StateSource::kNone;
  };
  // Returns true if the unit has a slot for a re-routed packet.
  struct Receiver {
    UnitId unit = kNoUnit;
    uint64_t number = 0;  // 0: there is none
  };
  // kMore: the flow needs another step; kNoSlot: it has to wait for a slot.
  enum class MoveResult : uint8_t { kMoved, kMore, kNoSlot };

  void TakeAnswer(Controller& c, Instant now, const DoneAnswer& answer,
                  bool of_logger, ControllerOut& out);
  void GoOnWith(Phase phase, Instant wakeup);
  void SealLoggers(Controller& c, Instant now, ControllerOut& out);
  void AskSurvivors(Controller& c, Instant now, ControllerOut& out);
  void RedirectFlows(Controller& c, Instant now, ControllerOut& out);
  void MoveFlows(Controller& c, Instant now, ControllerOut& out);
  void DropSurvivors(Controller& c, ControllerOut& out);
  OwnerRuns RunsOf(const Controller& c, uint32_t slot);
  static void SetRuns(Controller& c, Instant now, uint32_t slot,
                      const OwnerRuns& runs);
  bool IsAtLogger(const OwnerHistory::Run& run) const {
    return run.at_logger || crashed_.Has(run.unit);
  }
  SourceOfState SourceOf(const OwnerRuns& runs, Clock clock) const;
  // Takes a slot, at that unit if that can be.
  static Receiver FindReceiver(Controller& c, Instant now, UnitId wish,
                               uint32_t bytes, ControllerOut& out);
  MoveResult MoveFlow(Controller& c, Instant now, uint32_t slot,
                      ControllerOut& out);
  Survivor* FindSurvivor(FlowId flow, Clock clock);
  MoveResult Reroute(Controller& c, Instant now, uint32_t slot, Clock clock,
                     OwnerRuns& runs, ControllerOut& out);
  void Redirect(Controller& c, uint32_t slot, Clock clock, SourceOfState source,
                const OwnerRuns& runs, ControllerOut& out);
  void MoveToLoggers(Controller& c, Instant now, uint32_t slot, OwnerRuns& runs,
                     ControllerOut& out);
  bool ForgetOlder(Controller& c, uint32_t slot, const OwnerRuns& runs,
                   ControllerOut& out);
  MoveResult Settle(Controller& c, Instant now, uint32_t slot, OwnerRuns& runs,
                    ControllerOut& out);
  void WithdrawAlias(Controller& c, uint32_t slot, const OwnerRuns& runs);
  static void EndAgain(Controller& c, Instant now, uint32_t slot,
                       ControllerOut& out);
  MoveResult WaitForSlot(Controller& c, Instant now, uint32_t slot,
                         ControllerOut& out);
  MoveResult GiveUp(Controller& c, Instant now, uint32_t slot,
                    ControllerOut& out);
  bool ForsakeAll(Controller& c, uint32_t slot, ControllerOut& out);

  SealRound round_;
  UnitSet crashed_;   // whose flows are not all moved yet
  UnitSet sealed_;    // that have failed once
  UnitSet forsaken_;  // that are to drop their data of the current flow
  Phase phase_ = Phase::kIdle;
  uint32_t next_ = 0;                // next unit or slot
  Instant wakeup_ = Instant::max();  // time to continue
  uint32_t forget_next_ = 0;         // next run of the current flow
  uint32_t forsake_next_ = 0;        // the first unit that is not told yet
  // Time since which no flow has found room; Instant::max() while flows do.
  Instant waits_since_ = Instant::max();
  LazyArray<OwnerHistory::Run> runs_;       // of the flow at hand
  LazyArray<OwnerHistory::Run> more_runs_;  // has room for them as well
  LazyArray<Survivor> packets_;
  uint32_t packet_count_ = 0;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_FAILOVER_H_
