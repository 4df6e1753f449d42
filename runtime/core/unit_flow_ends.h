// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_UNIT_FLOW_ENDS_H_
#define SNF_RUNTIME_CORE_UNIT_FLOW_ENDS_H_

#include <cstdint>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/messages/unit_commands.h"
#include "runtime/core/flow_store.h"

namespace snf {

// Theory of operation. The two ways in which a flow's copy leaves a unit for
// good. A flow ends with a clock, which the controller names (EndFlow): the end
// is pending until that clock has run here, and its entry is released. Or the
// controller gives the flow up: it is pending until nothing of the flow runs
// here, or is on its way to the logger, whatever its clock is.
//
//   Await ─► IsOver ─(the NF is told)─► Finish          copy dropped
//   Forsake ─► DropIfForsaken ─► TakeoverAck to kNoUnit, copy dropped
//
// Worked example: flow 7 ends with clock 9, and has applied 8: IsOver is false.
// Clock 9 runs, IsOver is true, and Finish drops the copy.
//
// Changes a store, which must outlive it. Owner-thread only.
class UnitFlowEnds {
 public:
  explicit UnitFlowEnds(FlowStore& flows) : flows_(flows) {}

  // The flow is over with that clock. The first end of a flow counts. Returns
  // the flow's slot.
  uint32_t Await(const EndFlow& end);
  // Returns true if the flow's end is pending, and its last clock has run here
  // or elsewhere.
  bool IsOver(uint32_t slot) const;
  // Drops the copy of a flow that is over.
  void Finish(uint32_t slot);

  // The flow is given up. Takeovers that this unit tells stay pending: other
  // units drop their copies then.
  void Forsake(uint32_t slot);
  // Drops the copy of a flow that was given up, if it may; tells the logger as
  // the unit `id`.
  void DropIfForsaken(UnitId id, uint32_t slot, UnitOut& out);

 private:
  static constexpr uint32_t kNone = FlowStore::kNone;

  FlowStore& flows_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_UNIT_FLOW_ENDS_H_
