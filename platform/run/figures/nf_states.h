// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_FIGURES_NF_STATES_H_
#define SNF_PLATFORM_RUN_FIGURES_NF_STATES_H_

#include <vector>

#include "base/time.h"
#include "platform/run/figures/live_figures.h"
#include "runtime/sdk/nf.h"
#include "runtime/tables/table_homes.h"

namespace snf {

// Returns the states of the objects that the NFs of `nf` watch
// (NetworkFunction::states). `nf` has run nothing; its tables become the totals
// that states may read.
std::vector<LiveFigures::NfObject> NfObjects(const NetworkFunction& nf,
                                             const TableHomes& homes,
                                             Instant now);

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_FIGURES_NF_STATES_H_
