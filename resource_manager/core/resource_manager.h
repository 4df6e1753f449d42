// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_CORE_RESOURCE_MANAGER_H_
#define SNF_RESOURCE_MANAGER_CORE_RESOURCE_MANAGER_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "base/messages/lease_messages.h"
#include "base/messages/manager_commands.h"
#include "base/messages/manager_messages.h"
#include "base/time.h"
#include "resource_manager/core/controller_asks.h"
#include "resource_manager/core/lease_book.h"
#include "resource_manager/core/unit_stock.h"

namespace snf {

// Theory of operation (SNF §7, proto/protocol.md §7). Capacity is counted in
// 1/1024 of a unit. What a unit has promised is the sum of `reserved` over its
// leases, and never more than 1024. A lease's reservation is the greatest share
// that the unit may still honour: it grows before the unit is told, and shrinks
// only when the unit has confirmed the last SetShare, for a share of 0 when it
// has served all that was queued. The manager decides which share is to be
// where, by three parts that keep the facts:
//
//   ControllerAsks  lives of controllers, what each asks for, and who waits
//   LeaseBook       the leases, and the messages about each
//   UnitStock       the units, their states and their room
//
// A controller's missing shares are packed, first, into units in which the
// controller has a part; then whole units, and the last part, go to the fullest
// unit with room; then a unit is started. If no unit can start, pieces of any
// size are given. Of the controllers that wait, the one that holds least is
// served first. If nothing is free and nothing starts, the controller that
// holds most gives up half of the difference, a part of one lease at a time. So
// a controller that waits gets more within a tick, the grace and the drain time
// of the unit, until others hold less than 2 · kLeastMove more than it.
//
//   cold ─► starting ─ready─► warm ◄──► active      active: it has leases
//    ▲         │ timeout       │ keep_warm  │ Close
//    │         ▼               ▼            ▼
//    └────── failed ◄─dead── draining ◄─────┘       failed: after the cold ones
//    └──────────────────stopped┘
//
// Worked example: controllers A and B ask for 2.5 units (2560). A gets units 0
// and 1 whole and half of 2; B gets the other half of 2, and units 3 and 4:
// five units, where independent ones would be six.
//
// A new manager has a greater epoch than all before. It grants nothing before
// each unit has reported or is dead, and terms begin anew then. Numbers of
// leases, incarnations and epochs of controllers begin with its epoch, so none
// comes twice. A unit whose report cannot be, or is more than the manager has
// room for, drains: its leases are unknown, and so they end.
//
// Messages may be late, lost, or come twice. Of each lease the last SetShare is
// said again until the unit has confirmed it, and so are AskReport, StartUnit
// and StopUnit; a Grant that was lost is said again when the lease is renewed,
// and at each Ask until its holder has renewed it once.
//
// A value; owner-thread only. A call costs O(commands + controllers), whatever
// the number of units, but for the reports of a recovery.
class ResourceManager {
 public:
  using State = UnitStock::State;
  static constexpr int64_t kLeastMove = 16;

  // `epoch` > 0, < 2^31. With `recover`, asks all units for their reports;
  // otherwise all units are cold.
  ResourceManager(const ManagerOptions& options, uint64_t epoch, bool recover,
                  ManagerOut& out);

  bool recovering() const { return unreported_ > 0; }
  uint64_t refused(LeaseRefusal why) const {
    return refused_[static_cast<size_t>(why)];
  }
  bool knows(GlobalUnitId unit) const { return value(unit) < units_.size(); }
  State state(GlobalUnitId unit) const { return units_[value(unit)].state; }
  // Return what the unit has free for leases, and what the controller holds.
  int64_t free(GlobalUnitId unit) const { return units_[value(unit)].free; }
  // Returns what leases have of a unit that runs, and nothing of any other.
  std::optional<int64_t> ReservedOf(GlobalUnitId unit) const {
    if (!knows(unit) ||
        (state(unit) != State::kWarm && state(unit) != State::kActive)) {
      return std::nullopt;
    }
    return kWholeUnit - free(unit);
  }
  int64_t held(ControllerId controller) const {
    return leases_.held(value(controller));
  }
  // Returns true if there is something for one who holds nothing: a unit that
  // starts, can start, or has room, or what others hold. O(controllers).
  bool can_give(Instant now) const;
  // Counts the units that start or run.
  uint32_t units_up() const { return units_.up(); }

  // Calls the handler of the message, of those below. An AskLife is answered
  // with NewLife, or not at all. Ignores a ManagerDeath.
  LeaseRefusal Handle(Instant now, const ToManager& message, ManagerOut& out);

  // Returns on_succeed, else on_join. None, and no refusal, while recovering.
  std::optional<ControllerLife> LifeFor(Instant now, ControllerId controller,
                                        ManagerOut& out);
  // Gives the controller a new life; the leases of an earlier one end. None
  // while recovering.
  std::optional<ControllerLife> on_join(Instant now, ControllerId controller,
                                        ManagerOut& out);
  // As on_join, but the leases of the earlier life go to the new one, as far as
  // the units have them; Grants follow. Also none if the controller never
  // joined, or was declared dead.
  std::optional<ControllerLife> on_succeed(Instant now, ControllerId controller,
                                           ManagerOut& out);
  LeaseRefusal on_controller_dead(Instant now, ControllerLife life,
                                  ManagerOut& out);
  LeaseRefusal on_ask(Instant now, const Ask& ask, ManagerOut& out);
  // A lease that the manager does not know is answered with Gone.
  LeaseRefusal on_renew(Instant now, const Renew& renew, ManagerOut& out);
  LeaseRefusal on_give_back(Instant now, const GiveBack& back, ManagerOut& out);

  LeaseRefusal on_share_set(Instant now, const ShareSet& set, ManagerOut& out);
  LeaseRefusal on_ready(Instant now, UnitLife unit, ManagerOut& out);
  LeaseRefusal on_stopped(Instant now, UnitLife unit, ManagerOut& out);
  // The unit, or its start, has failed: its leases end at once.
  LeaseRefusal on_unit_dead(Instant now, UnitLife unit, ManagerOut& out);
  // Takes the answer to AskReport. A dead unit is cold. A unit is to stop, once
  // it is left, if its report is invalid (kBadReport), has too many leases
  // (kTooMuch), or is of an unknown unit. After another refusal the manager
  // waits for a further answer: a report to an earlier manager (kStaleEpoch)
  // may lack shares that the unit has taken since.
  LeaseRefusal on_report(Instant now, const ReportedUnit& unit,
                         std::span<const ReportedLease> leases,
                         ManagerOut& out);
  // Revokes all leases of a unit, then stops it. Not while recovering.
  LeaseRefusal Close(Instant now, UnitLife unit, ManagerOut& out);

  // Says whether a host has a place for the unit; at first, each unit has one.
  // A unit without a place does not start; if it runs, it is closed. To be said
  // again, for both, after a recovery.
  void SetPlaced(Instant now, GlobalUnitId unit, bool is_placed,
                 ManagerOut& out);

  // Handles all times that are due; to be called at least every revoke_grace.
  void on_tick(Instant now, ManagerOut& out);

 private:
  static constexpr uint32_t kNone = LeaseBook::kNone;
  static constexpr uint32_t kMostParts = 8;  // looked at in an ask
  // Ticks of a drain after which another share may be cut.
  static constexpr uint32_t kDrainTicks = 4;

  LeaseRefusal Refuse(LeaseRefusal why);
  LeaseRefusal CheckController(ControllerLife life, ManagerOut& out);
  LeaseRefusal CheckUnit(UnitLife life) const;
  uint64_t NewNumber() {
    SNF_CHECK(numbers_ < 0xffff'ffff);  // else it would be the next epoch's
    return epoch_ << 32 | ++numbers_;
  }

  // Begins a life of a controller, and ends the leases of earlier ones.
  void BeginLife(ControllerLife life, ManagerOut& out);
  void FreeLease(Instant now, uint32_t slot, ManagerOut& out);
  void CutRevoked(Instant now, uint32_t slot, ManagerOut& out);
  void AdoptLease(uint32_t unit, const ReportedLease& told, ManagerOut& out);
  LeaseRefusal TakeReport(Instant now, UnitLife life,
                          std::span<const ReportedLease> leases,
                          ManagerOut& out);
  void FinishRecovery(Instant now, ManagerOut& out);
  void Repeat(Instant now, ManagerOut& out);

  // packing (packing.cc)
  void SayStart(uint32_t unit, bool is_repeated, ManagerOut& out);
  void StartFor(Instant now, int64_t missing, ManagerOut& out);
  int64_t Missing(uint32_t controller) const {
    return asks_.Missing(controller, leases_);
  }
  bool Fill(Instant now, uint32_t controller, ManagerOut& out);
  void GiveAt(Instant now, uint32_t controller, uint32_t unit, int64_t share,
              ManagerOut& out);
  void Serve(Instant now, ManagerOut& out);
  bool HasRoomToCome(uint32_t controller) const;
  void Balance(Instant now, ManagerOut& out);

  ManagerOptions options_;
  uint64_t epoch_;
  uint64_t numbers_ = 0;
  uint32_t unreported_ = 0;
  std::array<uint64_t, static_cast<size_t>(LeaseRefusal::kCount)> refused_{};
  UnitStock units_;
  LeaseBook leases_;
  ControllerAsks asks_;
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_CORE_RESOURCE_MANAGER_H_
