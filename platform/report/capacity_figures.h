// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_CAPACITY_FIGURES_H_
#define SNF_PLATFORM_REPORT_CAPACITY_FIGURES_H_

#include "platform/run/figures/figures.h"

namespace snf {

// Returns true for a share of the capacity of units, which has no value if they
// have none (RunInfo::is_unpaced).
inline bool IsOfCapacity(const Figure& figure) {
  return figure.key == "capacity_used" ||
         figure.key.starts_with("utilisation.");
}

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_CAPACITY_FIGURES_H_
