// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/group_link.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace snf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The address of the link's socket.
sockaddr_in EndOf(const GroupLink& link) {
  sockaddr_in end = {};
  socklen_t bytes = sizeof end;
  EXPECT_EQ(
      getsockname(link.descriptor(), reinterpret_cast<sockaddr*>(&end), &bytes),
      0);
  return end;
}

// At a free port.
std::unique_ptr<GroupLink> OpenAt(const std::string& host) {
  auto link = GroupLink::Open(host + ":0");
  EXPECT_TRUE(link.ok()) << link.status();
  return *std::move(link);
}

std::string AddressOf(const std::string& host, const GroupLink& link) {
  return fmt::format("{}:{}", host, ntohs(EndOf(link).sin_port));
}

std::vector<std::byte> Bytes(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = std::byte(i * 7);
  return bytes;
}

// The links of members 0 and 1.
class GroupLinkTest : public testing::Test {
 protected:
  GroupLinkTest() {
    one_ = OpenAt("127.0.0.1");
    two_ = OpenAt("127.0.0.2");
    table_ = {
        .epoch = 3,
        .key = 77,
        .members = {{.number = 0, .address = AddressOf("127.0.0.1", *one_)},
                    {.number = 1, .address = AddressOf("127.0.0.2", *two_)}}};
    one_->Follow(table_);
    two_->Follow(table_);
  }

  struct Came {
    Side side;
    uint8_t port;
    std::vector<std::byte> bytes;
    bool operator==(const Came&) const = default;
  };
  // Waits for a datagram, and returns all frames.
  std::vector<Came> Receive(GroupLink& link) {
    std::vector<Came> came;
    pollfd wanted = {.fd = link.descriptor(), .events = POLLIN, .revents = 0};
    poll(&wanted, 1, 10'000);
    while (link.Receive(counts_, [&came](const GroupLink::Frame& frame) {
      came.push_back(
          {frame.side, frame.port, {frame.bytes.begin(), frame.bytes.end()}});
    })) {
    }
    return came;
  }
  bool Send(GroupLink& link, uint32_t from, size_t size) {
    const auto bytes = Bytes(size);
    const bool is_sent =
        link.Send(from, 1, {.side = Side::kOutside, .port = 2, .bytes = bytes});
    link.Flush(counts_);
    return is_sent;
  }

  std::unique_ptr<GroupLink> one_, two_;
  GatewayTable table_;
  GroupCounts counts_;
};

TEST_F(GroupLinkTest, CarriesFramesWithTheirPorts) {
  for (const size_t size : {size_t{14}, size_t{1'514}, size_t{65'400}}) {
    EXPECT_TRUE(Send(*one_, 0, size));
    EXPECT_THAT(Receive(*two_),
                ElementsAre(Came{Side::kOutside, 2, Bytes(size)}));
  }
  EXPECT_FALSE(Send(*one_, 0, 65'500));  // longer than a datagram
  EXPECT_EQ(counts_.of(GroupCount::kStranger), 0u);
  EXPECT_EQ(counts_.of(GroupCount::kLinkDropped), 0u);
}

TEST_F(GroupLinkTest, SeesWhatWaits) {
  EXPECT_FALSE(two_->has_frames());
  EXPECT_TRUE(Send(*one_, 0, 100));
  pollfd wanted = {.fd = two_->descriptor(), .events = POLLIN, .revents = 0};
  poll(&wanted, 1, 10'000);
  EXPECT_TRUE(two_->has_frames());
  EXPECT_EQ(Receive(*two_).size(), 1u);
  EXPECT_FALSE(two_->has_frames());
}

TEST_F(GroupLinkTest, CountsWhatTheBufferHadNoRoomFor) {
  constexpr size_t kSent = 1'200, kLong = 60'000, kLast = 14;
  for (size_t i = 0; i < kSent; ++i) ASSERT_TRUE(Send(*one_, 0, kLong));
  size_t came = Receive(*two_).size();
  ASSERT_TRUE(Send(*one_, 0, kLast));  // the kernel tells it with this one
  for (bool is_last = false; !is_last;) {
    const auto frames = Receive(*two_);
    ASSERT_FALSE(frames.empty());
    came += frames.size();
    is_last = frames.back().bytes.size() == kLast;
  }
  EXPECT_GT(counts_.of(GroupCount::kLinkOverflow), 0u);
  EXPECT_EQ(came + counts_.of(GroupCount::kLinkOverflow) +
                counts_.of(GroupCount::kLinkDropped),
            kSent + 1);
}

TEST_F(GroupLinkTest, RefusesStrangersByName) {
  auto three = OpenAt("127.0.0.3");
  three->Follow(table_);
  EXPECT_TRUE(Send(*three, 0, 100));  // from another address than 0's
  EXPECT_THAT(Receive(*two_), ElementsAre());
  EXPECT_EQ(counts_.of(GroupCount::kStranger), 1u);
  EXPECT_TRUE(Send(*three, 2, 100));  // 2 is no member
  EXPECT_THAT(Receive(*two_), ElementsAre());
  EXPECT_EQ(counts_.of(GroupCount::kStranger), 2u);
  table_.key = 78;
  one_->Follow(table_);
  EXPECT_TRUE(Send(*one_, 0, 100));  // another key
  EXPECT_THAT(Receive(*two_), ElementsAre());
  EXPECT_EQ(counts_.of(GroupCount::kStranger), 3u);
  table_.members.pop_back();
  one_->Follow(table_);
  EXPECT_FALSE(Send(*one_, 0, 100));  // 1 is no member any more
}

TEST_F(GroupLinkTest, TellsWhoGreetsAndIsNoMember) {
  one_->Greet(0, counts_);
  one_->Flush(counts_);
  EXPECT_THAT(Receive(*two_), ElementsAre());
  two_->Flush(counts_);
  table_.epoch = 9;
  table_.members.erase(table_.members.begin());
  two_->Follow(table_);
  two_->Greet(1, counts_);  // alone
  one_->Greet(0, counts_);
  one_->Flush(counts_);
  EXPECT_THAT(Receive(*two_), ElementsAre());
  EXPECT_EQ(one_->out(), 0u);
  two_->Flush(counts_);
  EXPECT_THAT(Receive(*one_), ElementsAre());
  EXPECT_EQ(one_->out(), 9u);
  EXPECT_EQ(counts_.of(GroupCount::kStranger), 0u);
}

TEST_F(GroupLinkTest, CountsNoGreetingAsAStrangersBeforeThereIsATable) {
  auto early = OpenAt("127.0.0.4");
  table_.members.push_back(
      {.number = 2, .address = AddressOf("127.0.0.4", *early)});
  one_->Follow(table_);
  one_->Greet(0, counts_);
  one_->Flush(counts_);
  EXPECT_THAT(Receive(*early), ElementsAre());
  EXPECT_EQ(counts_.of(GroupCount::kStranger), 0u);
  GatewayTable other = table_;
  other.key = 78;
  early->Follow(other);
  one_->Greet(0, counts_);
  one_->Flush(counts_);
  EXPECT_THAT(Receive(*early), ElementsAre());
  EXPECT_EQ(counts_.of(GroupCount::kStranger), 1u);
}

TEST_F(GroupLinkTest, RefusesBytesThatCannotBe) {
  const int raw = socket(AF_INET, SOCK_DGRAM, 0);
  const sockaddr_in to = EndOf(*two_);
  // A right datagram, cut at every byte, of who is no member.
  EXPECT_TRUE(Send(*one_, 0, 20));
  std::vector<std::byte> whole(1'000);
  whole.resize(static_cast<size_t>(
      recv(two_->descriptor(), whole.data(), whole.size(), 0)));
  uint64_t sent = 0;
  for (size_t size = 0; size <= whole.size(); ++size) {
    sendto(raw, whole.data(), size, 0, reinterpret_cast<const sockaddr*>(&to),
           sizeof to);
    ++sent;
    EXPECT_THAT(Receive(*two_), ElementsAre()) << size;
  }
  close(raw);
  EXPECT_EQ(counts_.of(GroupCount::kMalformed), 8u + 24u);
  EXPECT_EQ(
      counts_.of(GroupCount::kMalformed) + counts_.of(GroupCount::kStranger),
      sent);
}

TEST(GroupLinkAddress, IsAnAddressThatOthersCanSendTo) {
  for (const char* right : {"10.0.0.1:6083", "[2001:db8::1]:6083"}) {
    EXPECT_TRUE(GroupLink::Check(right).ok()) << right;
  }
  for (const char* wrong : {"", "10.0.0.1", "10.0.0.1:", ":6083", "a:6083",
                            "10.0.0.1:a", "0.0.0.0:6083", "[::]:6083"}) {
    EXPECT_THAT(std::string(GroupLink::Check(wrong).message()),
                HasSubstr("is no ADDRESS:PORT that others can send to"))
        << wrong;
  }
  const auto opened = GroupLink::Open("192.0.2.77:6083");
  EXPECT_THAT(std::string(opened.status().message()),
              HasSubstr("UDP at 192.0.2.77:6083: "));
}

}  // namespace
}  // namespace snf
