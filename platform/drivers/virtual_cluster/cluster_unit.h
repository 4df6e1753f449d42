// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_UNIT_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_UNIT_H_

#include <cstdint>
#include <map>

#include "base/ids.h"
#include "base/messages/lease_messages.h"
#include "base/time.h"
#include "platform/drivers/virtual_time/virtual_driver.h"
#include "runtime/leases/unit_leases.h"

namespace snf {

// A life of a unit that controllers share: serves one packet at a time, from
// the inboxes of the controllers that use the unit. Owner-thread only.
class ClusterUnit {
 public:
  explicit ClusterUnit(UnitLife life) : leases_(life) {}

  UnitLeases& leases() { return leases_; }

  // Attach adds a controller, whose driver knows the unit by that number.
  // Detach removes a controller that has nothing left in the unit.
  void Attach(ControllerId controller, VirtualDriver& driver, UnitId unit) {
    inboxes_.insert_or_assign(controller, Inbox{&driver, unit});
  }
  void Detach(ControllerId controller) {
    leases_.on_empty(controller);
    inboxes_.erase(controller);
  }
  bool is_attached() const { return !inboxes_.empty(); }
  bool is_attached(ControllerId controller) const {
    return inboxes_.contains(controller);
  }

  // See UnitSharing, for the controller's inbox.
  void on_next(Instant now, ControllerId controller, uint32_t cost) {
    leases_.on_next(controller, cost);
    if (!is_busy_) Serve(now);
  }
  void on_empty(ControllerId controller) { leases_.on_empty(controller); }
  void on_served(Instant now) { Serve(now); }

  bool is_to_stop = false;  // once no controller uses the unit

 private:
  struct Inbox {
    VirtualDriver* driver;
    UnitId unit;
  };

  void Serve(Instant now) {
    const auto next = leases_.Next();
    is_busy_ = next.has_value();
    if (!is_busy_) return;
    const Inbox& inbox = inboxes_.at(*next);
    inbox.driver->BeginService(now, inbox.unit);
  }

  UnitLeases leases_;
  std::map<ControllerId, Inbox> inboxes_;
  bool is_busy_ = false;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_UNIT_H_
