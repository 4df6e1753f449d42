// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_DECISION_H_
#define SNF_CONTROLLER_CORE_DECISION_H_

#include <cstdint>

#include "base/ids.h"
#include "base/time.h"
#include "controller/core/placement.h"
#include "controller/units/unit_pool.h"

namespace snf {

// The reason why a flowlet was placed (SNF §4.1).
enum class FlowletCause : uint8_t {
  kNewFlow,  // the first packet of its flow
  kGap,      // the gap exceeded T
  kBytes,    // the packet would have pushed the flowlet over B bytes, or the
             // policy wants a flowlet for each packet
  kLate,     // a later packet of a flowlet whose unit is gone, or that never
             // had one
};

// The placement of a flowlet, also one without a choice (Placement::kept).
struct Decision {
  Instant time;  // arrival of the packet that caused it
  FlowId flow{};
  uint32_t flowlet = 0;
  FlowletCause cause{};
  Nanos gap;               // since the flow's last packet
  uint32_t bytes = 0;      // of the flow's flowlet before
  int64_t demand_bps = 0;  // the estimate for this flowlet
  PlacementRequest request;
  Placement placement;
};

// Sees every decision before it takes effect: the loads of `units` are the ones
// that the policy saw. A controller without an observer pays one branch a
// decision.
class DecisionObserver {
 public:
  virtual ~DecisionObserver() = default;
  virtual void on_decision(const Decision& decision, const UnitPool& units) = 0;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_DECISION_H_
