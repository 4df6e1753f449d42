// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_LEASES_LEASE_USER_H_
#define SNF_CONTROLLER_LEASES_LEASE_USER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "base/messages/lease_messages.h"
#include "base/messages/manager_messages.h"
#include "base/time.h"
#include "controller/leases/lease_keeper.h"

namespace snf {

struct LeaseUserOptions {
  LeaseKeeperOptions keeper{};
  // The controller asks for the greater of its load and this; if `is_fixed`,
  // for this, whatever the load is.
  int64_t least_bps = 0;
  bool is_fixed = false;
  // The controller numbers units by their global numbers, and so uses one life
  // of a unit at a time. Otherwise each life has the lowest free number.
  bool has_global_numbers = false;
};

// Gives the unit that share, in 1/1024. A driver that cannot answers with
// on_no_unit or on_not_leased.
struct LeaseUnit {
  UnitId unit{};
  UnitLife life;
  int64_t share = 0;
};
// Takes the unit's share back: the controller's flows leave the unit, each with
// its next flowlet, or, with `at_once`, its next packet. Answered by on_left.
struct RevokeUnit {
  UnitId unit{};
  bool at_once = false;
};
using LeaseUserCommand = std::variant<ToManager, LeaseUnit, RevokeUnit>;
using LeaseUserCommands = std::vector<LeaseUserCommand>;

// Theory of operation. Makes the shares of a controller's units what its leases
// are (SNF §7, proto/protocol.md §7): measures the load, has the LeaseKeeper
// say what to ask for, and adds up the leases of each unit. Events come in;
// Settle returns what follows from them, in order.
//
//   packets ─► load ─► LeaseKeeper ─► Ask, Renew, GiveBack
//   Grant, Revoke, Gone ─► │ ─► share of each unit ─► LeaseUnit, RevokeUnit
//
// A unit is used from its first lease until on_left. If the leases of a unit
// add up to 0, flows leave it; a lease is given back once they have, or as soon
// as the unit has another lease. If the last lease has ended, flows leave at
// once.
//
// The leases fail with the controller. Its successor is given those that units
// report, and leaves units that it uses without a lease. If the successor has
// no life yet, it asks for one each epoch, and sends nothing else before.
//
// Worked example: the leases of 512 and 256 of unit 3 make LeaseUnit{3, 768}.
// Load falls, and the keeper gives the lease of 256 back: LeaseUnit{3, 512} and
// GiveBack follow at once. When the other lease is to be given back too,
// RevokeUnit{3} follows, and GiveBack after on_left(3).
//
// A value; owner-thread only. on_packet costs a few ns, Settle O(units).
class LeaseUser {
 public:
  // The load is that of the last kSamples samples.
  static constexpr size_t kSamples = 10;
  static constexpr Nanos kSample = Milliseconds(1);

  LeaseUser(const LeaseUserOptions& options, ControllerLife life);

  // --- Load. ---
  // A packet of that cost in bytes came.
  void on_packet(uint64_t bytes) { sampled_[sample_] += bytes; }
  // Ends a sample, which is to last kSample. Returns the load in bit/s.
  int64_t EndSample();
  void on_load(Instant now, int64_t load_bps);
  // From now on the controller asks for nothing, and gives back all leases.
  void LeaveAll(Instant now);

  // --- Time, and messages of the resource manager. ---
  Instant next_epoch() const { return keeper_.next_wakeup(); }
  void on_epoch(Instant now);
  void Handle(Instant now, const ToController& message);

  // --- Answers of the driver. ---
  // Nothing of the controller is in the unit any more.
  void on_left(Instant now, UnitId unit);
  // There is no process of the unit's life: its leases are given back.
  void on_no_unit(UnitId unit);
  // The unit cannot be leased now: a later Settle tries again.
  void on_not_leased(UnitId unit);
  // The controller was made anew from what units report, with these leases.
  // `life` is that of the successor, if it has one. `is_there` returns whether
  // the controller has anything in a unit.
  void on_successor(Instant now, std::optional<ControllerLife> life,
                    std::span<const HeldLease> held,
                    absl::FunctionRef<bool(UnitId)> is_there);

  // Returns what is to be done, after events.
  LeaseUserCommands Settle(Instant now);

  // Returns true if the controller has something in the unit, or may have.
  bool uses(UnitId unit) const {
    return value(unit) < units_.size() && units_[value(unit)].is_used;
  }
  // Above the numbers of all units.
  uint16_t units() const { return static_cast<uint16_t>(units_.size()); }
  bool uses_units() const;
  // Returns true if the controller has a share of any unit.
  bool has_share() const;
  // Returns the number of a life of a unit that the controller uses.
  std::optional<UnitId> Find(UnitLife life) const;
  UnitLife life(UnitId unit) const { return units_[value(unit)].life; }
  int64_t share(UnitId unit) const { return units_[value(unit)].share; }
  // Returns the newest lease of the controller that was known when the unit
  // last had a share.
  LeaseId newest(UnitId unit) const { return units_[value(unit)].newest; }
  // In 1/1024 of a unit, over all leases.
  int64_t held() const { return keeper_.held(); }
  ControllerLife life() const { return life_; }
  bool awaits_life() const { return awaits_life_; }
  bool is_leaving() const { return is_leaving_; }
  // Counts messages that were refused, over all keepers.
  uint64_t refused() const { return refused_ + keeper_.refused(); }

 private:
  struct Unit {
    bool is_used = false;
    UnitLife life;
    int64_t share = 0;
    LeaseId newest{};
    std::vector<LeaseId> vacating{};  // to be given back once left
  };

  void Execute(Instant now, const LeaseCommand& request);
  void NumberUnits();
  // Returns null if no number is free, or possible.
  Unit* Take(UnitLife life);
  void Adopt(const HeldLease& held);
  void SetShare(Instant now, UnitId unit, bool at_once);
  int64_t ShareByLeases(UnitLife life) const;
  void GiveUp(UnitLife life);

  LeaseUserOptions options_;
  ControllerLife life_;
  bool awaits_life_ = false;
  bool asks_life_ = false;   // in the next Settle
  bool is_leaving_ = false;  // for good
  LeaseKeeper keeper_;
  uint64_t refused_ = 0;         // by earlier keepers
  bool has_changed_ = false;     // since the last Settle
  bool has_lost_lease_ = false;  // since the last Settle
  LeaseCommands requests_;
  LeaseUserCommands commands_;
  std::vector<Unit> units_;                   // by UnitId
  LeaseId newest_{};                          // of all leases
  std::array<uint64_t, kSamples> sampled_{};  // bytes
  size_t sample_ = 0;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_LEASES_LEASE_USER_H_
