// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_SEAL_ROUND_H_
#define SNF_CONTROLLER_CORE_SEAL_ROUND_H_

#include <cstdint>
#include <optional>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages/failure_messages.h"
#include "base/messages/messages.h"
#include "controller/core/owner_history.h"
#include "controller/core/unit_set.h"

namespace snf {

// Collects what is done of each flow after units have failed (proto/protocol.md
// F2, F3): the highest clock that a sealed logger or a surviving unit says it
// has applied. The round is complete when all of them have said that there is
// no more. If another unit fails meanwhile, the round begins anew: what that
// unit has said may be lost with it.
//
// A value; owner-thread only; nothing is allocated after construction. Takes 16
// bytes for each flow slot that is named.
class SealRound {
 public:
  SealRound(uint32_t max_flows, uint32_t max_units)
      : max_units_(max_units),
        failed_(max_units),
        units_(max_units),
        loggers_(max_units),
        flows_(max_flows) {}

  // Begins a round with the loggers of `failed` and the units of `survivors`,
  // sets that share no unit and have room for max_units. Returns its number.
  uint32_t Begin(const UnitSet& failed, const UnitSet& survivors) {
    Copy(failed, failed_);
    Copy(failed, loggers_);
    Copy(survivors, units_);
    return ++round_;
  }
  bool complete() const { return units_.size() + loggers_.size() == 0; }

  // A sealed logger or a surviving unit answers. Each returns false, and
  // changes nothing, if the answer is of an older round, of one that was not
  // asked or has said that there is no more, or of a slot that cannot be.
  bool on_sealed(const SealAnswer& answer) { return Add(answer, loggers_); }
  bool on_done(const DoneAnswer& answer) { return Add(answer, units_); }

  // Returns the clock up to which the flow is done; 0 if nobody named it.
  // Requires that the round is complete and the slot below max_flows.
  Clock done(FlowId flow) const {
    const Flow& entry = flows_[slot_of(flow)];
    return Matches(entry, flow) ? entry.applied : Clock{};
  }
  // Returns true if the unit failed: its memory is no source.
  bool failed(UnitId unit) const { return failed_.Has(unit); }

 private:
  struct Flow {
    Clock applied;
    uint32_t round;
    uint32_t generation;
  };
  static_assert(sizeof(Flow) == 16);

  bool Matches(const Flow& entry, FlowId flow) const {
    return entry.round == round_ && entry.generation == generation_of(flow);
  }
  void Copy(const UnitSet& from, UnitSet& to) const {
    to.Clear();
    for (uint32_t i = 0; i < max_units_; ++i) {
      const UnitId unit{static_cast<uint16_t>(i)};
      if (from.Has(unit)) to.Insert(unit);
    }
  }
  bool Add(const DoneAnswer& answer, UnitSet& awaited) {
    if (answer.round != round_ || value(answer.unit) >= max_units_ ||
        !awaited.Has(answer.unit)) {
      return false;
    }
    if (answer.flow == kNoFlow) return awaited.Erase(answer.unit);
    if (slot_of(answer.flow) >= flows_.size()) return false;
    Flow& entry = flows_[slot_of(answer.flow)];
    if (Matches(entry, answer.flow)) {
      if (answer.applied > entry.applied) entry.applied = answer.applied;
      return true;
    }
    // A copy of an earlier flow of the slot says nothing about the later one.
    const FlowId known = MakeFlowId(controller_of(answer.flow),
                                    slot_of(answer.flow), entry.generation);
    if (entry.round == round_ && !IsNewer(answer.flow, known)) return true;
    entry = {answer.applied, round_, generation_of(answer.flow)};
    return true;
  }

  uint32_t max_units_;
  uint32_t round_ = 0;
  UnitSet failed_;
  UnitSet units_;    // that have not said yet that there is no more
  UnitSet loggers_;  // the same
  LazyArray<Flow> flows_;
};

struct SourceOfState {
  UnitId unit = kNoUnit;
  StateSource kind = StateSource::kNone;
};

// Returns where the state is that the packet of `clock` needs, which is above 1
// (F5): at the unit that ran the clock before, or, if that one has failed, at
// its logger. `owner` has had the flow since the newest run in `owners`.
// Returns nothing if the clock before is one that is not done and whose unit
// has failed, so that it is to be re-routed first (F4), or if the history does
// not name its unit any more.
inline std::optional<SourceOfState> SourceOf(const SealRound& round,
                                             const OwnerHistory& owners,
                                             FlowId flow, UnitId owner,
                                             Clock clock) {
  const Clock before = clock - 1;
  const uint32_t slot = slot_of(flow);
  UnitId unit = owner;
  for (uint32_t i = owners.runs(slot); i-- > 0;) {
    const OwnerHistory::Run run = owners.run(slot, i);
    if (before > run.last) break;
    unit = before >= run.first ? run.unit : kNoUnit;
  }
  if (unit == kNoUnit) return std::nullopt;
  if (!round.failed(unit)) return SourceOfState{unit, StateSource::kUnit};
  if (before > round.done(flow)) return std::nullopt;
  return SourceOfState{unit, StateSource::kLogger};
}

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_SEAL_ROUND_H_
