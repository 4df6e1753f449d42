// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/store_options.h"

#include "base/counters.h"

namespace snf {

void AddTo(StoreFigures& sum, const StoreFigures& one) {
  AddCounters<StoreCounters>(sum, one);
  sum.round_trip_ns.Merge(one.round_trip_ns);
}

}  // namespace snf
