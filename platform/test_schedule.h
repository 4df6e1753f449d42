// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_TEST_SCHEDULE_H_
#define SNF_PLATFORM_TEST_SCHEDULE_H_

#include <string_view>
#include <vector>

#include "base/rng.h"
#include "platform/run.h"
#include "platform/test_run.h"

namespace snf {

// Random runs: what a configuration may be, from the least to the most of each
// option, and traffic with bursts, gaps of years, and frames that ask the NF of
// test_run.h for something.
RunOptions AnyOptions(Rng& rng);
// How state moves, and what the network does to it.
void SetAnyStateOptions(Rng& rng, RunOptions& options);
std::string_view AnyPolicy(Rng& rng);
std::vector<OfferedFrame> AnyTraffic(Rng& rng);

}  // namespace snf

#endif  // SNF_PLATFORM_TEST_SCHEDULE_H_
