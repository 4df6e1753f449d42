// SPDX-License-Identifier: Apache-2.0
#include "runtime/live/rehearsal.h"

#include <gtest/gtest.h>

namespace snf {
namespace {

// With what they ask the controller for, of a NAT.
TEST(Rehearsal, RunsEachPacketToItsEnd) {
  for (const char* text :
       {"passthrough", "chronicle", "monitor", "nat(ip=203.0.113.1)"}) {
    SCOPED_TRACE(text);
    EXPECT_EQ(Rehearse(*NfSpec::Parse(text), {}), kRehearsedPackets);
  }
}

// Also where the units keep their state elsewhere.
TEST(Rehearsal, NeedsNoLoggerAndNoStore) {
  EXPECT_EQ(Rehearse(*NfSpec::Parse("monitor"), {.has_logger = true}),
            kRehearsedPackets);
  EXPECT_EQ(Rehearse(*NfSpec::Parse("monitor"), {.has_store = true}),
            kRehearsedPackets);
}

}  // namespace
}  // namespace snf
