// SPDX-License-Identifier: Apache-2.0
#include "platform/hosts/geneve_link.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "platform/hosts/host_stream.h"
#include "platform/hosts/mirror_relay.h"
#include "runtime/mirror/test_mirror_pair.h"

namespace snf {
namespace {

constexpr Nanos kPatience = Seconds(120);

// Two ends of a link on loopback, with a TCP connection between them.
class GeneveLinkTest : public testing::Test {
 protected:
  struct End {
    std::unique_ptr<HostStream> stream{};
    std::unique_ptr<GeneveLink> link{};
    std::atomic<int> losses = 0;
  };

  // Returns an address of loopback that other tests do not use now.
  static std::string Address(int last) {
    return fmt::format("127.{}.{}.{}", 1 + getpid() / 250 % 250,
                       1 + getpid() % 250, last);
  }
  static int ConnectFrom(const std::string& from, int listener) {
    sockaddr_in own = {};
    own.sin_family = AF_INET;
    inet_pton(AF_INET, from.c_str(), &own.sin_addr);
    sockaddr_in to = {};
    socklen_t size = sizeof(to);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&to), &size),
              0);
    EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&own), sizeof(own)), 0);
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    return fd;
  }

  void SetUp() override {
    const auto listener = HostStream::Listen(Address(1) + ":0");
    ASSERT_TRUE(listener.ok()) << listener.status();
    home_.stream =
        std::make_unique<HostStream>(ConnectFrom(Address(2), *listener));
    away_.stream = std::make_unique<HostStream>(
        accept4(*listener, nullptr, nullptr, SOCK_CLOEXEC));
    close(*listener);
    for (End* end : {&home_, &away_}) {
      auto link = GeneveLink::Open(end->stream->fd());
      ASSERT_TRUE(link.ok()) << link.status();
      end->link = *std::move(link);
    }
    ASSERT_TRUE(home_.link->DrawKey().ok());
    away_.link->SetKey(home_.link->Offer().key);
    for (const auto& [end, other] :
         {std::pair(&away_, &home_), std::pair(&home_, &away_)}) {
      const absl::Status status = end->link->Connect(other->link->Offer());
      if (status.message().find("Address already in use") !=
          std::string::npos) {
        GTEST_SKIP() << status;  // the kernel's own GENEVE
      }
      ASSERT_TRUE(status.ok()) << status;
    }
    for (End* end : {&home_, &away_}) {
      const absl::Status status = end->link->Measure();
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_GE(end->link->counts().path, PathSearch::kLeast);
    }
  }

  static void Start(End& end, LoopMirror::Side side, LoopMirror& mirror) {
    end.link->Start(
        side,
        [&mirror](std::span<const std::byte> message) {
          return mirror.Apply(message);
        },
        [&end](const absl::Status&) { ++end.losses; });
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
  End home_;
  End away_;
};

TEST_F(GeneveLinkTest, CarriesTheCellsOfMirrorsInOrderAndTheirReleaseBack) {
  constexpr uint64_t kCells = 5'000;
  // The daemon measures before the units start, without threads.
  away_.link->Stop();
  Start(home_, LoopMirror::Side::kHome, *pair_.at_home);
  Start(away_, LoopMirror::Side::kAway, *pair_.at_away);
  MirrorRelay down(*pair_.at_home, *home_.stream, home_.link.get(),
                   {pair_.home.units_bell},
                   [this](const absl::Status&) { ++home_.losses; });
  MirrorRelay up(*pair_.at_away, *away_.stream, away_.link.get(),
                 {pair_.away->controller_bell, pair_.away->loggers_bell},
                 [this](const absl::Status&) { ++away_.losses; });
  down.Start();
  up.Start();
  std::atomic<uint64_t> read = 0;
  std::atomic<bool> is_in_order = true;
  std::thread units([&] {
    auto ring = pair_.away->Consumer(MirroredRing::kDown);
    WaitFor([&] {
      Cell cell;
      while (ring.Read(std::span(&cell, 1)) == 1) {
        if (NumberOf(cell) != read) is_in_order = false;
        ring.Release(1);
        ++read;
      }
      return read == kCells;
    });
  });
  auto ring = pair_.home.Producer(MirroredRing::kDown);
  uint64_t pushed = 0;
  EXPECT_TRUE(WaitFor([&] {
    while (pushed < kCells) {
      const Cell cell = TestCell(pushed);
      if (ring.Push(std::span(&cell, 1)) == 0) break;
      ++pushed;
    }
    pair_.home.units_bell->Ring();
    return ring.released() == kCells;
  })) << pushed
      << " pushed, " << read << " read";
  units.join();
  EXPECT_EQ(read, kCells);
  EXPECT_TRUE(is_in_order);
  down.Stop();
  up.Stop();
  for (const End* end : {&home_, &away_}) {
    const GeneveLink::Counts counts = end->link->counts();
    EXPECT_EQ(end->losses, 0);
    EXPECT_GT(counts.sent.datagrams, 0u);
    for (const uint64_t refused : counts.refused) EXPECT_EQ(refused, 0u);
  }
}

TEST_F(GeneveLinkTest, IsLostOnceTheOtherEndIsGone) {
  Start(home_, LoopMirror::Side::kHome, *pair_.at_home);
  away_.link.reset();
  auto ring = pair_.home.Producer(MirroredRing::kDown);
  const Cell cell = TestCell(0);
  ASSERT_EQ(ring.Push(std::span(&cell, 1)), 1u);
  ASSERT_TRUE(home_.link->Send(TestMirrorPair::Collect(*pair_.at_home)).ok());
  EXPECT_TRUE(WaitFor([this] { return home_.losses > 0; }));
  EXPECT_EQ(home_.losses, 1);
  EXPECT_FALSE(home_.link->Await(0, Nanos{0}).ok());
  EXPECT_FALSE(home_.link->Send(TestMirrorPair::Collect(*pair_.at_home)).ok());
}

TEST_F(GeneveLinkTest, RefusesAnOfferThatCannotBe) {
  GeneveOffer offer = away_.link->Offer();
  offer.ports[3] = 0;
  EXPECT_EQ(home_.link->Connect(offer).message(), "an offer that cannot be");
  offer = away_.link->Offer();
  offer.key.network = 1u << 24;
  EXPECT_EQ(home_.link->Connect(offer).message(), "an offer that cannot be");
  offer = away_.link->Offer();
  ++offer.key.key;
  EXPECT_EQ(home_.link->Connect(offer).message(), "another key");
}

}  // namespace
}  // namespace snf
