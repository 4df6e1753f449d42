// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_SYSTEM_TEST_TEST_TINY_NAT_SCHEDULE_H_
#define SNF_PLATFORM_SYSTEM_TEST_TEST_TINY_NAT_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "platform/system_test/test_run.h"
#include "platform/system_test/test_tiny_nat.h"

namespace snf {

// A bit of the sequence number of frames to an external port.
inline constexpr uint32_t kSentToAnAlias = 1 << 30;

// Makes of the options of a schedule of another NF such of "tiny_nat".
TinyNatOptions AnyTinyNat(Rng& rng, RunOptions options);

// Whoever is inside sends something before anything is sent to it, unless the
// prefix tells.
std::vector<OfferedFrame> AnyTinyTraffic(Rng& rng, bool has_inside);

}  // namespace snf

#endif  // SNF_PLATFORM_SYSTEM_TEST_TEST_TINY_NAT_SCHEDULE_H_
