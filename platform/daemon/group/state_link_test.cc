// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/state_link.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "platform/service/certificates.h"

namespace snf {
namespace {

std::vector<std::byte> Message(uint8_t number, size_t bytes = 100) {
  return std::vector(bytes, std::byte{number});
}

void Await(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  bool has_held = holds();
  while (!has_held && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
    has_held = holds();
  }
  EXPECT_TRUE(has_held);
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
              .members = {
                  {.number = 0, .incarnation = 10, .states = from_->address()},
                  {.number = 1, .incarnation = 11, .states = to_->address()}}};
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

// A socket that does not listen keeps the port from others.
TEST_F(StateLinkTest, AConnectionThatIsMadeAgainIsAnotherRound) {
  const Descriptor keeps(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_TRUE(SetOption(keeps, SOL_SOCKET, SO_REUSEADDR, 1));
  sockaddr_in any = {};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(
      bind(keeps.number(), reinterpret_cast<const sockaddr*>(&any), sizeof any),
      0);
  const std::string address = HostStream::AddressOf(keeps.number(), false);
  to_ = *StateLink::Listen(address);
  table_.members[1].states = address;
  Connect();
  const uint64_t round = from_->round();
  to_.reset();
  Await([&] { return from_->round() != round; });
  to_ = *StateLink::Listen(address);
  to_->Follow(table_, 1, std::nullopt);
  Await([&] {
    from_->Send(from_->round(), Message(1));
    return !to_->Take().empty();
  });
  EXPECT_GT(from_->round(), round);
}

TEST_F(StateLinkTest, AMemberThatIsOutIsNotHeardUntilItBeginsAgain) {
  Connect();
  const uint64_t round = from_->round();
  from_->Send(round, Message(1));
  Receive(1);
  // The sender does not know yet that it is out.
  GatewayTable without = table_;
  without.members.erase(without.members.begin());
  to_->Follow(without, 1, std::nullopt);
  Await([&] {
    from_->Send(round, Message(2));
    return from_->round() != round;
  });
  EXPECT_EQ(from_->room(), 0u);
  EXPECT_TRUE(to_->Take().empty());
  to_->Follow(table_, 1, std::nullopt);
  Await([&] { return from_->room() > 0; });
  from_->Send(from_->round(), Message(3));
  Receive(2);
  EXPECT_EQ(came_[1].bytes, Message(3));
  EXPECT_GT(came_[1].round, round);
}

TEST_F(StateLinkTest, WhatAMemberSentBeforeItWasOutIsNotTakenLater) {
  Connect();
  from_->Send(from_->round(), Message(1));
  Await([&] { return from_->unsent() == 0; });
  Receive(1);
  for (uint8_t i = 2; i < 6; ++i) from_->Send(from_->round(), Message(i));
  Await([&] { return to_->Take(1).size() == 1; });  // others wait
  GatewayTable without = table_;
  without.members.erase(without.members.begin());
  to_->Follow(without, 1, std::nullopt);
  to_->Follow(table_, 1, std::nullopt);
  EXPECT_TRUE(to_->Take().empty());
}

TEST_F(StateLinkTest, AnotherIncarnationIsNoMember) {
  std::atomic<bool> is_refused = false;
  from_ = *StateLink::Listen(
      "127.0.0.1:0", [&](bool is_loss, const auto&) { is_refused = is_loss; });
  to_->Follow(table_, 1, std::nullopt);
  ++table_.members[0].incarnation;
  from_->Follow(table_, 0, 1);
  Await([&] { return is_refused.load(); });  // after some tries
  EXPECT_EQ(from_->room(), 0u);
  to_->Follow(table_, 1, std::nullopt);
  Await([&] { return from_->room() > 0; });
  from_.reset();  // it tells until then
}

TEST_F(StateLinkTest, WhoIsNotInTheTableSendsNothing) {
  GatewayTable without = table_;
  without.members.erase(without.members.begin());
  Connect();
  from_->Follow(without, 0, 1);
  Await([&] { return from_->round() == 0; });
  from_->Follow(table_, 0, 1);
  Await([&] { return from_->room() > 0; });
}

// Two processes of one incarnation stand for a member whose old connection is
// still read: the later connection counts.
TEST_F(StateLinkTest, ANewConnectionOfAMemberEndsTheOldOne) {
  Connect();
  const uint64_t old = from_->round();
  const std::unique_ptr<StateLink> again = Listen();
  again->Follow(table_, 0, 1);
  Await([&] { return again->room() > 0; });
  // The old one tries again, and then is the newer one.
  from_->Send(old, Message(1));
  again->Send(again->round(), Message(2));
  Await([&] { return from_->round() != old; });
  for (const StateLink::Received& one : to_->Take()) {
    EXPECT_NE(one.round, old);
  }
}

TEST_F(StateLinkTest, StrangersKeepNoMemberOut) {
  to_->Follow(table_, 1, std::nullopt);
  std::vector<Descriptor> strangers;
  for (size_t i = 0; i < 2 * StateLink::kMostStrangers; ++i) {
    strangers.emplace_back(*HostStream::Connect(to_->address(), Seconds(30)));
  }
  from_->Follow(table_, 0, 1);
  Await([&] { return from_->room() > 0; });
  from_->Send(from_->round(), Message(1));
  Receive(1);
  // All of them have a deadline.
  Await([&] { return to_->refused() == strangers.size(); });
}

TEST_F(StateLinkTest, ItTellsOnceThatStatesCannotGoAndThatTheyGo) {
  std::mutex mutex;
  std::vector<std::pair<bool, std::string>> told;
  const auto count = [&] {
    const std::scoped_lock lock(mutex);
    return told.size();
  };
  from_ =
      *StateLink::Listen("127.0.0.1:0", [&](bool is_loss, const auto& text) {
        const std::scoped_lock lock(mutex);
        told.emplace_back(is_loss, text);
      });
  EXPECT_EQ(from_->WhyNotSent(), "no other member takes them now");
  const std::string to = to_->address();
  from_->Follow(table_, 0, 1);  // the other one follows no table
  Await([&] { return count() == 1; });
  EXPECT_EQ(from_->WhyNotSent(), to + ": refused: no member");
  to_->Follow(table_, 1, std::nullopt);
  Await([&] { return count() == 2; });
  EXPECT_EQ(from_->WhyNotSent(), "");
  from_.reset();
  EXPECT_THAT(told, testing::ElementsAre(
                        testing::Pair(true, "flows' states do not go to " + to +
                                                ": refused: no member"),
                        testing::Pair(false, "flows' states go to " + to)));
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

// A directory of certificates, which is removed at the end.
class CertificatesOf {
 public:
  explicit CertificatesOf(const std::string& name,
                          ClientRole role = ClientRole::kAdmin)
      : directory_(testing::TempDir() + "state-link-" +
                   std::to_string(getpid()) + name) {
    EXPECT_TRUE(MakeCertificates(directory_, {.role = role}).ok());
  }
  ~CertificatesOf() { std::filesystem::remove_all(directory_); }
  CertificatesOf(const CertificatesOf&) = delete;
  CertificatesOf& operator=(const CertificatesOf&) = delete;

  const std::string& directory() const { return directory_; }

 private:
  const std::string directory_;
};

// `from_` with the first directory, or none, cannot send to `to_` with the
// second one, or none, for that reason.
struct BadEnds {
  std::string from;
  std::string to;
  std::string why;
};

TEST_F(StateLinkTest, StatesGoEncryptedBetweenEndsOfOneAuthority) {
  const CertificatesOf good("good");
  const CertificatesOf other("other");
  const CertificatesOf look("look", ClientRole::kLook);
  std::mutex mutex;
  std::string told;
  const auto reason = [&] {
    const std::scoped_lock lock(mutex);
    return told;
  };
  const auto tell = [&](bool is_loss, const std::string& text) {
    const std::scoped_lock lock(mutex);
    told = is_loss ? text : "";
  };
  for (const BadEnds& bad : {BadEnds{good.directory(), other.directory(),
                                     "the certificate of the other end: "},
                             BadEnds{look.directory(), look.directory(), ""},
                             BadEnds{good.directory(), "", "TLS: no handshake"},
                             BadEnds{"", good.directory(), ""},
                             BadEnds{"/nowhere", "", "/nowhere/ca.crt"}}) {
    SCOPED_TRACE(bad.from + " to " + bad.to);
    from_ = *StateLink::Listen("127.0.0.1:0", tell, bad.from);
    to_ = *StateLink::Listen("127.0.0.1:0", nullptr, bad.to);
    table_.members[1].states = to_->address();
    told.clear();
    to_->Follow(table_, 1, std::nullopt);
    from_->Follow(table_, 0, 1);
    Await([&] { return !reason().empty(); });
    EXPECT_THAT(reason(), testing::HasSubstr(bad.why));
    EXPECT_TRUE(bad.from == "/nowhere" || to_->refused() > 0);
    EXPECT_EQ(from_->round(), 0u);
  }
  from_ = *StateLink::Listen("127.0.0.1:0", tell, good.directory());
  to_ = *StateLink::Listen("127.0.0.1:0", nullptr, good.directory());
  table_.members[1].states = to_->address();
  Connect();
  from_->Send(from_->round(), Message(7));
  Receive(1);
  EXPECT_EQ(came_[0].bytes, Message(7));
  from_.reset();  // it may tell until then
}

TEST_F(StateLinkTest, ItTellsOnceOfFilesThatKeepAllMembersAway) {
  std::atomic<int> told = 0;
  std::mutex mutex;
  std::string text;
  to_ = *StateLink::Listen(
      "127.0.0.1:0",
      [&](bool is_loss, const std::string& why) {
        const std::scoped_lock lock(mutex);
        EXPECT_TRUE(is_loss);
        text = why;
        ++told;
      },
      "/nowhere");
  table_.members[1].states = to_->address();
  to_->Follow(table_, 1, std::nullopt);
  from_->Follow(table_, 0, 1);
  Await([&] { return to_->refused() >= 3; });
  to_.reset();
  EXPECT_EQ(told, 1);
  EXPECT_THAT(text, testing::HasSubstr("of others are not taken: /nowhere"));
}

TEST_F(StateLinkTest, ItSendsToNobodyOnceThereIsNone) {
  Connect();
  from_->Follow(table_, 0, std::nullopt);
  Await([this] { return from_->round() == 0; });
  EXPECT_EQ(from_->room(), 0u);
}

}  // namespace
}  // namespace snf
