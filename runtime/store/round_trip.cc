// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/round_trip.h"

#include <cstddef>
#include <cstdint>

namespace snf {

Nanos DrawRoundTrip(const StoreOptions& options, Rng& rng) {
  constexpr int64_t kFine = 1'000;  // parts of a share
  const int64_t drawn = rng.Uniform(0, 1'000 * kFine - 1);
  for (size_t i = 1; i < StoreOptions::kShares.size(); ++i) {
    const int64_t low = StoreOptions::kShares[i - 1] * kFine;
    const int64_t high = StoreOptions::kShares[i] * kFine;
    if (drawn >= high) continue;
    const int64_t from = options.round_trips[i - 1].ns;
    const int64_t to = options.round_trips[i].ns;
    return {from + (to - from) * (drawn - low) / (high - low)};
  }
  return options.round_trips.back();
}

}  // namespace snf
