// SPDX-License-Identifier: Apache-2.0
#include "platform/hosts/mirror_relay.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <string>

#include "runtime/mirror/test_mirror_pair.h"

namespace snf {
namespace {

constexpr Nanos kPatience = Seconds(60);

// A link of which a test says how many bytes wait for the other end.
class TestLink final : public MirrorLink {
 public:
  absl::StatusOr<uint64_t> Await(uint64_t most, Nanos time) override {
    if (is_lost) return absl::UnavailableError("the link is lost");
    if (waiting > most) {
      poll(nullptr, 0, static_cast<int>(time.ns / 1'000'000));
    }
    // The other end consumes a byte, if it consumes any.
    if (consumes && waiting > 0) --waiting;
    return waiting.load();
  }
  absl::Status Send(std::span<const std::byte> frame) override {
    EXPECT_LE(waiting, kMostWaiting);
    EXPECT_FALSE(frame.empty());
    ++sent;
    return absl::OkStatus();
  }

  std::atomic<uint64_t> waiting = 0;
  std::atomic<bool> consumes = false;
  std::atomic<bool> is_lost = false;
  std::atomic<int> sent = 0;
};

class MirrorRelayTest : public testing::Test {
 protected:
  MirrorRelayTest() : MirrorRelayTest(Sockets()) {}
  explicit MirrorRelayTest(const std::array<int, 2>& sockets)
      : own_(sockets[0]), peer_(sockets[1]) {}

  static std::array<int, 2> Sockets() {
    std::array<int, 2> sockets{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets.data()), 0);
    return sockets;
  }
  void Push() {
    auto down = pair_.home.Producer(MirroredRing::kDown);
    const Cell cell = TestCell(1);
    ASSERT_EQ(down.Push(std::span(&cell, 1)), 1u);
  }
  // Waits for a beat at the other end of the connection.
  void ExpectBeat() {
    const auto frame = peer_.Receive(kPatience);
    ASSERT_TRUE(frame.ok()) << frame.status();
    EXPECT_EQ(frame->kind, HostFrame::kBeat);
  }
  template <typename Condition>
  static bool WaitFor(const Condition& condition) {
    const Instant end = RealClock::Monotonic() + kPatience;
    while (!condition()) {
      if (RealClock::Monotonic() > end) return false;
      poll(nullptr, 0, 1);
    }
    return true;
  }

  TestMirrorPair pair_;
  HostStream own_;
  HostStream peer_;
  TestLink link_;
  std::atomic<int> losses_ = 0;
  MirrorRelay relay_{*pair_.at_home,
                     own_,
                     &link_,
                     {pair_.home.units_bell},
                     [this](const absl::Status&) { ++losses_; }};
};

TEST_F(MirrorRelayTest, BeatsWhileTheLinkHasNoRoom) {
  link_.waiting = MirrorLink::kMostWaiting + 1;
  Push();
  relay_.Start();
  for (int i = 0; i < 3; ++i) ExpectBeat();
  EXPECT_EQ(link_.sent, 0);
  link_.waiting = MirrorLink::kMostWaiting;
  EXPECT_TRUE(WaitFor([this] { return link_.sent > 0; }));
  relay_.Stop();
  EXPECT_EQ(losses_, 0);
}

TEST_F(MirrorRelayTest, TellsOnceThatTheLinkIsLostWhileItHasNoRoom) {
  link_.waiting = MirrorLink::kMostWaiting + 1;
  Push();
  relay_.Start();
  ExpectBeat();
  link_.is_lost = true;
  EXPECT_TRUE(WaitFor([this] { return losses_ > 0; }));
  relay_.Stop();
  EXPECT_EQ(losses_, 1);
  EXPECT_EQ(link_.sent, 0);
}

// Each wait of the flush takes 5 ms, so that the whole takes twice as long as a
// peer may be silent.
TEST_F(MirrorRelayTest, FlushesAsLongAsTheOtherSideConsumes) {
  link_.waiting = 600;
  link_.consumes = true;
  Push();
  const Instant begin = RealClock::Monotonic();
  const absl::Status status = relay_.SendRest();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GT(RealClock::Monotonic() - begin, HostStream::kSilence);
  EXPECT_EQ(link_.waiting, 0u);
  EXPECT_EQ(link_.sent, 1);
  ExpectBeat();  // the connection was not silent meanwhile
}

TEST_F(MirrorRelayTest, GivesUpTheFlushIfTheOtherSideConsumesNothing) {
  link_.waiting = 7;
  EXPECT_EQ(relay_.SendRest().message(),
            "the last messages were not acknowledged");
  ExpectBeat();
}

TEST_F(MirrorRelayTest, GivesUpTheFlushIfTheLinkIsLost) {
  link_.is_lost = true;
  EXPECT_EQ(relay_.SendRest().message(), "the link is lost");
}

}  // namespace
}  // namespace snf
