// SPDX-License-Identifier: Apache-2.0
#include "runtime/ring/thread_link.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "base/test_seeds.h"

namespace snf {
namespace {

struct Message {
  uint64_t number = 0;
  uint32_t payload = 0;  // bytes
  std::array<uint32_t, 13> filling{};
};
static_assert(sizeof(Message) == sizeof(Cell));

size_t PayloadBytesOf(const Cell& cell) { return cell.As<Message>().payload; }

class Link {
 public:
  static constexpr size_t kMaxPayload = 1'000;

  explicit Link(uint32_t cells)
      : bytes_(CellRing::BytesFor(cells) + 128),
        memory_(new std::byte[bytes_]{}) {
    void* begin = memory_.get();
    std::align(128, CellRing::BytesFor(cells), begin, bytes_);
    const std::span<std::byte> ring(static_cast<std::byte*>(begin),
                                    CellRing::BytesFor(cells));
    EXPECT_TRUE(CellRing::Format(ring, cells).ok());
    ring_ = ring;
    out_ = std::make_unique<LinkOut>(*CellRing::Producer::Attach(ring, nullptr),
                                     64);
    in_ = std::make_unique<LinkIn>(*CellRing::Consumer::Attach(ring),
                                   kMaxPayload);
  }

  void Send(uint64_t number, uint32_t payload) {
    std::vector<std::byte> bytes(payload);
    for (size_t i = 0; i < payload; ++i) {
      bytes[i] = static_cast<std::byte>(number + i);
    }
    out_->Send(Message{.number = number, .payload = payload}, bytes);
  }
  // What comes must be what was sent, in order.
  void Receive() {
    in_->Receive();
    Handle();
  }
  void Handle() {
    in_->Handle(PayloadBytesOf, [this](const Cell& cell,
                                       std::span<const std::byte> payload) {
      const auto message = cell.As<Message>();
      EXPECT_EQ(message.number, received_++);
      ASSERT_EQ(message.payload, payload.size());
      for (size_t i = 0; i < payload.size(); ++i) {
        ASSERT_EQ(payload[i], static_cast<std::byte>(message.number + i));
      }
    });
  }
  void Join() { in_->Join(*out_); }
  void NextSender() {
    out_ = std::make_unique<LinkOut>(
        *CellRing::Producer::Attach(ring_, nullptr), 64);
  }
  // Leaves what it handles in the ring.
  void ReceiveKept() {
    in_->ReceiveKept();
    Handle();
  }
  LinkOut& out() { return *out_; }
  LinkIn& in() { return *in_; }
  uint64_t received() const { return received_; }

 private:
  size_t bytes_;
  std::span<std::byte> ring_;
  std::unique_ptr<std::byte[]> memory_;
  std::unique_ptr<LinkOut> out_;
  std::unique_ptr<LinkIn> in_;
  uint64_t received_ = 0;
};

TEST(ThreadLink, KeepsWhatTheRingHasNoRoomFor) {
  Link link(4);
  for (uint64_t i = 0; i < 10; ++i) link.Send(i, 0);
  EXPECT_FALSE(link.out().Flush());
  link.Receive();
  EXPECT_EQ(link.received(), 4u);
  EXPECT_FALSE(link.out().Flush());
  link.Receive();
  EXPECT_TRUE(link.out().Flush());
  link.Receive();
  EXPECT_EQ(link.received(), 10u);
  EXPECT_EQ(link.in().received(), link.out().sent());
}

TEST(ThreadLink, HandlesAMessageWhenAllOfItHasCome) {
  Link link(4);
  link.Send(0, 500);  // 9 cells
  link.Send(1, 1);
  link.out().Flush();
  link.Receive();
  EXPECT_EQ(link.received(), 0u);
  link.out().Flush();
  link.Receive();
  EXPECT_EQ(link.received(), 0u);
  link.out().Flush();
  link.Receive();
  EXPECT_EQ(link.received(), 2u);
}

// A message of which only the beginning has come is not given back.
TEST(ThreadLink, KeepsInTheRingWhatIsNotReleased) {
  Link link(16);
  Doorbell sender;
  link.Send(0, 100);  // 3 cells
  link.Send(1, 100);
  link.Send(2, 900);  // 16 cells
  EXPECT_EQ(link.out().cells(), 22u);
  link.out().Flush();
  link.ReceiveKept();
  EXPECT_EQ(link.received(), 2u);
  EXPECT_EQ(link.out().released(), 0u);
  EXPECT_FALSE(link.out().Flush());
  EXPECT_FALSE(link.in().has_items());
  link.in().Release(sender);
  EXPECT_EQ(link.out().released(), 6u);
  EXPECT_TRUE(link.out().Flush());
  link.in().Release(sender);
  EXPECT_EQ(link.out().released(), 6u);
  link.ReceiveKept();
  EXPECT_EQ(link.received(), 3u);
  link.in().Release(sender);
  EXPECT_EQ(link.out().released(), 22u);
}

TEST(ThreadLink, HandlesWhatComesBehindAMessageThatIsPassedOver) {
  Link link(64);
  link.Send(0, 0);
  link.Send(1, 100);
  link.Send(2, 10);
  link.out().Flush();
  std::vector<uint64_t> handled;
  link.in().Receive();
  const size_t messages = link.in().Handle(
      [](const Cell& cell) {
        const auto message = cell.As<Message>();
        return message.payload + (message.number == 1 ? LinkIn::kPassOver : 0);
      },
      [&](const Cell& cell, std::span<const std::byte>) {
        handled.push_back(cell.As<Message>().number);
      });
  EXPECT_EQ(messages, 3u);
  EXPECT_EQ(handled, std::vector<uint64_t>({0, 2}));
  EXPECT_FALSE(link.in().is_closed());
  EXPECT_EQ(link.in().handled(), link.out().cells());
}

// The sender has died over a message that cannot be: the next one goes on in
// front of it.
TEST(ThreadLink, IsOpenAgainWhereItHasClosed) {
  for (const bool is_kept : {false, true}) {
    SCOPED_TRACE(is_kept);
    Link link(64);
    const auto receive = [&] {
      if (is_kept) {
        link.ReceiveKept();
      } else {
        link.Receive();
      }
    };
    link.Send(0, 0);
    link.Send(1, 70);
    link.Send(9, 5'000);  // longer than any
    link.Send(10, 0);
    link.out().Flush();
    receive();
    EXPECT_TRUE(link.in().is_closed());
    EXPECT_EQ(link.received(), 2u);
    link.in().Reopen();
    EXPECT_FALSE(link.in().is_closed());
    EXPECT_EQ(link.in().handled(), 4u);
    link.NextSender();
    EXPECT_EQ(link.out().cells(), 4u);
    link.Send(2, 70);
    link.out().Flush();
    receive();
    EXPECT_EQ(link.received(), 3u);
    link.in().Reopen();  // it was not closed
    link.Send(3, 0);
    link.out().Flush();
    receive();
    EXPECT_EQ(link.received(), 4u);
  }
}

TEST(ThreadLink, SendsBytesWithoutAGapBehindTheirHead) {
  Link link(16);
  std::vector<std::byte> bytes(130);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i);
  link.out().SendBytes(uint64_t{7}, bytes);
  EXPECT_EQ(link.out().cells(), 3u);
  link.out().Flush();
  link.in().Receive();
  const size_t messages = link.in().Handle(
      [](const Cell&) { return 2 * sizeof(Cell); },
      [&](const Cell& cell, std::span<const std::byte> payload) {
        const std::byte* const all = payload.data() - sizeof(Cell);
        EXPECT_EQ(all, cell.bytes.data());
        EXPECT_EQ(std::memcmp(all + 8, bytes.data(), bytes.size()), 0);
      });
  EXPECT_EQ(messages, 1u);
}

TEST(ThreadLink, SaysWhetherThereIsRoomForAllThatStays) {
  Link link(8);
  EXPECT_TRUE(link.out().has_room(7 * 64));
  EXPECT_FALSE(link.out().has_room(7 * 64 + 1));
  link.Send(0, 64);
  EXPECT_TRUE(link.out().has_room(5 * 64));
  EXPECT_FALSE(link.out().has_room(6 * 64));
  link.out().Flush();
  EXPECT_FALSE(link.out().has_room(6 * 64));
  link.Receive();
  EXPECT_TRUE(link.out().has_room(7 * 64));
}

TEST(ThreadLink, BringsAllAtOnceWhereItsEndsAreJoined) {
  Link link(4);
  link.Join();
  EXPECT_FALSE(link.in().has_items());
  for (uint64_t i = 0; i < 100; ++i) link.Send(i, 500);
  EXPECT_TRUE(link.in().has_items());
  EXPECT_TRUE(link.out().has_room(1'000'000));
  EXPECT_TRUE(link.out().Flush());
  link.Receive();
  EXPECT_EQ(link.received(), 100u);
  EXPECT_FALSE(link.in().has_items());
  link.Send(100, 0);
  link.Receive();
  EXPECT_EQ(link.in().received(), link.out().sent());
}

TEST(ThreadLinkRandom, BringsEverythingInOrder) {
  const TestSeeds seeds(100);
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    Link link(uint32_t{1} << rng.Uniform(1, 7));
    if (rng.Chance(16'384)) link.Join();
    uint64_t sent = 0;
    while (sent < 500) {
      switch (rng.Below(3)) {
        case 0:
          link.Send(
              sent++,
              static_cast<uint32_t>(
                  rng.Chance(32'768) ? 0 : rng.Below(Link::kMaxPayload + 1)));
          break;
        case 1:
          link.out().Flush();
          break;
        default:
          link.Receive();
      }
    }
    while (link.received() < sent) {
      link.out().Flush();
      link.Receive();
      if (testing::Test::HasFailure()) return;
    }
  }
}

// The sender sleeps until all that it sent is released.
TEST(ThreadLink, WakesASenderThatWaitsForItsMessagesToBeReleased) {
  constexpr uint64_t kRounds = 2'000;
  Link link(64);
  Doorbell bell;
  std::thread sender([&link, &bell] {
    for (uint64_t i = 0; i < kRounds; ++i) {
      link.Send(i, 100);
      EXPECT_TRUE(link.out().Flush());
      const auto is_released = [&link] {
        return link.out().released() == link.out().cells();
      };
      // Nothing but the bell ends this.
      while (!bell.Wait(is_released, Nanos::max(), 0)) {
      }
    }
  });
  while (link.received() < kRounds) {
    link.ReceiveKept();
    link.in().Release(bell);
    if (!link.in().has_items()) std::this_thread::yield();
  }
  sender.join();
}

TEST(ThreadLink, BringsEverythingFromThreadToThread) {
  constexpr uint64_t kMessages = 50'000;
  Link link(64);
  std::thread sender([&link] {
    Rng rng(1);
    for (uint64_t i = 0; i < kMessages; ++i) {
      link.Send(i, rng.Chance(4'000)
                       ? static_cast<uint32_t>(rng.Below(Link::kMaxPayload))
                       : 0);
      if (i % 8 == 7) {
        while (!link.out().Flush()) std::this_thread::yield();
      }
    }
    while (!link.out().Flush()) std::this_thread::yield();
  });
  while (link.received() < kMessages && !testing::Test::HasFatalFailure()) {
    link.Receive();
    if (!link.in().has_items()) std::this_thread::yield();
  }
  sender.join();
  EXPECT_EQ(link.received(), kMessages);
}

}  // namespace
}  // namespace snf
