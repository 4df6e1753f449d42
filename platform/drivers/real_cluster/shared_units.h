// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_CLUSTER_SHARED_UNITS_H_
#define SNF_PLATFORM_DRIVERS_REAL_CLUSTER_SHARED_UNITS_H_

#include <array>
#include <bitset>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/messages/controller_counts.h"
#include "base/messages/lease_messages.h"
#include "base/time.h"
#include "platform/drivers/loops/unit_threads.h"
#include "platform/drivers/real_cluster/lease_mail.h"
#include "runtime/leases/unit_hosts.h"
#include "runtime/leases/unit_leases.h"

namespace snf {

// A life of a unit that controllers share: its leases, and the controllers that
// use it. Owner-thread only.
class SharedUnit {
 public:
  explicit SharedUnit(UnitLife life) : leases_(life) {}

  UnitLeases& leases() { return leases_; }
  // Return whether any controller has something in the unit, and whether the
  // given controller may have packets there.
  bool is_attached() const { return users_.any(); }
  bool is_attached(ControllerId controller) const {
    return users_[value(controller)] && !drained_[value(controller)];
  }
  void SetAttached(ControllerId controller, bool is_attached) {
    users_[value(controller)] = is_attached;
    drained_[value(controller)] = false;
  }
  void SetDrained(ControllerId controller) {
    drained_[value(controller)] = true;
  }

  std::optional<ControllerId> serves{};  // the packet's controller
  Instant last_end = Instant::min();     // on the machine's clock
  bool is_to_stop = false;

 private:
  UnitLeases leases_;
  std::bitset<kControllerIds> users_;
  std::bitset<kControllerIds> drained_;
};

// Theory of operation. The units that one thread runs for several controllers
// in real time (proto/protocol.md §7). Each controller has a loop of units of
// its own on the thread, with rings of its own: its inbox in all of them. These
// loops take turns; before a loop begins a packet, it asks here whether the
// unit is to serve it, or that of another controller first, by shares.
//
// A controller's number of a unit is the unit's global one. A unit is ready as
// soon as it is started: its process is the thread's.
//
// Worked example: controllers 0 and 1 have 3/4 and 1/4 of unit 0, and packets
// of one size. The loop of 0 begins three, and then not; that of 1 begins one,
// and then not; and so on.
//
// Owner-thread only.
class SharedUnits {
 public:
  SharedUnits() = default;
  SharedUnits(const SharedUnits&) = delete;
  SharedUnits& operator=(const SharedUnits&) = delete;

  // Handles a message of the resource manager, with answers for TakeAnswers; or
  // of a controller, which is answered at once.
  void Handle(const ToUnit& message);
  std::vector<ToManager> TakeAnswers();
  // Returns the turns of the controller's loop, which live as long as this.
  UnitTurns& TurnsOf(ControllerId controller);
  // The controller's loop takes no turns any more.
  void Leave(ControllerId controller);
  uint64_t refused() const { return refused_; }
  // Counts the refused shares that were more than other leases had left.
  uint64_t overpromised() const { return overpromised_; }

 private:
  // The turns of one controller's loop.
  class Inbox final : public UnitTurns {
   public:
    Inbox(SharedUnits& units, ControllerId controller)
        : units_(units), controller_(controller) {}
    ControllerId controller() const { return controller_; }

    void on_start(UnitId unit) override;
    void on_drained(UnitId unit) override;
    void on_stopped(UnitId unit) override;
    void on_next(UnitId unit, uint32_t cost) override;
    void on_empty(UnitId unit) override;
    bool Begin(UnitId unit) override;
    void on_served(UnitId unit, Instant end) override;
    Instant last_end(UnitId unit) const override;

   private:
    // Returns null if there is no process: then no other controller uses the
    // unit.
    SharedUnit* Find(UnitId unit) const {
      return units_.hosts_.Find(GlobalUnitId{value(unit)});
    }

    SharedUnits& units_;
    ControllerId controller_;
    // Units that the controller uses, or packets of it may still be in.
    std::bitset<kMaxUnits> uses_;
    friend class SharedUnits;
  };

  void Set(const SetShare& set);
  HeldLeases LeasesOf(ControllerId controller);
  void Answer(const std::vector<ShareSet>& answers);
  void SayIfStopped(UnitLife life);
  Inbox& InboxOf(ControllerId controller);

  UnitHosts<SharedUnit> hosts_;
  std::deque<Inbox> inboxes_;
  std::vector<ToManager> answers_;
  uint64_t refused_ = 0;
  uint64_t overpromised_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_CLUSTER_SHARED_UNITS_H_
