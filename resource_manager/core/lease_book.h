// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_CORE_LEASE_BOOK_H_
#define SNF_RESOURCE_MANAGER_CORE_LEASE_BOOK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/messages/controller_counts.h"
#include "base/messages/lease_messages.h"
#include "base/messages/manager_commands.h"
#include "base/time.h"
#include "resource_manager/core/linked_lists.h"
#include "resource_manager/core/unit_stock.h"

namespace snf {

// Theory of operation. The leases that a resource manager has given, and their
// life (proto/protocol.md §7). The book decides nothing: a caller sets shares,
// and the book keeps sums, lists and reservations in step, and pushes the
// message that each change needs.
//
//   Add ─SetTo─► unconfirmed ─Confirm─► granted ─SetTo─► unconfirmed …
//                                          │ StartTerm, RevokeTo: due at a time
//                                          └─End: a share of 0─► Erase
//
// What a unit has promised is the sum of `reserved` over its leases. A
// reservation grows with SetTo, before the unit is told, and shrinks only when
// the unit has confirmed the last SetShare. The book says each SetShare again
// until then, and numbers SetShares of a lease 1, 2, 3 …
//
// Worked example: a lease of 600 of unit 0 is set to 200. The controller holds
// 200 at once, but 600 of the unit stay reserved: the unit may still serve
// packets in its queue. With the unit's confirmation, 400 of them are free.
//
// A value; owner-thread only. Finding and changing a lease costs O(1).
class LeaseBook {
 public:
  static constexpr uint32_t kNone = LinkedLists::kNone;
  enum Due : uint32_t { kByTerm, kByRevoke, kDues };

  struct Lease {
    LeaseId id{};
    ControllerLife holder;
    uint32_t unit = 0;
    int64_t share = 0;
    int64_t reserved = 0;
    int64_t keep = 0;  // when revoked
    uint64_t sequence = 0;
    bool confirmed = false;
    bool is_heard = false;  // its holder knows it
    uint32_t set_at = 0;    // the tick of the last SetShare that was new
    uint32_t said_at = 0;   // … and of the last one
    Instant due{};
  };

  // The epoch is that of the resource manager.
  LeaseBook(const ManagerOptions& options, uint64_t epoch);

  // Leases have slots, valid until Erase. Find returns kNone for a lease that
  // is not in the book.
  const Lease& operator[](uint32_t slot) const { return leases_[slot]; }
  uint32_t Find(LeaseId lease) const;
  // Returns the sum of the controller's shares.
  int64_t held(uint32_t controller) const { return held_[controller]; }
  // Returns true if a controller holds more than this.
  bool HoldsAnyAbove(int64_t share) const;
  // Returns true if there may be one more lease.
  bool has_room() const {
    return shares_ < units_ * kLeasesPerUnit && slots_.size() < max_known();
  }
  // Checks leases that a unit has reported: the shares must fit into the unit,
  // the leases into the book, and all must be of earlier managers.
  LeaseRefusal Check(std::span<const ReportedLease> leases) const;

  // Lists: all leases of a unit; a controller's leases that have a share, parts
  // of units first; leases that end by themselves, by time; leases whose last
  // SetShare was not confirmed, by the time of that message.
  uint32_t FirstOfUnit(uint32_t unit) const { return of_unit_.Front(unit); }
  uint32_t NextOfUnit(uint32_t slot) const { return of_unit_.Next(slot); }
  uint32_t FirstOf(uint32_t controller) const {
    return of_controller_.Front(controller);
  }
  uint32_t NextOf(uint32_t slot) const { return of_controller_.Next(slot); }
  uint32_t FirstDue(Due by) const { return due_.Front(by); }
  // Returns the first that is due by now, or kNone.
  uint32_t FirstDue(Due by, Instant now) const;
  bool is_due_by(uint32_t slot, Due by) const {
    return due_.ListOf(slot) == by;
  }
  uint32_t FirstUnconfirmed() const { return unconfirmed_.Front(0); }
  uint32_t NextUnconfirmed(uint32_t slot) const {
    return unconfirmed_.Next(slot);
  }

  // Adds a lease without a share; SetTo has to follow.
  uint32_t Add(LeaseId id, ControllerLife holder, uint32_t unit,
               UnitStock& units);
  // As Add, for a lease that a unit has reported, with what is reserved for it.
  uint32_t Adopt(uint32_t unit, const ReportedLease& told, UnitStock& units);
  // Sets the share, and tells the unit.
  void SetTo(uint32_t slot, int64_t share, UnitStock& units, ManagerOut& out);
  // The unit has confirmed the last share, which is not 0: grants it.
  void Confirm(uint32_t slot, UnitStock& units, ManagerOut& out);
  // Hands the lease over to a later life of its holder.
  void GiveTo(uint32_t slot, ControllerLife holder, UnitStock& units,
              ManagerOut& out);
  // Ends the lease, as far as its holder is concerned: the unit drains it. If
  // `tell`, tells the holder.
  void End(uint32_t slot, bool tell, UnitStock& units, ManagerOut& out);
  void EndAll(ControllerId controller, UnitStock& units, ManagerOut& out);
  void SayGone(uint32_t slot, ManagerOut& out) const;
  // The unit has drained the lease, or is dead: forgets it.
  void Erase(uint32_t slot, UnitStock& units);

  // A term ends a lease that its holder does not renew. RevokeTo cuts a lease
  // to `keep` after the grace.
  void StartTerm(Instant now, uint32_t slot);
  void RevokeTo(Instant now, uint32_t slot, int64_t keep, ManagerOut& out);
  // Grants a confirmed share, perhaps again.
  void SayGrant(uint32_t slot, const UnitStock& units, ManagerOut& out) const;
  // Repeats some Grants that were lost: their holder cannot renew the leases.
  void SayUnheard(uint32_t controller, const UnitStock& units,
                  ManagerOut& out) const;
  // The holder knows the lease.
  void on_heard(uint32_t slot) { leases_[slot].is_heard = true; }

  // Ticks count the time after which messages are repeated.
  uint32_t ticks() const { return ticks_; }
  void Tick() { ++ticks_; }
  bool IsToBeRepeated(uint32_t said_at) const {
    return ticks_ - said_at >= kRepeatTicks;
  }
  // Repeats SetShares that are not confirmed.
  void Repeat(const UnitStock& units, ManagerOut& out);

 private:
  // The most leases of a unit, on average; as many again can be draining.
  static constexpr uint32_t kLeasesPerUnit = 8;
  static constexpr uint32_t kKnownPerUnit = 2 * kLeasesPerUnit;
  static constexpr uint32_t kMostGrants = 8;  // said again in an ask
  // Ticks until a message that was not confirmed is repeated.
  static constexpr uint32_t kRepeatTicks = 2;
  size_t max_known() const { return units_ * kKnownPerUnit; }

  uint32_t Insert(const Lease& lease, UnitStock& units);
  void SayShare(uint32_t slot, const UnitStock& units, ManagerOut& out);

  uint64_t epoch_;
  Nanos term_;
  Nanos revoke_grace_;
  size_t units_;
  uint32_t ticks_ = 0;
  uint32_t shares_ = 0;  // leases that have not been ended
  std::vector<Lease> leases_;
  std::vector<uint32_t> free_slots_;
  absl::flat_hash_map<uint64_t, uint32_t> slots_;  // by LeaseId
  std::array<int64_t, kControllerIds> held_{};
  LinkedLists of_unit_;
  LinkedLists of_controller_;
  LinkedLists due_;
  LinkedLists unconfirmed_;
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_CORE_LEASE_BOOK_H_
