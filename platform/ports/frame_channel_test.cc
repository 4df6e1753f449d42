// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/frame_channel.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace snf {
namespace {

using Frame = std::vector<std::byte>;

class FrameChannelTest : public testing::Test {
 protected:
  FrameChannelTest() {
    auto both = FrameChannel::Make();
    EXPECT_TRUE(both.ok());
    in_ = std::move(both->first);
    out_ = std::move(both->second);
  }
  FrameChannel::Taken Receive() {
    return out_.Receive([this](const PortFrame& frame, Instant came) {
      frames_.emplace_back(frame.bytes.begin(), frame.bytes.end());
      segments_.push_back(frame.segment_bytes);
      news_.push_back(frame.news);
      times_.push_back(came);
    });
  }

  FrameChannel in_;
  FrameChannel out_;
  std::vector<Frame> frames_;
  std::vector<Instant> times_;
  std::vector<uint16_t> segments_;
  std::vector<NeighbourNews> news_;
};

TEST_F(FrameChannelTest, BringsFramesWholeAndInOrderAndSaysWhereItEnds) {
  EXPECT_FALSE(Receive().any);
  const std::vector<size_t> sizes = {60, 1, 0, kMaxFrameBytes, 1'514};
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Frame frame(sizes[i], std::byte(i));
    EXPECT_TRUE(in_.Send({.bytes = frame,
                          .segment_bytes = static_cast<uint16_t>(i * 16'000),
                          .news = static_cast<NeighbourNews>(i % 3)},
                         Instant{static_cast<int64_t>(i)}));
  }
  EXPECT_TRUE(Receive().any);
  in_.Finish({.next_slot = 42});
  EXPECT_FALSE(in_.is_open());
  const FrameChannel::Taken last = Receive();
  EXPECT_TRUE(last.is_over);
  EXPECT_EQ(last.last.next_slot, 42u);
  EXPECT_FALSE(out_.is_open());
  ASSERT_EQ(frames_.size(), sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(frames_[i], Frame(sizes[i], std::byte(i)));
    EXPECT_EQ(times_[i].ns, static_cast<int64_t>(i));
    EXPECT_EQ(segments_[i], i * 16'000);
    EXPECT_EQ(news_[i], static_cast<NeighbourNews>(i % 3));
  }
}

TEST_F(FrameChannelTest, EndsNowhereIfTheOtherEndIsGone) {
  EXPECT_TRUE(in_.Send({.bytes = Frame(60)}, Instant{}));
  in_.Close();
  const FrameChannel::Taken taken = Receive();
  EXPECT_TRUE(taken.any && taken.is_over);
  EXPECT_EQ(taken.last.next_slot, LastOfPort::kNowhere);
}

TEST_F(FrameChannelTest, IsClosedOnceNobodyReceivesAnyMore) {
  out_.Close();
  EXPECT_FALSE(in_.Send({.bytes = Frame(60)}, Instant{}));
  EXPECT_FALSE(in_.is_open());
  in_.Finish({.next_slot = 1});
}

TEST_F(FrameChannelTest, TellsThatItsReceiverIsGoneWithoutAFrame) {
  EXPECT_FALSE(in_.has_lost_receiver());
  EXPECT_TRUE(in_.Send({.bytes = Frame(60)}, Instant{}));
  EXPECT_FALSE(in_.has_lost_receiver());
  out_.Close();
  EXPECT_TRUE(in_.has_lost_receiver());
  EXPECT_TRUE(in_.is_open());
  in_.Close();
  EXPECT_TRUE(in_.has_lost_receiver());
}

TEST_F(FrameChannelTest, LosesWhatThereIsNoRoomForAndGoesOn) {
  const Frame frame(kMaxFrameBytes);
  int sent = 0;
  while (in_.Send({.bytes = frame}, Instant{})) ++sent;
  EXPECT_GT(sent, 0);
  EXPECT_TRUE(in_.is_open());
  while (Receive().any) {
  }
  EXPECT_EQ(frames_.size(), static_cast<size_t>(sent));
  EXPECT_TRUE(in_.Send({.bytes = frame}, Instant{}));
}

}  // namespace
}  // namespace snf
