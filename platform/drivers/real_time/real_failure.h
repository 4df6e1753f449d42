// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_FAILURE_H_
#define SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_FAILURE_H_

#include <atomic>
#include <string>

#include "base/messages/drop_reason.h"
#include "platform/drivers/loops/unit_processes.h"
#include "platform/drivers/real_time/egress.h"
#include "platform/run/run.h"
#include "runtime/redis/run_redis.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/sdk/nf_call.h"
#include "runtime/wire/wire_faults.h"

namespace snf {

// Knows whether a run in real time has to end early, and why: a bad word
// between loops or the end of a process (both are WireFaults), or a store that
// is gone (RunRedis).
//
// Example: a unit's process sends a packet number that it cannot have.
// has_failed is true from then on, packets that come are dropped for
// WhyDropped, kUnitFailed, and Why names the loop, the field and the value.
//
// Owner-thread only.
class RealFailure {
 public:
  // All references must outlive the object. `interrupted` may be null.
  RealFailure(const WireFaults& faults, const BufferPool& buffers,
              const NfCallNames& names, const std::atomic<bool>* interrupted)
      : faults_(faults),
        buffers_(buffers),
        names_(names),
        interrupted_(interrupted) {}

  // Watch a store, which is lost after `patience` without an answer, and the
  // processes of units; both must outlive the object.
  void WatchStore(const RunRedis& redis, Nanos patience) {
    redis_ = &redis;
    store_patience_ = patience;
  }
  void WatchProcesses(const UnitProcesses& processes) {
    processes_ = &processes;
  }

  bool has_failed() const { return faults_.count() > 0 || has_lost_store(); }
  // Returns true if no wait is to go on.
  bool is_interrupted() const {
    return has_failed() || (interrupted_ != nullptr && interrupted_->load());
  }
  // The following require has_failed.
  DropReason WhyDropped() const {
    return faults_.count() > 0 ? DropReason::kUnitFailed
                               : DropReason::kStoreSilent;
  }
  std::string Why() const;
  // Puts the failure into the result, where packets under way count as dropped.
  // The packets stay where they are.
  void Report(Egress& egress, RunResult& result) const;

 private:
  bool has_lost_store() const { return redis_ != nullptr && redis_->is_gone(); }

  const WireFaults& faults_;
  const BufferPool& buffers_;
  const NfCallNames& names_;
  const std::atomic<bool>* interrupted_;
  const RunRedis* redis_ = nullptr;
  Nanos store_patience_;
  const UnitProcesses* processes_ = nullptr;  // null: units are threads
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_FAILURE_H_
