// SPDX-License-Identifier: Apache-2.0
#include "traces/loaded_capture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace snf {
namespace {

std::vector<std::byte> Bytes(size_t count, int value) {
  return std::vector<std::byte>(count, static_cast<std::byte>(value));
}

TEST(LoadedCapture, SortsByTimeAndKeepsTheOrderOfEqualTimes) {
  LoadedCapture capture(1 << 24);
  const std::string bytes = "abcd";
  const int64_t kTimes[] = {5, 3, 5, 4};
  for (size_t i = 0; i < 4; ++i) {
    CapturedPacket packet;
    packet.time = Instant{kTimes[i]};
    packet.bytes = std::as_bytes(std::span(bytes)).subspan(i, 1);
    ASSERT_TRUE(capture.Add(packet).ok());
  }
  capture.SortByTime();
  std::string order;
  for (size_t i = 0; i < capture.size(); ++i) {
    order += static_cast<char>(capture.Packet(i, 0).bytes[0]);
  }
  EXPECT_EQ(order, "bdac");
}

TEST(LoadedCapture, GivesBackWhatWasAdded) {
  LoadedCapture capture(64 << 20);
  std::vector<std::vector<std::byte>> frames;
  for (int i = 0; i < 2'000; ++i) {
    const auto length = static_cast<size_t>(i == 77 ? 3 << 20 : i % 1'500);
    frames.push_back(Bytes(length, i));
    ASSERT_TRUE(capture
                    .Add({.time = Instant{1'000 + i},
                          .bytes = frames.back(),
                          .original_bytes = 5'000})
                    .ok());
  }
  ASSERT_EQ(capture.size(), frames.size());
  for (size_t i = 0; i < frames.size(); ++i) {
    const CapturedPacket packet = capture.Packet(i, 0);
    EXPECT_TRUE(std::ranges::equal(packet.bytes, frames[i])) << i;
    EXPECT_EQ(packet.time.ns, 1'000 + static_cast<int64_t>(i));
    EXPECT_EQ(packet.original_bytes, 5'000u);
  }
}

TEST(LoadedCapture, GoesOnWhereTheRoundBeforeEnded) {
  LoadedCapture capture(64 << 20);
  // One is earlier than the one before.
  for (const int64_t time : {100, 160, 130, 400}) {
    ASSERT_TRUE(capture.Add({.time = Instant{time}, .bytes = {}}).ok());
  }
  EXPECT_EQ(capture.Packet(3, 0).time.ns, 400);
  EXPECT_EQ(capture.Packet(0, 1).time.ns, 500);
  EXPECT_EQ(capture.Packet(2, 2).time.ns, 130 + 2 * 400);
  EXPECT_EQ(capture.Packet(1, 0xffff'ffff).time.ns,
            160 + 400 * int64_t{0xffff'ffff});
}

TEST(LoadedCapture, RepeatsASinglePacketAtItsTime) {
  LoadedCapture capture(64 << 20);
  ASSERT_TRUE(capture.Add({.time = Instant{7}, .bytes = {}}).ok());
  EXPECT_EQ(capture.Packet(0, 9).time.ns, 7);
}

TEST(LoadedCapture, HoldsTimesAtTheLastInstant) {
  LoadedCapture capture(64 << 20);
  ASSERT_TRUE(capture.Add({.time = Instant{0}, .bytes = {}}).ok());
  ASSERT_TRUE(capture.Add({.time = Instant::max(), .bytes = {}}).ok());
  EXPECT_EQ(capture.Packet(0, 2).time, Instant::max());
}

TEST(LoadedCapture, RefusesWhatDoesNotFit) {
  LoadedCapture capture(2 << 20);
  const std::vector<std::byte> frame = Bytes(700'000, 1);
  absl::Status status;
  size_t packets = 0;
  while (packets < 10 &&
         (status = capture.Add({.time = {}, .bytes = frame})).ok()) {
    ++packets;
  }
  EXPECT_GE(packets, 1u);
  EXPECT_LE(packets, 2u);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("too large to be loaded: more than 2.10 MB"));
}

}  // namespace
}  // namespace snf
