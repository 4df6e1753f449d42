// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/state_link.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>

namespace snf {
namespace {

std::vector<std::byte> Message(uint8_t number, size_t bytes = 100) {
  return std::vector(bytes, std::byte{number});
}

void Await(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!holds() && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(holds());
}

std::unique_ptr<StateLink> Listen() {
  return *StateLink::Listen("127.0.0.1:0");
}

// Members 0 and 1, of which 0 sends to 1.
class StateLinkTest : public testing::Test {
 protected:
  StateLinkTest() : from_(Listen()), to_(Listen()) {
    table_ = {.epoch = 1,
              .key = 77,
              .members = {{.number = 0, .states = from_->address()},
                          {.number = 1, .states = to_->address()}}};
  }
  void Connect() {
    to_->Follow(table_, 1, std::nullopt);
    from_->Follow(table_, 0, 1);
    Await([this] { return from_->room() > 0; });
  }
  void Receive(size_t messages) {
    Await([&] {
      for (StateLink::Received& one : to_->Take()) {
        came_.push_back(std::move(one));
      }
      return came_.size() >= messages;
    });
    EXPECT_EQ(came_.size(), messages);
  }

  std::unique_ptr<StateLink> from_;
  std::unique_ptr<StateLink> to_;
  GatewayTable table_;
  std::vector<StateLink::Received> came_;
};

TEST_F(StateLinkTest, MessagesComeInOrderWithTheirSenderAndRound) {
  EXPECT_EQ(from_->room(), 0u);
  Connect();
  const uint64_t round = from_->round();
  for (uint8_t i = 0; i < 200; ++i) from_->Send(round, Message(i, 1'000));
  from_->Send(round + 1, Message(0));  // of another round
  Receive(200);
  for (uint8_t i = 0; i < 200; ++i) {
    EXPECT_EQ(came_[i].from, 0u);
    EXPECT_EQ(came_[i].round, round);
    EXPECT_EQ(came_[i].bytes, Message(i, 1'000));
  }
}

TEST_F(StateLinkTest, AConnectionThatIsMadeAgainIsAnotherRound) {
  Connect();
  const uint64_t round = from_->round();
  const std::string address = to_->address();
  to_.reset();
  Await([&] { return from_->round() != round; });
  to_ = *StateLink::Listen(address);
  to_->Follow(table_, 1, std::nullopt);
  Await([&] {
    from_->Send(from_->round(), Message(1));
    return !to_->Take().empty();
  });
  EXPECT_NE(from_->round(), round);
}

TEST_F(StateLinkTest, WhoIsNoMemberIsRefused) {
  table_.key = 78;
  from_->Follow(table_, 0, 1);
  table_.key = 77;
  to_->Follow(table_, 1, std::nullopt);
  Await([&] { return to_->refused() > 0; });
  EXPECT_TRUE(to_->Take().empty());
  from_->Follow(table_, 0, 1);
  Await([&] {
    from_->Send(from_->round(), Message(1));
    return !to_->Take().empty();
  });
}

TEST_F(StateLinkTest, ItSendsToNobodyOnceThereIsNone) {
  Connect();
  from_->Follow(table_, 0, std::nullopt);
  Await([this] { return from_->round() == 0; });
  EXPECT_EQ(from_->room(), 0u);
}

}  // namespace
}  // namespace snf
