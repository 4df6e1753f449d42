// SPDX-License-Identifier: Apache-2.0
#include "platform/run/chaos_flag.h"

#include <string>

#include "base/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

TEST(ChaosFlag, TakesARangeOfDelaysAndTwoProbabilities) {
  const auto chaos =
      ParseChaos("state_duplicate=0.25  state_delay=1.5us..2ms state_loss=.5");
  ASSERT_TRUE(chaos.ok()) << chaos.status();
  EXPECT_EQ(chaos->state_delay_min, Nanos{1'500});
  EXPECT_EQ(chaos->state_delay_max, Milliseconds(2));
  EXPECT_EQ(chaos->state_loss_65536, 32'768u);
  EXPECT_EQ(chaos->state_duplicate_65536, 16'384u);
  EXPECT_TRUE(chaos->any());
}

TEST(ChaosFlag, TakesOneDelayForARange) {
  const auto chaos = ParseChaos("state_delay=20us");
  ASSERT_TRUE(chaos.ok()) << chaos.status();
  EXPECT_EQ(chaos->state_delay_min, Microseconds(20));
  EXPECT_EQ(chaos->state_delay_max, Microseconds(20));
  EXPECT_EQ(chaos->state_loss_65536, 0u);
}

// What becomes of starts leaves messages about state alone.
TEST(ChaosFlag, TakesAProbabilityOfStartsThatFail) {
  const auto chaos = ParseChaos("start_failure=0.5");
  ASSERT_TRUE(chaos.ok()) << chaos.status();
  EXPECT_EQ(chaos->start_failure_65536, 32'768u);
  EXPECT_FALSE(chaos->any());
  EXPECT_EQ(FormatChaos(*chaos), "start_failure=0.5");
}

TEST(ChaosFlag, RoundsProbabilitiesToTheNearest) {
  const auto loss = [](const std::string& text) {
    const auto chaos = ParseChaos("state_loss=" + text);
    EXPECT_TRUE(chaos.ok()) << chaos.status();
    return chaos.ok() ? chaos->state_loss_65536 : ~0u;
  };
  EXPECT_EQ(loss("0"), 0u);
  EXPECT_EQ(loss("0.0"), 0u);
  EXPECT_EQ(loss("0.00001525"), 1u);  // 0.99942 of 65,536
  EXPECT_EQ(loss("0.00000763"), 1u);  // 0.50004
  EXPECT_EQ(loss("0.01"), 655u);      // 655.36
  EXPECT_EQ(loss("0.9"), kMaxChaos65536);
}

TEST(ChaosFlag, RefusesNamingKeyAndValue) {
  const auto error = [](const std::string& text) {
    const auto chaos = ParseChaos(text);
    return chaos.ok() ? "taken" : std::string(chaos.status().message());
  };
  EXPECT_EQ(error("loss=0.1"),
            "\"loss\" is none of state_delay, state_loss, state_duplicate, "
            "start_failure, logger_delay, logger_loss, logger_duplicate, "
            "lease_delay, lease_loss, lease_duplicate");
  EXPECT_EQ(error("state_loss"),
            "state_loss has no value; want for example state_loss=0.01");
  EXPECT_EQ(error("state_delay"),
            "state_delay has no value; want for example state_delay=0..2ms");
  for (const char* value : {"", ".", "x", "-0.1", "1e-3", "0.91", "1", "1.5",
                            "0..1", "0.1.2", "0.0000000001", "1%"}) {
    EXPECT_EQ(error(std::string("state_loss=") + value),
              "state_loss=\"" + std::string(value) +
                  "\" is not a probability from 0 to 0.9");
  }
  EXPECT_EQ(error("state_duplicate=2"),
            "state_duplicate=\"2\" is not a probability from 0 to 0.9");
  for (const char* value : {"0.00000762", "0.000001"}) {  // 0.49938 of 65,536
    EXPECT_EQ(error(std::string("state_loss=") + value),
              "state_loss=\"" + std::string(value) +
                  "\" is less than can be told from 0; least is 0.00001");
  }
  EXPECT_EQ(error("state_delay=0..2"),
            "state_delay=\"0..2\" is bad: duration \"2\" has no unit; want for "
            "example \"500us\", \"1.5ms\" or \"30s\"");
  EXPECT_THAT(error("state_delay=..2ms"),
              ::testing::StartsWith("state_delay=\"..2ms\" is bad: "));
  EXPECT_EQ(error("state_delay=2ms..1ms"),
            "state_delay=\"2ms..1ms\" begins above its end");
  EXPECT_EQ(error("state_delay=11s"), "state_delay=\"11s\" is above 10 s");
  EXPECT_EQ(error("state_loss=0.1 state_loss=0.2"),
            "state_loss=\"0.2\" is the second one of this key");
  EXPECT_EQ(error("  "),
            "\"  \" names no chaos; want for example state_delay=0..2ms");
}

TEST(ChaosFlag, PrintsTheShortestTextThatMeansTheSame) {
  for (const char* text :
       {"state_delay=0..2ms state_loss=0.01 state_duplicate=0.02",
        "state_delay=20us", "logger_delay=1us..2us logger_loss=0.1",
        "logger_duplicate=0.02", "lease_delay=0..1ms lease_loss=0.1",
        "lease_duplicate=0.02", "state_loss=0.9", "state_duplicate=0.25"}) {
    const auto chaos = ParseChaos(text);
    ASSERT_TRUE(chaos.ok()) << chaos.status();
    EXPECT_EQ(FormatChaos(*chaos), text);
  }
  EXPECT_EQ(FormatChaos({}), "");
}

TEST(ChaosFlag, ReadsBackWhatItPrints) {
  constexpr uint64_t kSeed = 5;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  for (int i = 0; i < 10'000; ++i) {
    ChaosOptions chaos;
    chaos.state_delay_max = {static_cast<int64_t>(1 + rng.Below(1u << 30))};
    chaos.state_delay_min = {static_cast<int64_t>(rng.Below(1u << 30)) %
                             chaos.state_delay_max.ns};
    chaos.state_loss_65536 = static_cast<uint32_t>(rng.Below(kMaxChaos65536));
    chaos.state_duplicate_65536 = static_cast<uint32_t>(rng.Below(200));
    const std::string text = FormatChaos(chaos);
    const auto again = ParseChaos(text);
    ASSERT_TRUE(again.ok()) << again.status();
    ASSERT_EQ(again->state_delay_min, chaos.state_delay_min) << text;
    ASSERT_EQ(again->state_delay_max, chaos.state_delay_max) << text;
    ASSERT_EQ(again->state_loss_65536, chaos.state_loss_65536) << text;
    ASSERT_EQ(again->state_duplicate_65536, chaos.state_duplicate_65536)
        << text;
  }
}

}  // namespace
}  // namespace snf
