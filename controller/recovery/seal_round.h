// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_RECOVERY_SEAL_ROUND_H_
#define SNF_CONTROLLER_RECOVERY_SEAL_ROUND_H_

#include <cstdint>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages/failure_messages.h"
#include "controller/units/unit_set.h"

namespace snf {

// The outcome of an answer; all but kTaken change nothing.
enum class AnswerResult : uint8_t {
  kTaken,
  kRound,        // it is of an older round
  kNotAsked,     // its sender was not asked, or has said that it has no more
  kFutureClock,  // it names a clock that was not given yet
};

// Theory of operation. The question after the done clock of each flow, once
// units have failed (proto/protocol.md F2, F3): the highest clock that a sealed
// logger or a surviving unit reports as applied. The round is complete when all
// reports are complete. If another unit fails meanwhile, the round restarts:
// the clocks that this unit reported may be lost with it.
//
// Worked example: unit 0 fails. Its logger reports clock 5 of a flow, unit 1
// reports 8, unit 2 has nothing of it: once all three have said that there is
// no more, the flow is done up to 8. If unit 1 fails before that, a new round
// asks its logger, which reports 6: the flow is done up to 6.
//
// A value; owner-thread only; nothing is allocated after construction. Takes 8
// bytes for each flow slot that is named. Reported clocks must lie within 2^31
// of the flow's newest; older ones are ignored.
class SealRound {
 public:
  // Rounds are numbered from the one after `before` on.
  SealRound(uint32_t max_flows, uint32_t max_units, uint32_t before = 0)
      : max_units_(max_units),
        round_(before),
        units_(max_units),
        loggers_(max_units),
        flows_(max_flows) {}

  // Begins a round, in which no unit or logger has been asked yet. Returns its
  // number.
  uint32_t Begin() {
    units_.Clear();
    loggers_.Clear();
    return ++round_;
  }
  // The round waits for that unit, below max_units, or its logger.
  void AwaitUnit(UnitId unit) { units_.Insert(unit); }
  void AwaitLogger(UnitId unit) { loggers_.Insert(unit); }
  bool awaits_unit(UnitId unit) const { return units_.Has(unit); }
  // The unit has stopped: it keeps nothing.
  void on_stopped(UnitId unit) { units_.Erase(unit); }
  uint32_t number() const { return round_; }
  bool complete() const { return units_.size() + loggers_.size() == 0; }

  // A sealed logger or a surviving unit answers. The flow's slot is below
  // max_flows, and `newest` its newest clock; it does not matter for kNoFlow.
  AnswerResult on_sealed(const SealAnswer& answer, Clock newest) {
    return Add(answer, newest, loggers_);
  }
  AnswerResult on_done(const DoneAnswer& answer, Clock newest) {
    return Add(answer, newest, units_);
  }
  // The flow is over: another may get its slot.
  void Erase(uint32_t slot) {
    if (round_ > 0) flows_[slot].round = 0;
  }

  // Returns the clock up to which the flow, whose newest clock this is, is
  // done; 0 if it was not reported.
  Clock done(uint32_t slot, Clock newest) const {
    const Flow& flow = flows_[slot];
    if (flow.round != round_) return Clock{};
    return newest - (static_cast<uint32_t>(value(newest)) - flow.applied);
  }

 private:
  struct Flow {
    uint32_t applied;  // its low bits
    uint32_t round;    // in which it was named last
  };
  static_assert(sizeof(Flow) == 8);

  AnswerResult Add(const DoneAnswer& answer, Clock newest, UnitSet& awaited) {
    if (answer.round != round_) return AnswerResult::kRound;
    if (value(answer.unit) >= max_units_ || !awaited.Has(answer.unit)) {
      return AnswerResult::kNotAsked;
    }
    if (answer.flow == kNoFlow) {
      awaited.Erase(answer.unit);
      return AnswerResult::kTaken;
    }
    if (answer.applied > newest) return AnswerResult::kFutureClock;
    const uint32_t slot = slot_of(answer.flow);
    if (answer.applied > done(slot, newest) &&
        value(newest) - value(answer.applied) < uint64_t{1} << 31) {
      flows_[slot] = {static_cast<uint32_t>(value(answer.applied)), round_};
    }
    return AnswerResult::kTaken;
  }

  uint32_t max_units_;
  uint32_t round_;
  UnitSet units_;    // whose answers are not complete yet
  UnitSet loggers_;  // the same
  LazyArray<Flow> flows_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_RECOVERY_SEAL_ROUND_H_
