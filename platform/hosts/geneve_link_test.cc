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
#include <utility>

#include "platform/hosts/host_stream.h"
#include "platform/hosts/mirror_relay.h"
#include "runtime/mirror/test_mirror_pair.h"

namespace snf {
namespace {

constexpr Nanos kPatience = Seconds(120);
// A machine may give the threads of a link no CPU for HostStream::kSilence.
constexpr int kMostTries = 10;

template <typename Condition>
bool WaitFor(const Condition& condition) {
  const Instant end = RealClock::Monotonic() + kPatience;
  while (!condition()) {
    if (RealClock::Monotonic() > end) return false;
    poll(nullptr, 0, 1);
  }
  return true;
}

// Two ends of a link on loopback, with a TCP connection between them, and the
// mirrors of both.
struct Ends {
  struct End {
    std::unique_ptr<HostStream> stream{};
    std::unique_ptr<GeneveLink> link{};
    std::atomic<int> losses = 0;
    std::atomic<bool> was_silent = false;

    void Lose(const absl::Status& why) {
      if (why.message().find("were not acknowledged") != std::string::npos) {
        was_silent = true;
      }
      ++losses;
    }
    void Start(LoopMirror::Side side, LoopMirror& mirror) {
      link->Start(
          side,
          [&mirror](std::span<const std::byte> message) {
            return mirror.Apply(message);
          },
          [this](const absl::Status& why) { Lose(why); });
    }
  };

  // Returns an address of loopback that other tests do not use now.
  static std::string Address(int last) {
    return fmt::format("127.{}.{}.{}", 1 + getpid() / 250 % 250,
                       1 + getpid() % 250, last);
  }
  static sockaddr_in At(const std::string& address) {
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    inet_pton(AF_INET, address.c_str(), &at.sin_addr);
    return at;
  }
  static int ConnectFrom(const std::string& from, int listener) {
    sockaddr_in own = At(from);
    sockaddr_in to = {};
    socklen_t size = sizeof(to);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&to), &size),
              0);
    EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&own), sizeof(own)), 0);
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    return fd;
  }
  // Returns a UDP port that is free at both addresses, most likely.
  static uint16_t FreePort() {
    sockaddr_in any = {};
    any.sin_family = AF_INET;
    socklen_t size = sizeof(any);
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&any), sizeof(any)), 0);
    EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&any), &size), 0);
    close(fd);
    return ntohs(any.sin_port);
  }

  absl::Status Open() {
    const auto listener = HostStream::Listen(Address(1) + ":0");
    if (!listener.ok()) return listener.status();
    home.stream =
        std::make_unique<HostStream>(ConnectFrom(Address(2), *listener));
    away.stream = std::make_unique<HostStream>(
        accept4(*listener, nullptr, nullptr, SOCK_CLOEXEC));
    close(*listener);
    const uint16_t port = FreePort();
    for (End* end : {&home, &away}) {
      auto link = GeneveLink::Open(end->stream->fd(), port);
      if (!link.ok()) return link.status();
      end->link = *std::move(link);
    }
    if (absl::Status s = home.link->DrawKey(); !s.ok()) return s;
    away.link->SetKey(home.link->Offer().key);
    for (const auto& [end, other] :
         {std::pair(&away, &home), std::pair(&home, &away)}) {
      absl::Status status = end->link->Connect(other->link->Offer());
      if (!status.ok()) return status;
    }
    for (End* end : {&home, &away}) {
      if (absl::Status s = end->link->Measure(); !s.ok()) return s;
      EXPECT_GE(end->link->counts().path, PathSearch::kLeast);
    }
    return absl::OkStatus();
  }

  TestMirrorPair pair;
  End home;
  End away;
};

class GeneveLinkTest : public testing::Test {
 protected:
  void SetUp() override { Open(); }

  void Open() {
    absl::Status status;
    for (int tries = 0; tries < kMostTries; ++tries) {
      ends_ = std::make_unique<Ends>();
      status = ends_->Open();
      if (!absl::IsUnavailable(status)) break;
    }
    ASSERT_TRUE(status.ok()) << status;
  }

  // Carries cells down, and their release back. Returns false if the link was
  // lost, as it was silent.
  bool Carries(uint64_t cells);

  std::unique_ptr<Ends> ends_;
};

bool GeneveLinkTest::Carries(uint64_t cells) {
  TestMirrorPair& pair = ends_->pair;
  Ends::End& home = ends_->home;
  Ends::End& away = ends_->away;
  const auto is_lost = [this] {
    return ends_->home.losses + ends_->away.losses > 0;
  };
  // The daemon measures before the units start, without threads.
  away.link->Stop();
  home.Start(LoopMirror::Side::kHome, *pair.at_home);
  away.Start(LoopMirror::Side::kAway, *pair.at_away);
  MirrorRelay down(*pair.at_home, *home.stream, home.link.get(),
                   {pair.home.units_bell},
                   [this](const absl::Status& why) { ends_->home.Lose(why); });
  MirrorRelay up(*pair.at_away, *away.stream, away.link.get(),
                 {pair.away->controller_bell, pair.away->loggers_bell},
                 [this](const absl::Status& why) { ends_->away.Lose(why); });
  down.Start();
  up.Start();
  std::atomic<uint64_t> read = 0;
  std::atomic<bool> is_in_order = true;
  std::thread units([&] {
    auto ring = ends_->pair.away->Consumer(MirroredRing::kDown);
    WaitFor([&] {
      Cell cell;
      while (ring.Read(std::span(&cell, 1)) == 1) {
        if (NumberOf(cell) != read) is_in_order = false;
        ring.Release(1);
        ++read;
      }
      return read == cells || is_lost();
    });
  });
  auto ring = pair.home.Producer(MirroredRing::kDown);
  uint64_t pushed = 0;
  EXPECT_TRUE(WaitFor([&] {
    while (pushed < cells) {
      const Cell cell = TestCell(pushed);
      if (ring.Push(std::span(&cell, 1)) == 0) break;
      ++pushed;
    }
    ends_->pair.home.units_bell->Ring();
    return ring.released() == cells || is_lost();
  })) << pushed
      << " pushed, " << read << " read";
  units.join();
  down.Stop();
  up.Stop();
  EXPECT_TRUE(is_in_order);
  if (home.was_silent || away.was_silent) return false;
  EXPECT_FALSE(is_lost());
  EXPECT_EQ(read, cells);
  for (const Ends::End* end : {&home, &away}) {
    const GeneveLink::Counts counts = end->link->counts();
    EXPECT_GT(counts.sent.datagrams, 0u);
    for (const uint64_t refused : counts.refused) EXPECT_EQ(refused, 0u);
  }
  return true;
}

TEST_F(GeneveLinkTest, CarriesTheCellsOfMirrorsInOrderAndTheirReleaseBack) {
  for (int tries = 0; tries < kMostTries; ++tries) {
    if (Carries(5'000) || HasFailure()) return;
    ASSERT_NO_FATAL_FAILURE(Open());
  }
  FAIL() << "the link was silent in each run";
}

TEST_F(GeneveLinkTest, IsLostOnceTheOtherEndIsGone) {
  TestMirrorPair& pair = ends_->pair;
  Ends::End& home = ends_->home;
  Ends::End& away = ends_->away;
  home.Start(LoopMirror::Side::kHome, *pair.at_home);
  away.link.reset();
  auto ring = pair.home.Producer(MirroredRing::kDown);
  const Cell cell = TestCell(0);
  ASSERT_EQ(ring.Push(std::span(&cell, 1)), 1u);
  ASSERT_TRUE(home.link->Send(TestMirrorPair::Collect(*pair.at_home)).ok());
  EXPECT_TRUE(WaitFor([this] { return ends_->home.losses > 0; }));
  EXPECT_EQ(home.losses, 1);
  EXPECT_TRUE(home.was_silent);
  EXPECT_FALSE(home.link->Await(0, Nanos{0}).ok());
  EXPECT_FALSE(home.link->Send(TestMirrorPair::Collect(*pair.at_home)).ok());
}

TEST_F(GeneveLinkTest, RefusesAnOfferThatCannotBe) {
  GeneveOffer offer = ends_->away.link->Offer();
  offer.ports[3] = 0;
  EXPECT_EQ(ends_->home.link->Connect(offer).message(),
            "an offer that cannot be");
  offer = ends_->away.link->Offer();
  offer.key.network = 1u << 24;
  EXPECT_EQ(ends_->home.link->Connect(offer).message(),
            "an offer that cannot be");
  offer = ends_->away.link->Offer();
  ++offer.key.key;
  EXPECT_EQ(ends_->home.link->Connect(offer).message(), "another key");
}

}  // namespace
}  // namespace snf
