// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/sockets/frame_sender.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

using Frame = std::vector<std::byte>;

constexpr size_t kLongest = 65'535 + 14 + 8;

struct Left {
  Frame frame;
  uint16_t segment_bytes = 0;
  friend bool operator==(const Left&, const Left&) = default;
};

// Keeps the frames, without a lock: FrameSender has one thread send at a time.
class Outlet final : public FrameOutlet {
 public:
  void Send(std::span<const std::span<const std::byte>> frames,
            SentFrames& counts) override {
    EXPECT_LE(frames.size(), kBatch);
    Wait();
    for (const auto& frame : frames) Keep(frame, 0);
    counts.sent += frames.size();
  }
  // Every third frame has to be cut.
  bool SendMerged(std::span<const std::byte> frame, uint16_t segment_bytes,
                  SentFrames& counts) override {
    if (segment_bytes % 3 == 0) return false;
    Keep(frame, segment_bytes);
    ++counts.sent;
    return true;
  }
  void SendCut(std::span<const std::byte> frame, uint16_t segment_bytes,
               SentFrames& counts) override {
    Keep(frame, segment_bytes);
    ++counts.sent;
    ++counts.cut;
  }

  // No frame leaves until the owner has copied this number of bytes.
  uint64_t awaited_bytes = 0;
  std::atomic<uint64_t> copied_bytes{0};
  std::vector<Left> left;
  std::vector<std::thread::id> by;  // of each frame, the thread that sent it

 private:
  void Keep(std::span<const std::byte> frame, uint16_t segment_bytes) {
    left.push_back({{frame.begin(), frame.end()}, segment_bytes});
    by.push_back(std::this_thread::get_id());
  }
  void Wait() {
    if (awaited_bytes == 0) return;
    while (copied_bytes < awaited_bytes) std::this_thread::yield();
    for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
    awaited_bytes = 0;
  }
};

Frame FrameOf(uint64_t number, size_t bytes) {
  Frame frame(std::max(bytes, sizeof number),
              static_cast<std::byte>(number * 37));
  std::memcpy(frame.data(), &number, sizeof number);
  return frame;
}

TEST(FrameSender, SendsFewFramesItselfAndManyByItsThread) {
  Outlet outlet;
  FrameSender sender(outlet);
  constexpr size_t kFew = FrameSender::kWorthFrames - 1;
  for (size_t i = 0; i < kFew; ++i) sender.Send(FrameOf(i, 60));
  sender.Flush();
  ASSERT_EQ(outlet.left.size(), kFew);
  for (size_t i = 0; i < FrameSender::kWorthFrames; ++i) {
    sender.Send(FrameOf(i, 60));
  }
  sender.Settle();
  ASSERT_EQ(outlet.left.size(), kFew + FrameSender::kWorthFrames);
  for (size_t i = 0; i < outlet.by.size(); ++i) {
    EXPECT_EQ(outlet.by[i] == std::this_thread::get_id(), i < kFew) << i;
  }
}

TEST(FrameSender, WaitsForRoomInAFullRing) {
  constexpr size_t kBytes = 1'504, kInRing = 8 + kBytes;
  constexpr uint64_t kFrames = 3 * FrameSender::kRingBytes / kInRing;
  Outlet outlet;
  outlet.awaited_bytes = FrameSender::kRingBytes - 2 * kInRing;
  {
    FrameSender sender(outlet);
    for (uint64_t i = 0; i < kFrames; ++i) {
      sender.Send(FrameOf(i, kBytes));
      outlet.copied_bytes += kInRing;
      if ((i + 1) % FrameSender::kWorthFrames == 0) sender.Flush();
    }
    sender.Settle();
    EXPECT_EQ(sender.counts().sent, kFrames);
  }
  ASSERT_EQ(outlet.left.size(), kFrames);
  for (uint64_t i = 0; i < kFrames; ++i) {
    ASSERT_TRUE(outlet.left[i].frame == FrameOf(i, kBytes)) << i;
  }
}

size_t AnyLength(Rng& rng) {
  if (rng.Below(8) == 0) return 1 + rng.Below(kLongest);
  return 14 + rng.Below(1'600);
}

// Checks frames of any lengths, some of several packets, against a list.
void CheckAnyFrames(Rng rng) {
  Outlet outlet;
  std::vector<Left> wanted;
  uint64_t cut = 0;
  {
    FrameSender sender(outlet);
    // Batches have this number of frames on average.
    const uint64_t each = 2 + rng.Below(60);
    for (uint64_t i = 0; i < 1'500; ++i) {
      Left one{.frame = FrameOf(i, AnyLength(rng))};
      if (rng.Below(16) == 0) {
        one.segment_bytes = static_cast<uint16_t>(1 + rng.Below(1'400));
        cut += one.segment_bytes % 3 == 0 ? 1 : 0;
        sender.SendMerged(one.frame, one.segment_bytes);
      } else {
        sender.Send(one.frame);
      }
      wanted.push_back(std::move(one));
      if (rng.Below(each) == 0) sender.Flush();
      if (rng.Below(100) != 0) continue;
      sender.Settle();
      ASSERT_EQ(outlet.left.size(), wanted.size());
      ASSERT_EQ(sender.counts().sent, wanted.size());
      ASSERT_EQ(sender.counts().cut, cut);
    }
  }  // sends the rest
  ASSERT_EQ(outlet.left.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_TRUE(outlet.left[i] == wanted[i]) << i;
  }
}

TEST(FrameSender, SendsAnyFramesInTheirOrder) {
  for (const uint64_t seed : TestSeeds(10).all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    CheckAnyFrames(Rng(seed));
  }
}

}  // namespace
}  // namespace snf
