// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_LEASES_LEASE_KEEPER_H_
#define SNF_CONTROLLER_LEASES_LEASE_KEEPER_H_

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/messages/lease_messages.h"
#include "base/time.h"

namespace snf {

struct LeaseKeeperOptions {
  int64_t unit_capacity_bps = 1'000'000'000;  // ≤ 2^40
  uint32_t max_units = 64;                    // leased at the same time
  // Is asked for above the load, in 1/1024 of the load; ≤ 1024.
  uint32_t headroom = kWholeUnit / 10;
  bool whole_units = false;  // ask for no parts of units
  Nanos epoch = Milliseconds(100);
  Nanos term = Seconds(1);
  // The longest time that a message to the resource manager and its answer
  // take: a grant that comes later was sent after the message was read.
  Nanos round_trip = Milliseconds(10);
};

// Tells the caller to use at most `keep` of a lease, and to move flows away
// (U8). To be answered with on_vacated.
struct VacateLease {
  LeaseId lease{};
  UnitId unit = kNoUnit;
  int64_t keep = 0;
};
using LeaseCommand = std::variant<Ask, Renew, GiveBack, VacateLease>;
using LeaseCommands = std::vector<LeaseCommand>;

// Theory of operation. A controller's leases of units (SNF §7,
// proto/protocol.md §7), and its messages to the resource manager. At the end
// of each epoch the keeper asks for the greater of the mean and the present
// load, and the headroom. Leases above that are given back, the smallest ones
// first, so that at most one is cut. Within an epoch the keeper asks again as
// soon as the load has used up half of the headroom. Leases are renewed twice a
// term. A share that is given back or revoked is vacated first, and not counted
// from then on. If the load grows meanwhile, a vacated share that is not given
// back yet is used again.
//
// Units that it has a part of are numbered densely, the lowest free number
// first; a unit that starts again is another one.
//
// Worked example: units of 1 Gbit/s, headroom 10 %. After an epoch of 2 Gbit/s
// on average it asks for 2.2 units. If then flows add up to 2.1 Gbit/s, it asks
// for 2.31. After an epoch of 1.5 Gbit/s it keeps 1.65: it gives back the part
// of 0.31, and 0.35 of a whole one.
//
// A lease that was given back whole is remembered for a round trip, but not its
// unit: a grant of the lease may be under way. A lease that was cut does not
// grow before a grant has confirmed the cut; without a grant, the next renewal
// repeats the cut.
//
// Messages may be lost, late, or come twice: a grant older than the latest of
// its lease changes nothing, nor does a message of a resource manager older
// than the latest. The keeper repeats its open messages to a new manager, which
// does not know the revocations of its predecessor: if the new manager grants a
// revoked lease, the lease is no longer revoked.
//
// A value; owner-thread only. A call costs O(log leases); on_epoch, and a
// grant of a new lease, O(leases).
// Not for the packet path: on_load is for changes of the load.
class LeaseKeeper {
 public:
  LeaseKeeper(const LeaseKeeperOptions& options, ControllerLife life);

  int64_t load_bps() const { return load_bps_; }
  // Return the shares that may be used now, and the last ask, in 1/1024 of a
  // unit.
  int64_t held() const { return held_; }
  int64_t wanted() const { return wanted_; }
  // Returns the share of the unit that may be used; 0 if it is not leased.
  int64_t share(UnitId unit) const {
    return value(unit) < units_.size() ? units_[value(unit)].share : 0;
  }
  // Above the numbers of all units.
  uint32_t units() const { return static_cast<uint32_t>(units_.size()); }
  // Returns the life of a unit of which the controller has a lease.
  UnitLife life(UnitId unit) const { return units_[value(unit)].life; }
  // Counts messages for another life of the controller, of an earlier resource
  // manager, about a lease that is not held, or with an impossible share, which
  // change nothing.
  uint64_t refused() const { return refused_; }

  // The time at which on_epoch is to be called.
  Instant next_wakeup() const { return epoch_begin_ + options_.epoch; }
  // The load has changed; it is 0 at first, and ≤ 2^50 bit/s.
  void on_load(Instant now, int64_t load_bps, LeaseCommands& out);
  void on_epoch(Instant now, LeaseCommands& out);
  // A grant for more than max_units units is given back.
  void on_grant(const Grant& grant, LeaseCommands& out);
  void on_revoke(const Revoke& revoke, LeaseCommands& out);
  void on_gone(const Gone& gone);
  void on_new_manager(Instant now, const NewManager& manager,
                      LeaseCommands& out);
  // Gives the controller another life, which the resource manager knows:
  // repeats all open messages, and numbers asks anew.
  void Succeed(Instant now, ControllerLife life, LeaseCommands& out);
  // The unit's process has ended: gives all its leases back.
  void GiveUp(UnitId unit, LeaseCommands& out);
  // The flows that had to move are away.
  void on_vacated(Instant now, LeaseId lease, LeaseCommands& out);

 private:
  __extension__ using Wide = unsigned __int128;
  struct Held {
    UnitId unit = kNoUnit;  // kNoUnit: all was given back
    int64_t share = 0;      // that may be used
    int64_t granted = 0;    // 0: all was given back
    uint64_t sequence = 0;  // of the last grant
    bool is_cut = false;    // and no grant has confirmed it
    // The resource manager of the epoch `revoker` revoked the lease.
    bool is_revoked = false;
    uint64_t revoker = 0;
    Instant given_back{};
  };
  using Leases = std::map<LeaseId, Held>;
  struct Unit {
    UnitLife life;
    int64_t share = 0;
    uint32_t leases = 0;
  };

  void Refuse() { ++refused_; }
  bool IsOld(uint64_t manager_epoch);
  void SayAgain(Instant now, LeaseCommands& out);
  void AddLoad(Instant now);
  int64_t SharesFor(int64_t load_bps, int64_t headroom) const;
  void AskFor(int64_t shares, LeaseCommands& out);
  void VacateAbove(int64_t shares, LeaseCommands& out);
  void Reclaim();
  void Vacate(Leases::iterator at, int64_t keep, LeaseCommands& out);
  void Resize(Leases::iterator at, int64_t share);
  void LeaveUnit(Leases::iterator at);
  void Forget(Leases::iterator at);
  void RenewAll(Instant now, LeaseCommands& out);
  UnitId FindUnit(UnitLife life);

  LeaseKeeperOptions options_;
  ControllerLife life_;
  int64_t load_bps_ = 0;
  int64_t held_ = 0;
  int64_t wanted_ = 0;
  uint64_t asks_ = 0;
  uint64_t refused_ = 0;
  uint64_t manager_epoch_ = 0;     // 0: none has been heard of
  bool has_to_say_again_ = false;  // to a manager that is new
  Wide epoch_load_ = 0;            // bit/s times ns
  Instant load_until_{};
  Instant epoch_begin_{};
  Instant next_renewal_ = Instant::min();
  Leases leases_;
  std::set<std::pair<int64_t, LeaseId>> by_share_;  // none of 0
  std::vector<Unit> units_;                         // by UnitId
};

}  // namespace snf

#endif  // SNF_CONTROLLER_LEASES_LEASE_KEEPER_H_
