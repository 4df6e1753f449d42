// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LEASES_UNIT_LEASES_H_
#define SNF_RUNTIME_LEASES_UNIT_LEASES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/ids.h"
#include "base/inbox_scheduler.h"
#include "base/messages/controller_counts.h"
#include "base/messages/lease_messages.h"

namespace snf {

// Theory of operation. The leases that controllers have of one unit (SNF §7,
// proto/protocol.md §7), and the choice of the packet that the unit serves
// next. Each controller has an inbox, with a Unit (runtime/core/unit.h) behind
// it that keeps the state of that controller's flows alone; the caller owns
// these. An inbox is served by the sum of its leases' shares
// (base/inbox_scheduler.h).
//
// The resource manager alone sets shares. Their sum is never above the whole
// unit: a share that is too large is refused. A lease that is set to 0 keeps
// its share until it is drained: when the controller has said, behind its last
// packet, that it has left the unit, and no packet of it is queued; or as soon
// as the controller has another lease of the unit, which its inbox then uses.
//
// Worked example: controller A has 768 and B has 256. A's lease is set to 0. A
// moves its flows away, and says so behind its last packet. Once that packet is
// served, the unit answers the resource manager, which can give the 768 to
// others. Until then A is served as if its share were 1, and B has the rest.
//
// A value; owner-thread only. Next costs O(inboxes that wait) at worst; a
// message O(leases of the unit).
class UnitLeases {
 public:
  // Why a message of a resource manager was refused, which changes nothing.
  enum class Refusal : uint8_t {
    kNone,
    kStaleIncarnation,  // for another life of the unit
    kStaleEpoch,        // of an earlier manager than one that has been heard of
    kStaleNumber,       // repeated, or overtaken by a later one
    kNotHolder,         // the lease is another controller's
    kBadShare,          // negative, or more than a unit
    kTooMuch,           // than the other leases leave, or too many leases
    kCount
  };
  static constexpr size_t kMostLeases = 1'024;
  // An inbox that is not served.
  static constexpr uint32_t kNone = InboxScheduler::kNone;

  explicit UnitLeases(UnitLife life) : life_(life), inboxes_(kControllerIds) {}

  UnitLife life() const { return life_; }
  uint64_t refused(Refusal why) const {
    return refused_[static_cast<size_t>(why)];
  }
  // Returns the sum of all shares, draining ones included.
  int64_t promised() const { return promised_; }
  size_t leases() const { return leases_.size(); }
  // Returns the controller's shares that have not been set to 0.
  int64_t share(ControllerId controller) const {
    return shares_[value(controller)];
  }

  // --- Messages of the resource manager; answers go to `out`. ---
  // A repeated message is answered again. A lease that is over does not come
  // back, if it is among the last kMostLeases of such leases.
  Refusal on_set_share(const SetShare& set, std::vector<ShareSet>& out);
  // As on_set_share; but a lease that is set to 0 is over at once if its
  // holder, which may never have heard of it, does not use the unit.
  Refusal on_set_share(const SetShare& set, bool is_used,
                       std::vector<ShareSet>& out);
  // Refuses earlier managers from now on. Returns none to an earlier manager.
  std::optional<std::vector<ReportedLease>> on_ask_report(
      uint64_t manager_epoch);

  // Returns all leases, as they are reported to managers and controllers.
  std::vector<ReportedLease> Report() const;

  // The controller has left the unit, when it knew of its leases up to
  // `newest`, and no packet of it is queued.
  void on_left(ControllerId controller, LeaseId newest,
               std::vector<ShareSet>& out);

  // The holder of the lease does not use it; or the controller uses no lease of
  // this unit. Leases that were set to 0 are over then.
  void on_unused(LeaseId lease, std::vector<ShareSet>& out);
  void on_unused(ControllerId controller, std::vector<ShareSet>& out);

  // --- Service. ---
  // The controller's next packet costs that many bytes; or there is none. May
  // be repeated.
  void on_next(ControllerId controller, uint32_t cost) {
    costs_[value(controller)] = cost;
    inboxes_.Add(value(controller));
  }
  void on_empty(ControllerId controller) { inboxes_.Remove(value(controller)); }
  // Returns the controller whose packet is served next, and counts the packet's
  // cost; none if no inbox has a packet. The caller calls on_next or on_empty
  // for that controller before the next call.
  std::optional<ControllerId> Next() {
    const uint32_t next =
        inboxes_.Next([this](uint32_t inbox) { return costs_[inbox]; });
    if (next == kNone) return std::nullopt;
    return ControllerId{static_cast<uint8_t>(next)};
  }

 private:
  struct Lease {
    ControllerLife holder;
    uint64_t sequence = 0;
    int64_t share = 0;
    int64_t target = 0;
    bool has_left = false;  // its holder
  };
  using Leases = std::map<LeaseId, Lease>;

  // Returns true if the lease is over, as far as the unit remembers.
  bool IsOver(LeaseId lease) const {
    return lease <= forgotten_ || over_.contains(lease);
  }
  void NoteOver(LeaseId lease);
  Refusal Check(const SetShare& set) const;
  void Answer(const Leases::value_type& lease,
              std::vector<ShareSet>& out) const;
  // Ends the controller's leases that were set to 0, if they are drained.
  void EndDrained(ControllerId controller, std::vector<ShareSet>& out);

  UnitLife life_;
  uint64_t manager_epoch_ = 0;
  int64_t promised_ = 0;
  Leases leases_;
  std::set<LeaseId> over_;
  LeaseId forgotten_{};  // no later lease was forgotten
  std::array<int64_t, kControllerIds> shares_{};
  std::array<uint32_t, kControllerIds> costs_{};
  InboxScheduler inboxes_;
  std::array<uint64_t, static_cast<size_t>(Refusal::kCount)> refused_{};
};

}  // namespace snf

#endif  // SNF_RUNTIME_LEASES_UNIT_LEASES_H_
