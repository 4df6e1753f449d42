// SPDX-License-Identifier: Apache-2.0
#include "platform/bypass/bypass_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace snf {
namespace {

using ::testing::HasSubstr;
using Phase = BypassCore::Phase;

constexpr uint64_t kMost = ~uint64_t{0};

// Instant of 2026-11-30T03:50:00Z.
constexpr Instant kTime{Seconds(1'796'010'600).ns};

class BypassStateTest : public ::testing::Test {
 protected:
  BypassStateTest() {
    files_.name = "edge";
    files_.directory =
        ::testing::TempDir() + "/bypass." + std::to_string(getpid());
    std::filesystem::create_directory(files_.directory);
  }
  ~BypassStateTest() override { std::filesystem::remove_all(files_.directory); }

  DaemonFiles files_;
};

TEST_F(BypassStateTest, IsTheSameFromItsText) {
  const BypassState state = {
      .pid = 4'194'303,
      .state = Phase::kPassing,
      .since = kTime,
      .patience = Seconds(1),
      .counts = {.inside = kMost, .outside = 2, .dropped = 3}};
  const std::optional<BypassState> parsed = BypassState::Parse(state.text());
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->text(), state.text());
  EXPECT_EQ(parsed->counts.inside, kMost);
  EXPECT_EQ(parsed->state, Phase::kPassing);
  EXPECT_EQ(state.text().size(), BypassState().text().size());
}

TEST_F(BypassStateTest, IsNoOtherText) {
  for (const char* text : {"", "1", "1 2 3 4 5 6", "1 5 3 4 5 6 7",
                           "1 -1 3 4 5 6 7", "a 2 3 4 5 6 7"}) {
    EXPECT_FALSE(BypassState::Parse(text).has_value()) << text;
  }
}

TEST_F(BypassStateTest, IsFoundWhileItsFileIsLocked) {
  EXPECT_FALSE(FindBypass(files_).has_value());
  {
    const Descriptor file = OpenBypassFile(
        files_,
        {.state = Phase::kPassing, .since = kTime, .counts = {.inside = 12}});
    ASSERT_TRUE(file.is_open());
    EXPECT_FALSE(OpenBypassFile(files_, {}).is_open());
    EXPECT_THAT(WhatPasses(files_),
                HasSubstr("the daemon is gone; packets pass unprocessed since "
                          "2026-11-30T"));
    EXPECT_THAT(WhatPasses(files_), HasSubstr("12 frames from the inside"));
    WriteBypassState(file, {.state = Phase::kArmed});
    EXPECT_EQ(WhatPasses(files_), "");
    EXPECT_TRUE(FindBypass(files_).has_value());
  }
  EXPECT_FALSE(FindBypass(files_).has_value());
  EXPECT_FALSE(EndBypass(files_));
  EXPECT_FALSE(std::filesystem::exists(BypassFileOf(files_)));
}

}  // namespace
}  // namespace snf
