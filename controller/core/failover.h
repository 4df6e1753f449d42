// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_FAILOVER_H_
#define SNF_CONTROLLER_CORE_FAILOVER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages/controller_commands.h"
#include "base/messages/failure_messages.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "controller/core/options.h"
#include "controller/recovery/failover_rules.h"
#include "controller/recovery/forsaking.h"
#include "controller/recovery/owner_history.h"
#include "controller/recovery/owner_runs.h"
#include "controller/recovery/seal_round.h"
#include "controller/recovery/survivors.h"
#include "controller/units/unit_set.h"

namespace snf {

class Controller;

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
// (Survivors). Its state is at the owner of the previous clock, or at the
// failed unit's logger. The unit that holds the next packet is redirected. A
// flow that a failed unit owned last, and of which no clock is lost, goes to
// another unit by a null packet. Meanwhile the flow's packets are routed on:
// they wait at their units.
//
// A flow whose state cannot be located is given up. So are flows that came from
// another controller (FlowHandOver) if no clock of them was run here, condemned
// ones (Controller::Condemn), and flows whose lost
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
        forsaking_(options.max_units),
        runs_(size_t{max_runs} + kMoreRuns),
        more_runs_(runs_.size()),
        survivors_(std::min(
            size_t{options.max_units} *
                (options.unit_queue_packets + size_t{options.recovery_slots}),
            kMaxSurvivors)) {}

  // Returns a number below all rounds of this epoch, so that answers to an
  // earlier controller fit no round of a later one. A new controller may use
  // this number for its own questions.
  static uint32_t FirstRound(const UnitPoolOptions& options) {
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
    kDropping,  // surviving packets that no lost clock asked for
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

  SealRound round_;
  UnitSet crashed_;  // whose flows are not all moved yet
  UnitSet sealed_;   // that have failed once
  Forsaking forsaking_;
  Phase phase_ = Phase::kIdle;
  uint32_t next_ = 0;                // next unit or slot
  Instant wakeup_ = Instant::max();  // time to continue
  uint32_t forget_next_ = 0;         // next run of the current flow
  // Time since which no flow has found room; Instant::max() while flows do.
  Instant waits_since_ = Instant::max();
  LazyArray<OwnerHistory::Run> runs_;       // of the flow at hand
  LazyArray<OwnerHistory::Run> more_runs_;  // has room for them as well
  Survivors survivors_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_FAILOVER_H_
