// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/router/returned_frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace snf {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text));
}
std::string TextOf(std::span<const std::byte> frame) {
  return {reinterpret_cast<const char*>(frame.data()), frame.size()};
}
std::vector<std::string> GivenBy(ReturnedFrames& frames) {
  std::vector<std::string> given;
  frames.Give([&](auto frame) { given.push_back(TextOf(frame)); });
  return given;
}

TEST(ReturnedFrames, GivesEachFrameOnceInTheirOrder) {
  ReturnedFrames frames;
  EXPECT_TRUE(frames.empty());
  EXPECT_FALSE(frames.Give([](auto) { FAIL(); }));
  for (int i = 0; i < 3; ++i) {
    for (const char* const text : {"one", "two two", "3"}) {
      EXPECT_TRUE(frames.Add(BytesOf(text)));
    }
    EXPECT_FALSE(frames.empty());
    EXPECT_THAT(GivenBy(frames), ElementsAre("one", "two two", "3"));
    EXPECT_TRUE(frames.empty());
  }
}

// The chain sends packets that cannot leave, while it gets such errors.
TEST(ReturnedFrames, KeepsWhatIsAddedWhileItGivesForTheNextCall) {
  ReturnedFrames frames;
  for (const char* const text : {"first", "second", "third"}) {
    EXPECT_TRUE(frames.Add(BytesOf(text)));
  }
  std::vector<std::string> given;
  frames.Give([&](auto frame) {
    EXPECT_TRUE(frames.Add(BytesOf("about " + TextOf(frame))));
    given.push_back(TextOf(frame));
  });
  EXPECT_THAT(given, ElementsAre("first", "second", "third"));
  EXPECT_FALSE(frames.empty());
  EXPECT_THAT(GivenBy(frames),
              ElementsAre("about first", "about second", "about third"));
  EXPECT_THAT(GivenBy(frames), IsEmpty());
}

TEST(ReturnedFrames, RefusesMoreThanItsLimits) {
  ReturnedFrames frames;
  for (uint32_t i = 0; i < ReturnedFrames::kMost; ++i) {
    ASSERT_TRUE(frames.Add(BytesOf("x")));
  }
  EXPECT_FALSE(frames.Add(BytesOf("x")));
  EXPECT_EQ(GivenBy(frames).size(), ReturnedFrames::kMost);
  const std::string half(ReturnedFrames::kMostBytes / 2, 'y');
  EXPECT_TRUE(frames.Add(BytesOf(half)));
  EXPECT_TRUE(frames.Add(BytesOf(half)));
  EXPECT_FALSE(frames.Add(BytesOf("x")));
  EXPECT_THAT(GivenBy(frames), ElementsAre(half, half));
}

}  // namespace
}  // namespace snf
