// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_CLUSTER_LOCKED_HOMES_H_
#define SNF_PLATFORM_DRIVERS_REAL_CLUSTER_LOCKED_HOMES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>

#include "base/ids.h"
#include "base/time.h"
#include "runtime/sdk/nf.h"
#include "runtime/tables/cluster_homes.h"

namespace snf {

// The homes of shared tables for controllers on threads of their own. A lock is
// held for one message, of which a unit sends some in a period (TableOptions).
// Each turn of a controller asks when it is due, without the lock.
// Thread-safe; calls of a controller come from one thread at a time.
class LockedHomes final : public ClusterHomes {
 public:
  LockedHomes(const NetworkFunction& example, uint32_t controllers,
              uint32_t max_units, const TableOptions& options)
      : ClusterHomes(example, controllers, max_units, options) {
    for (uint32_t c = 0; c < controllers; ++c) {
      wakeups_.emplace_back(Instant::max().ns);
    }
  }

  bool on_message(Instant now, uint32_t controller, const TableMessage& in,
                  TableMessage& out) override {
    const std::lock_guard lock(mutex_);
    const bool has_out = ClusterHomes::on_message(now, controller, in, out);
    NoteWakeups();
    return has_out;
  }
  bool on_timers(Instant now, uint32_t controller, size_t table,
                 TableMessage& out) override {
    const std::lock_guard lock(mutex_);
    const bool has_out = ClusterHomes::on_timers(now, controller, table, out);
    NoteWakeups();
    return has_out;
  }
  void on_unit_failed(uint32_t controller, UnitId unit) override {
    const std::lock_guard lock(mutex_);
    ClusterHomes::on_unit_failed(controller, unit);
    NoteWakeups();
  }
  uint64_t logged(uint32_t controller, size_t table,
                  UnitId unit) const override {
    const std::lock_guard lock(mutex_);
    return ClusterHomes::logged(controller, table, unit);
  }
  uint32_t newest_incarnation() const override {
    const std::lock_guard lock(mutex_);
    return ClusterHomes::newest_incarnation();
  }
  Instant next_wakeup(uint32_t controller) const override {
    return {wakeups_[controller].load(std::memory_order_acquire)};
  }

 private:
  // A message may arm timers of units of any controller.
  void NoteWakeups() {
    for (uint32_t c = 0; c < controllers(); ++c) {
      wakeups_[c].store(ClusterHomes::next_wakeup(c).ns,
                        std::memory_order_release);
    }
  }

  mutable std::mutex mutex_;
  std::deque<std::atomic<int64_t>> wakeups_;  // by controller, ns
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_CLUSTER_LOCKED_HOMES_H_
