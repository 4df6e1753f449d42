// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_STORE_ROUND_TRIP_H_
#define SNF_RUNTIME_STORE_ROUND_TRIP_H_

#include "base/rng.h"
#include "base/time.h"
#include "runtime/store/store_options.h"

namespace snf {

// Draws a round trip to an idle store, with the operation: evenly between two
// of the round trips that the options name.
Nanos DrawRoundTrip(const StoreOptions& options, Rng& rng);

}  // namespace snf

#endif  // SNF_RUNTIME_STORE_ROUND_TRIP_H_
