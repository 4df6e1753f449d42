// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/service_model.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace snf {
namespace {

TEST(ServiceModel, TakesTwelveMicrosecondsFor1500BytesAtOneGigabit) {
  EXPECT_EQ(ServiceModel(1'000'000'000).ServiceTime(1500), Microseconds(12));
}

TEST(ServiceModel, RoundsUpToANanosecond) {
  EXPECT_EQ(ServiceModel(8'000'000'000).ServiceTime(1), Nanos{1});
  EXPECT_EQ(ServiceModel(8'000'000'001).ServiceTime(1), Nanos{1});
  EXPECT_EQ(ServiceModel(7'999'999'999).ServiceTime(1), Nanos{2});
  EXPECT_EQ(ServiceModel(3).ServiceTime(1), Nanos{2'666'666'667});
  EXPECT_EQ(ServiceModel(1'000'000'000'000).ServiceTime(60), Nanos{1});
  EXPECT_EQ(ServiceModel(1'000'000'000).ServiceTime(0), Nanos{0});
}

TEST(ServiceModel, TakesThePacketRateOfShortPackets) {
  const ServiceModel model(1'000'000'000, 1'000'000);
  EXPECT_EQ(model.ServiceTime(60), Microseconds(1));
  EXPECT_EQ(model.ServiceTime(125), Microseconds(1));
  EXPECT_EQ(model.ServiceTime(126), Nanos{1'008});
  EXPECT_EQ(model.ServiceTime(1500), Microseconds(12));
  EXPECT_EQ(ServiceModel(1'000'000'000, 3).ServiceTime(60), Nanos{333'333'334});
}

TEST(ServiceModel, IsExactForAllLengthsAndCapacities) {
  __extension__ using Wide = unsigned __int128;
  const uint64_t seed = 7;
  SCOPED_TRACE(seed);
  Rng rng(seed);
  for (int i = 0; i < 100'000; ++i) {
    const int64_t capacity_bps =
        rng.Uniform(1'000, 1'000'000'000'000) >> rng.Below(20);
    const auto bytes =
        static_cast<uint32_t>(rng.Below(1u << 31) >> rng.Below(30));
    const int64_t bps = capacity_bps < 1'000 ? 1'000 : capacity_bps;
    const Wide work = Wide{bytes} * 8'000'000'000;
    const Wide ns = static_cast<Wide>(ServiceModel(bps).ServiceTime(bytes).ns);
    ASSERT_GE(ns * static_cast<Wide>(bps), work);
    ASSERT_LT(ns * static_cast<Wide>(bps), work + static_cast<Wide>(bps));
  }
}

TEST(ServiceModel, TakesAsLongFor4GigabytesAsFor2) {
  const ServiceModel model(1'000);
  const Nanos longest = model.ServiceTime(1u << 31);
  EXPECT_EQ(longest.ns, (int64_t{1} << 31) * 8'000'000);
  EXPECT_EQ(model.ServiceTime(~uint32_t{0}), longest);
}

}  // namespace
}  // namespace snf
