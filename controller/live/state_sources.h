// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_LIVE_STATE_SOURCES_H_
#define SNF_CONTROLLER_LIVE_STATE_SOURCES_H_

#include "base/messages/messages.h"
#include "controller/core/controller.h"

namespace snf {

// The history of owners says where the state of flows is: the history has each
// former owner of a flow until its state is taken over. Without a controller,
// the history of the failed controller counts.

// Returns true if the requester may pull the flow's state: an owner may pull
// from its predecessors. If the history is incomplete, any unit may pull.
bool MayPull(const Controller& known, const Pull& pull);
// The flows of which loggers may have a state of a failed unit that no unit has
// taken over.
struct StatesAtLoggers {
  uint32_t flows = 0;
  UnitId failed = kNoUnit;  // the unit that had one of these flows
  UnitId owner = kNoUnit;   // and this flow's present owner
};
// Linear in the number of flows.
StatesAtLoggers FindStatesAtLoggers(const Controller& known);

}  // namespace snf

#endif  // SNF_CONTROLLER_LIVE_STATE_SOURCES_H_
