// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_UNITS_POOL_STARTS_H_
#define SNF_CONTROLLER_UNITS_POOL_STARTS_H_

#include <algorithm>
#include <cstdint>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages/controller_commands.h"
#include "base/time.h"
#include "controller/units/pool_options.h"

namespace snf {

// Theory of operation. The starts of a controller's units: which are under way,
// which incarnation each has, and how starts that fail are spaced.
//
// A start that takes longer than start_timeout has failed (F11): it is counted,
// and nothing new waits for the unit, unless there is no other. After a
// back-off, which doubles with each failure in a row, cold starts continue,
// first with units whose starts have not failed. Any unit that becomes ready
// ends the back-off.
//
// Nothing waits for a unit until it is ready, unless packets are in its channel
// already: a start without packets is awaited (SetAwaited), so that no further
// unit is started for the same load.
//
// Worked example: the start of unit 0 fails at 1 s: the next cold start is due
// at 1.1 s. Unit 1 is started then, and fails at 2 s: the next one is due at
// 2.2 s. Unit 2 is started then and becomes ready: the pause after the next
// failure is 100 ms again.
//
// A value; owner-thread only; nothing is allocated after construction.
class PoolStarts {
 public:
  // The time after the first of several failed starts until the next start, and
  // the longest.
  static constexpr Nanos kFirstBackOff = Milliseconds(100);
  static constexpr Nanos kMaxBackOff = Seconds(10);

  explicit PoolStarts(const UnitPoolOptions& options)
      : next_incarnation_(options.first_incarnation),
        units_(options.max_units) {}

  uint64_t cold() const { return cold_; }
  uint64_t warm() const { return warm_; }
  uint64_t failed() const { return failed_; }
  // Counts the units that start, or are to be started again.
  uint32_t pending() const { return pending_; }
  // Counts the starts that are awaited.
  uint32_t awaited() const { return awaited_; }
  bool awaits(UnitId unit) const { return units_[value(unit)].awaited; }
  // Returns the incarnation of the unit's last start; 0 if there was none.
  uint32_t incarnation(UnitId unit) const {
    return units_[value(unit)].incarnation;
  }
  // Returns true if the unit's last start was one from warm.
  bool was_warm(UnitId unit) const { return units_[value(unit)].was_warm; }
  // Returns the number of failed starts since the unit last was ready.
  uint32_t failures(UnitId unit) const { return units_[value(unit)].failures; }
  // The end of the back-off, before which no cold start begins.
  Instant not_before() const { return not_before_; }

  // Begins a start.
  void Begin(UnitId unit, bool warm, ControllerOut& out) {
    units_[value(unit)].was_warm = warm;
    ++pending_;
    Repeat(unit, out);
  }
  // Begins it again, after it has failed.
  void Repeat(UnitId unit, ControllerOut& out) {
    const bool warm = was_warm(unit);
    ++(warm ? warm_ : cold_);
    Push(unit, warm, out);
  }
  // Gives the unit its next incarnation, and pushes the command.
  void Push(UnitId unit, bool warm, ControllerOut& out) {
    const uint32_t incarnation = next_incarnation_++;
    units_[value(unit)].incarnation = incarnation;
    out.push(ControllerCommand::Start(unit, warm, incarnation));
  }

  // The start has failed. Returns the end of the back-off.
  Instant on_failed(Instant now, UnitId unit) {
    Unit& u = units_[value(unit)];
    ++failed_;
    u.failures = static_cast<uint8_t>(std::min(u.failures + 1, 255));
    SetAwaited(unit, false);
    Nanos pause = kFirstBackOff;
    for (uint32_t i = 0; i < in_a_row_ && pause < kMaxBackOff; ++i) {
      pause.ns *= 2;
    }
    ++in_a_row_;
    not_before_ = now + std::min(pause, kMaxBackOff);
    return not_before_;
  }
  // The unit is ready.
  void on_ready(UnitId unit) {
    units_[value(unit)].failures = 0;
    in_a_row_ = 0;
    not_before_ = Instant::min();
    End(unit);
  }
  // The unit starts no more.
  void End(UnitId unit) {
    --pending_;
    SetAwaited(unit, false);
  }
  void SetAwaited(UnitId unit, bool awaited) {
    Unit& u = units_[value(unit)];
    awaited_ += uint32_t{awaited} - uint32_t{u.awaited};
    u.awaited = awaited;
  }

  // Continues the counts of an earlier controller, whose last incarnation this
  // is.
  void Continue(const PoolStarts& before, uint32_t last_incarnation) {
    cold_ = before.cold_;
    warm_ = before.warm_;
    failed_ = before.failed_;
    RaiseIncarnation(last_incarnation);
  }
  // The unit's last start under an earlier controller had this incarnation.
  void Restore(UnitId unit, uint32_t incarnation) {
    units_[value(unit)].incarnation = incarnation;
    RaiseIncarnation(incarnation);
  }
  // The start that Restore named is still under way.
  void RestorePending(UnitId unit, bool was_warm) {
    units_[value(unit)].was_warm = was_warm;
    ++pending_;
    SetAwaited(unit, true);
  }

 private:
  struct Unit {
    uint32_t incarnation;
    uint8_t failures;
    bool was_warm;
    bool awaited;
  };

  void RaiseIncarnation(uint32_t last) {
    next_incarnation_ = std::max(next_incarnation_, last + 1);
  }

  uint32_t next_incarnation_;
  uint32_t pending_ = 0;
  uint32_t awaited_ = 0;
  uint32_t in_a_row_ = 0;  // failures
  uint64_t cold_ = 0;
  uint64_t warm_ = 0;
  uint64_t failed_ = 0;
  Instant not_before_ = Instant::min();
  LazyArray<Unit> units_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_UNITS_POOL_STARTS_H_
