// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_LOOPS_UNIT_THREADS_H_
#define SNF_PLATFORM_DRIVERS_LOOPS_UNIT_THREADS_H_

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/ids.h"
#include "controller/live/controller_loop.h"
#include "platform/drivers/loops/loop_region.h"
#include "platform/drivers/loops/loop_results.h"
#include "platform/drivers/loops/real_loggers.h"
#include "platform/run/nf_watchdog.h"
#include "platform/run/run.h"
#include "runtime/live/host_store.h"
#include "runtime/live/loggers/logger_loop.h"
#include "runtime/live/unit_loop.h"
#include "runtime/live/unit_turns.h"
#include "runtime/ring/doorbell.h"
#include "runtime/ring/real_clock.h"
#include "runtime/sdk/nf_call.h"
#include "runtime/sdk/nf_spec.h"
#include "runtime/store/state_store.h"
#include "runtime/wire/wire_faults.h"

namespace snf {

// Runs loops of units of several controllers on threads of its own, whose units
// they share. Thread-safe.
class LoopHost {
 public:
  virtual ~LoopHost() = default;

  // Returns how many threads there are: each driver has a loop for each.
  virtual uint32_t threads() const = 0;
  // Their bells, by thread.
  virtual Doorbell* const* bells() const = 0;
  virtual UnitTurns& TurnsOf(uint8_t controller, uint32_t thread) = 0;
  // The loop takes turns there from now on; or, once that returns, no more.
  // Remove of a loop that takes none does nothing.
  virtual void Add(uint8_t controller, uint32_t thread, UnitLoop& loop,
                   const NfCallNames& names) = 0;
  virtual void Remove(uint8_t controller, uint32_t thread) = 0;
};

// Lets the thread run on this CPU only. Errors: Unavailable.
absl::Status PinThread(pthread_t thread, int cpu);

// The loops of units of a run in real time whose units are no processes, and
// the loops of their loggers. Loops of units run on threads of their own, on
// the dispatcher's if that is the only thread, or on a LoopHost's threads.
//
// Owner-thread only.
class UnitThreads {
 public:
  struct Options {
    uint32_t threads = 1;     // of the run, with the dispatcher's
    bool pin = false;         // each thread has a CPU of its own
    bool pins_caller = true;  // then the calling thread as well
    LoopHost* host = nullptr;
    uint8_t controller = 0;  // its number, for the host
    std::string nf;          // its text, for the watchdog
    Nanos nf_patience;       // Nanos::max(): calls of NFs are not watched
    UnitLoopOptions loop;    // of the first loop; others have their own index
  };

  // `names` must outlive the object, as must the arguments of Create….
  UnitThreads(Options options, const NfCallNames& names)
      : options_(std::move(options)), names_(names) {}
  UnitThreads(const UnitThreads&) = delete;
  UnitThreads& operator=(const UnitThreads&) = delete;

  // Lets units show each other the states of flows in that memory, which
  // outlives the object; before CreateLoops.
  void UseHost(const HostStore::Options& of, std::span<std::byte> memory) {
    host_of_ = of;
    host_memory_ = memory;
  }
  // Makes the loops of units, with one of `stores` each unless there are none.
  // `describe` is the watchdog's. Errors: as LoopRegion::Attach.
  absl::Status CreateLoops(const NfSpec& nf, std::span<std::byte> memory,
                           const LoopRegion::Options& of, RealClock& clock,
                           WireFaults& faults,
                           std::span<const std::unique_ptr<StateStore>> stores,
                           std::function<std::string(PacketHandle)> describe);
  // Makes the loops of loggers. Errors: as LoopRegion::AttachLoggers.
  absl::Status CreateLoggers(const NfSpec& nf, std::span<std::byte> memory,
                             std::span<std::byte> own,
                             const LoopRegion::Options& of,
                             const LoggerLoopOptions& loggers,
                             WireFaults& faults);
  // Starts the threads; `ends` belong to the first loop of units. Errors:
  // Unavailable, a thread cannot be pinned.
  absl::Status Start(const std::vector<int>& cpus,
                     ControllerLinks::UnitLoopEnds& ends);

  // Lets the loops that run on the dispatcher's thread take a turn. Returns
  // true if there was anything to do.
  bool Turn() {
    bool did = false;
    if (options_.threads == 1) {
      nf_call.names = &names_;  // another may have had this thread
      did = workers_.front().loop->Turn();
    }
    if (has_loggers_here() && loggers_->Turn()) did = true;
    return did;
  }

  // Waits until loops of units run no more, which LoopControl::stops must have
  // told them, or takes the loops from the host.
  void StopLoops();
  void StopLoggers();

  // The following are for the end, after both.
  void AddResults(std::vector<LoopResults>& results) const;
  // Calls `differs` for each unit whose logger has something else than the unit
  // has (RealLoggers::DifferenceFrom).
  void CheckLoggers(
      size_t pools,
      absl::FunctionRef<void(uint32_t unit, const std::string&)> differs);
  uint32_t buffers_in_use() const;

 private:
  struct Worker {
    std::unique_ptr<HostStore> host;  // may be null
    std::unique_ptr<UnitLoop> loop;
    std::thread thread;  // none if the loop has no thread of its own
  };

  // Returns true if loggers take their turns after the units', on their thread.
  bool shares_loggers() const {
    return loggers_.has_value() && options_.threads <= 2;
  }
  // Returns true if loggers run on the dispatcher's thread, since units have no
  // thread of the driver's own.
  bool has_loggers_here() const {
    return loggers_.has_value() &&
           (options_.threads == 1 || options_.host != nullptr);
  }
  UnitLoopOptions OptionsOf(size_t loop) const;
  std::unique_ptr<HostStore> HostOf(uint32_t loop) const;
  absl::Status StartLoggers(const std::vector<int>& cpus);

  const Options options_;
  const NfCallNames& names_;
  std::vector<Worker> workers_;
  std::optional<RealLoggers> loggers_;
  HostStore::Options host_of_;
  std::span<std::byte> host_memory_;    // empty: units show nothing
  std::optional<NfWatchdog> watchdog_;  // of calls of units' NFs
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_LOOPS_UNIT_THREADS_H_
