// SPDX-License-Identifier: Apache-2.0
#include "runtime/live/paced_service.h"

#include <gtest/gtest.h>

namespace snf {
namespace {

constexpr Instant At(int64_t us) { return Instant{} + Microseconds(us); }
constexpr Nanos kTakes = Microseconds(10);
constexpr bool kHasWaited = true;

TEST(PacedService, BeginsAtAnIdleUnitWhenThePacketCame) {
  PacedService service;
  service.Begin(At(130), At(100), !kHasWaited, kTakes);
  EXPECT_EQ(service.end(), At(110));
  service.SeeIdle();
  service.Begin(At(230), At(200), !kHasWaited, kTakes);
  EXPECT_EQ(service.end(), At(210));
}

TEST(PacedService, BeginsBehindOthersWhenTheyEndedHoweverLateThatIsSeen) {
  PacedService service;
  service.Begin(At(100), At(100), !kHasWaited, kTakes);
  service.Begin(At(150), At(100), !kHasWaited, kTakes);
  EXPECT_EQ(service.end(), At(120));
  service.Begin(At(150), At(90), kHasWaited, kTakes);
  EXPECT_EQ(service.end(), At(130));
  service.Begin(At(150), At(140), !kHasWaited, kTakes);
  EXPECT_EQ(service.end(), At(150));
}

TEST(PacedService, BeginsAtAnIdleUnitWhenWhatThePacketWaitedForCame) {
  PacedService service;
  service.Begin(At(100), At(100), !kHasWaited, kTakes);
  service.SeeIdle();
  service.Begin(At(200), At(90), kHasWaited, kTakes);
  EXPECT_EQ(service.end(), At(210));
}

// It may have ended later than the unit was seen idle: the clock is read once a
// turn.
TEST(PacedService, BeginsNoPacketBeforeTheOneBeforeItEnded) {
  PacedService service;
  service.Begin(At(100), At(100), !kHasWaited, kTakes);
  service.SeeIdle();
  service.Begin(At(105), At(90), kHasWaited, kTakes);
  EXPECT_EQ(service.end(), At(120));
}

TEST(PacedService, BeginsNothingBeforeTheUnitStarted) {
  PacedService service;
  service.Start(At(500));
  service.Begin(At(500), At(100), !kHasWaited, kTakes);
  EXPECT_EQ(service.end(), At(510));
  service.Start(At(400));
  EXPECT_EQ(service.end(), At(510));
}

TEST(PacedService, KnowsTimesBeforeTheEpoch) {
  PacedService service;
  EXPECT_LT(service.end(), At(-1'000'000));
  service.Start(At(-500));
  service.Begin(At(-500), At(-600), !kHasWaited, kTakes);
  EXPECT_EQ(service.end(), At(-490));
}

// As much as its capacity, whatever packets wait for and whenever it is looked
// at: one packet a 10 µs, of which each other waits for the one before.
TEST(PacedService, ServesItsCapacityWhereItIsNeverIdle) {
  PacedService service;
  Instant now = At(100);
  for (int i = 0; i < 1'000; ++i) {
    service.Begin(now, At(100), i % 2 == 1, kTakes);
    while (service.end() > now) now = now + Microseconds(77);
  }
  EXPECT_EQ(service.end(), At(100 + 10'000));
}

}  // namespace
}  // namespace snf
