// SPDX-License-Identifier: Apache-2.0
#include "platform/run/pace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace snf {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

Speed Parsed(const std::string& text) {
  const auto speed = ParseSpeed(text);
  EXPECT_TRUE(speed.ok()) << text << ": " << speed.status();
  return speed.value_or(Speed{});
}

std::vector<int64_t> Due(const std::string& speed,
                         const std::vector<int64_t>& times) {
  Pace pace(Parsed(speed));
  std::vector<int64_t> due;
  for (const int64_t time : times) due.push_back(pace.Due({time}, 125).ns);
  return due;
}

TEST(Speed, IsPrintedAsItIsRead) {
  for (const char* text :
       {"1x", "0.5x", "12.125x", "1000000x", "2Gbit/s", "93.5Mbit/s", "1bit/s",
        "100kpps", "1pps", "2.5Mpps", "max"}) {
    EXPECT_EQ(FormatSpeed(Parsed(text)), text);
  }
  EXPECT_EQ(FormatSpeed(Parsed("2 Gbps")), "2Gbit/s");
}

TEST(Speed, IsRefusedWhereItCannotBe) {
  for (const char* text :
       {"", "x", "0x", "-1x", "1000000.1x", "0.0001x", "fast", "0bps", "0pps",
        "pps", "1e3pps", "99999999999999999999pps", "1Gbps ", "maximum", "1.5",
        "nan"}) {
    const auto speed = ParseSpeed(text);
    EXPECT_FALSE(speed.ok()) << text << " is " << FormatSpeed(*speed);
    EXPECT_THAT(std::string(speed.status().message()),
                testing::HasSubstr("\"" + std::string(text) + "\""));
  }
}

TEST(Pace, KeepsTheGapsOfTheCapture) {
  const int64_t t = 10 * kSecond;
  EXPECT_THAT(Due("1x", {t, t + 7, t + 9}),
              testing::ElementsAre(t, t + 7, t + 9));
  EXPECT_THAT(Due("2x", {t, t + 400, t + 200, t + 1'000}),
              testing::ElementsAre(t, t + 200, t + 200, t + 500));
  EXPECT_THAT(Due("0.001x", {t, t + 3}), testing::ElementsAre(t, t + 3'000));
}

TEST(Pace, SpacesPacketsByRate) {
  EXPECT_THAT(Due("1kpps", {5, 5, 99}),
              testing::ElementsAre(5, 1'000'005, 2'000'005));
  // Of 1,000 bits each.
  EXPECT_THAT(Due("1Gbps", {5, 4, 5}), testing::ElementsAre(5, 1'005, 2'005));
}

TEST(Pace, NeedsNoRoomForItsProducts) {
  Pace pace({.kind = Speed::Kind::kTimes, .value = 1});
  constexpr int64_t kMost = Instant::max().ns;
  EXPECT_EQ(pace.Due({0}, 1).ns, 0);
  EXPECT_EQ(pace.Due({kMost}, 1).ns, kMost);
  EXPECT_EQ(pace.Due({Instant::min().ns}, 1).ns, kMost);
  Pace slow({.kind = Speed::Kind::kBits, .value = 1});
  EXPECT_EQ(slow.Due({kMost - 5}, 0xffff'ffff).ns, kMost - 5);
  EXPECT_EQ(slow.Due({kMost - 5}, 0xffff'ffff).ns, kMost);
}

}  // namespace
}  // namespace snf
