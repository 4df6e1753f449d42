// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_RUN_SETUP_H_
#define SNF_PLATFORM_RUN_RUN_SETUP_H_

#include <cstdint>

#include "controller/core/controller.h"
#include "platform/run/run.h"
#include "runtime/core/unit_options.h"
#include "runtime/sdk/nf.h"
#include "runtime/tables/table_message.h"

// Sets up what every driver of a run has.
namespace snf {

// Returns the options of the run's units; `replicas` is Controller::replicas().
UnitOptions UnitOptionsOf(const RunOptions& options, uint32_t replicas);
TableOptions TableOptionsOf(const RunOptions& options);

// Sets what a controller needs beyond others whose units may fail.
void PrepareForFailures(ControllerOptions& options);
// Adds spare units (ControllerOptions::spare_units) unless there are some.
void AddSpareUnits(ControllerOptions& options);

// Returns true if the NF's flows are inside endpoints.
bool HasSides(const NetworkFunction& nf);

// Returns the result of a run that has not begun, of an NF like `example`.
RunResult EmptyResult(const NetworkFunction& example);

// Gives the controller the NF's pools of pieces, before the first packet.
void AddPiecePools(const NetworkFunction& example, Controller& controller);

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_RUN_SETUP_H_
