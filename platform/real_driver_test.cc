// SPDX-License-Identifier: Apache-2.0
#include "platform/real_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string_view>
#include <vector>

#include "controller/core/placement.h"
#include "platform/test_run.h"

namespace snf {
namespace {

constexpr int64_t kUs = 1'000;

// Flows that take turns, so many packets in all.
std::vector<OfferedFrame> Packets(uint32_t packets, uint32_t flows,
                                  int64_t gap_ns) {
  std::vector<OfferedFrame> frames;
  for (uint32_t i = 0; i < packets; ++i) {
    frames.push_back(
        {.time = Instant{1'700'000'000'000'000'000 + i * gap_ns},
         .bytes = UdpFrame({.flow = i % flows, .sequence = i / flows})});
  }
  return frames;
}

RunResult RunReal(const RunOptions& options, const RealOptions& real,
                  const NfSpec& nf, std::span<const OfferedFrame> frames,
                  std::string_view policy) {
  auto driver = RealDriver::Start(options, real, *FindPlacementPolicy(policy),
                                  nf, nullptr);
  EXPECT_TRUE(driver.ok()) << driver.status();
  for (const OfferedFrame& frame : frames) {
    (*driver)->Offer({.time = frame.time,
                      .bytes = frame.bytes,
                      .original_bytes =
                          static_cast<uint32_t>(frame.bytes.size()),
                      .link = frame.link});
  }
  RunResult result = (*driver)->Finish();
  EXPECT_EQ((*driver)->buffers_in_use(), 0u);
  EXPECT_TRUE(result.conserved());
  EXPECT_THAT(result.violation_messages, testing::IsEmpty());
  EXPECT_EQ(result.violations, 0u);
  return result;
}

const RealOptions kAsFastAsCanBe = {.speed = {.kind = Speed::Kind::kMax},
                                    .threads = 3,
                                    .unpaced = true,
                                    .wait_for_room = true};

class RealDriverTest : public testing::TestWithParam<uint32_t> {};

TEST_P(RealDriverTest, ReleasesWhatOneUnitWouldHoweverFlowsMove) {
  const auto frames = Packets(20'000, 50, 10 * kUs);
  RunOptions options = SmallTables();
  options.controller.max_units = 1;
  const Outcome one = RunFrames(options, TimelessChronicleNf(), frames);
  options.controller.max_units = 16;
  RealOptions real = kAsFastAsCanBe;
  real.threads = GetParam();
  const RunResult result =
      RunReal(options, real, TimelessChronicleNf(), frames, "rotate");
  EXPECT_EQ(result.packets_released, 20'000u);
  EXPECT_EQ(result.digest, one.run.digest);
  EXPECT_GE(result.controller.flowlets_moved, 18'000u);
  EXPECT_GE(result.state.pulled, 1'000u);
  EXPECT_EQ(result.real.threads, GetParam());
}
INSTANTIATE_TEST_SUITE_P(Threads, RealDriverTest, testing::Values(1, 2, 3, 6));

}  // namespace
}  // namespace snf
