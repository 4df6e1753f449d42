// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_WIRE_WIRE_FAULTS_H_
#define SNF_RUNTIME_WIRE_WIRE_FAULTS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace snf {

// An impossible word: its sender, its kind, the wrong field, and that field's
// value. The texts are literals.
struct WireFault {
  static constexpr uint32_t kController = 0xffff'ffff;

  uint32_t loop = kController;  // of units, the sender; or the controller
  UnitId unit = kNoUnit;        // of that loop; kNoUnit: it is not known
  std::string_view kind;
  std::string_view field;
  uint64_t value = 0;
  bool of_logger = false;  // sent by the unit's logger, or the loop's
};

// Returns "unit 3 sent a bad word: release with packet 4294967295".
std::string ToString(const WireFault& fault);

// Collects the faults that the loops of a process find in messages of other
// processes. Thread-safe; count() costs one load.
class WireFaults {
 public:
  WireFaults() = default;
  // `told` is called for each fault, by the thread that finds it.
  explicit WireFaults(std::function<void(const WireFault&)> told)
      : told_(std::move(told)) {}

  void Add(const WireFault& fault);
  // Counts another fault that ends the run, like a bad word, and is reported
  // elsewhere.
  void AddOther() { count_.fetch_add(1, std::memory_order_release); }
  uint64_t count() const { return count_.load(std::memory_order_acquire); }
  // Returns the fault that was added first, if there is any.
  std::optional<WireFault> first() const;

  // From now on faults of the `loops` loops of units are not counted: the loop
  // is blamed instead. Faults of the loggers, which run in one process, are
  // blamed on "loop" `loops`. Must not run while other threads add faults.
  void BlameLoops(uint32_t loops) { blames_.resize(loops + 1); }
  bool blames() const { return !blames_.empty(); }
  // Blames a loop for a fault, described by `what`; the loop's first fault is
  // kept.
  void Blame(uint32_t loop, std::string what);
  // Returns true if a loop has been blamed and TakeBlame has not taken it yet.
  // Costs one load.
  bool has_blame() const {
    return untaken_.load(std::memory_order_acquire) > 0;
  }
  // Returns what the loop is blamed for, once.
  std::optional<std::string> TakeBlame(uint32_t loop);

 private:
  const std::function<void(const WireFault&)> told_;
  std::atomic<uint64_t> count_{0};
  mutable std::mutex mutex_;
  std::optional<WireFault> first_;
  std::vector<std::optional<std::string>> blames_;  // by loop; of loggers
  std::atomic<uint32_t> untaken_{0};                // of these
};

}  // namespace snf

#endif  // SNF_RUNTIME_WIRE_WIRE_FAULTS_H_
