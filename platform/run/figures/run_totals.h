// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_FIGURES_RUN_TOTALS_H_
#define SNF_PLATFORM_RUN_FIGURES_RUN_TOTALS_H_

#include <cstddef>
#include <cstdint>

#include "controller/core/controller.h"
#include "platform/run/ingress.h"
#include "platform/run/provisioning.h"
#include "platform/run/run.h"
#include "runtime/sdk/nf.h"

// Adds up, at the end of a run, what every driver reports.
namespace snf {

// Adds the NF's counters, which are still zero; AddNfCounts follows.
void AddNfCounters(const NetworkFunction& example, RunResult& result);
// Adds the counts of a unit's NF.
void AddNfCounts(const NetworkFunction& nf, RunResult& result);

// Adds what the controller, the ingress and the provisioning, which has ended,
// have counted.
void AddTotals(const Controller& controller, const Ingress& ingress,
               const Provisioning& provisioning, RunResult& result);

// Adds what the NFs report; call it after AddTables, whose totals they read.
void AddNfReports(const NetworkFunction& example, RunResult& result);

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_FIGURES_RUN_TOTALS_H_
