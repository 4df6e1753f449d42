// SPDX-License-Identifier: Apache-2.0
// Tests how the NAT follows TCP connections, by the lifetime of mappings.
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "nfs/test_nat.h"

namespace snf {
namespace {

constexpr uint8_t kFin = 0x01, kSyn = 0x02, kRst = 0x04, kAck = 0x10;
constexpr Side kIn = Side::kInside, kOut = Side::kOutside;

const TestEnd kInside = {V4(10, 0, 0, 1), 5000};
const TestEnd kPeer = {V4(192, 0, 9, 9), 80};
const TestEnd kOther = {V4(203, 0, 113, 7), 4242};
const TestEnd kExternal = {V4(192, 0, 2, 1), 5000};

// One mapping, and packets with these flags between its inside and a peer.
class Connections {
 public:
  explicit Connections(std::string_view options = "")
      : nat(options), flow(nat.NewFlow()) {}

  std::string Send(Side from, int flags, const TestEnd& peer = kPeer,
                   Nanos at = {}) {
    const auto tcp_flags = static_cast<uint8_t>(flags);
    const Frame frame = from == kIn ? Between(6, kInside, peer, tcp_flags)
                                    : Between(6, peer, kExternal, tcp_flags);
    const TestNat::Sent sent = nat.Send(flow, from, frame, at);
    EXPECT_TRUE(sent.drop != "" || HasGoodChecksums(sent.frame));
    return sent.drop;
  }
  void Open(const TestEnd& peer = kPeer) {
    Send(kIn, kSyn, peer);
    Send(kOut, kSyn | kAck, peer);
    Send(kIn, kAck, peer);
  }
  // The idle timeout that the NF set last.
  Nanos timeout() const { return nat.notes.back().idle_timeout; }

  TestNat nat;
  TestNat::Flow flow;
};

constexpr Nanos kTransitory = Seconds(240), kEstablished = Seconds(7440);

TEST(NatTcp, IsEstablishedWhenBothSidesHaveSpoken) {
  Connections c;
  c.Send(kIn, kSyn);
  EXPECT_EQ(c.timeout(), kTransitory);
  c.Send(kIn, kSyn);
  EXPECT_EQ(c.timeout(), kTransitory);
  c.Send(kOut, kSyn | kAck);
  EXPECT_EQ(c.timeout(), kEstablished);
}

TEST(NatTcp, LetsBothSidesOpenAtOnce) {
  Connections c("filtering=address_and_port_dependent");
  EXPECT_EQ(c.Send(kIn, kSyn), "");
  EXPECT_EQ(c.Send(kOut, kSyn), "");
  EXPECT_EQ(c.Send(kIn, kSyn | kAck), "");
  EXPECT_EQ(c.Send(kOut, kSyn | kAck), "");
  EXPECT_EQ(c.timeout(), kEstablished);
}

TEST(NatTcp, LetsTheOutsideOpenThroughAMapping) {
  Connections c;
  c.Send(kIn, kSyn);
  EXPECT_EQ(c.Send(kOut, kSyn, kOther), "");
  EXPECT_EQ(c.timeout(), kTransitory);
  EXPECT_EQ(c.Send(kIn, kSyn | kAck, kOther), "");
  EXPECT_EQ(c.timeout(), kTransitory);
  EXPECT_EQ(c.Send(kOut, kAck, kOther), "");
  EXPECT_EQ(c.timeout(), kEstablished);
}

TEST(NatTcp, TakesUpAConnectionInItsMidst) {
  Connections c;
  EXPECT_EQ(c.Send(kIn, kAck), "");
  EXPECT_EQ(c.timeout(), kTransitory);
  EXPECT_EQ(c.Send(kOut, kAck), "");
  EXPECT_EQ(c.timeout(), kEstablished);
}

TEST(NatTcp, IsTransitoryWhenBothSidesHaveSentFin) {
  for (const Side first : {kIn, kOut}) {
    Connections c;
    c.Open();
    const Side second = first == kIn ? kOut : kIn;
    c.Send(first, kFin | kAck);
    EXPECT_EQ(c.timeout(), kEstablished);  // half closed
    c.Send(second, kAck);
    c.Send(second, kFin | kAck);
    EXPECT_EQ(c.timeout(), kTransitory);
    c.Send(first, kAck);
    EXPECT_EQ(c.timeout(), kTransitory);
  }
}

TEST(NatTcp, IsTransitoryAfterAResetUntilDataFollows) {
  for (const Side from : {kIn, kOut}) {
    Connections c;
    c.Open();
    EXPECT_EQ(c.Send(from, kRst), "");
    EXPECT_EQ(c.timeout(), kTransitory);
    EXPECT_EQ(c.Send(kOut, kAck), "");
    EXPECT_EQ(c.timeout(), kEstablished);
  }
}

TEST(NatTcp, IsTransitoryWhenTheFirstSynIsReset) {
  Connections c;
  c.Send(kIn, kSyn);
  EXPECT_EQ(c.Send(kOut, kRst | kAck), "");
  EXPECT_EQ(c.timeout(), kTransitory);
  EXPECT_EQ(c.nat.notes.size(), 1u);
}

TEST(NatTcp, BeginsAnewWithASynAfterTheEnd) {
  Connections c;
  c.Open();
  c.Send(kIn, kFin | kAck);
  c.Send(kOut, kFin | kAck);
  c.Send(kIn, kAck);
  c.Send(kIn, kSyn);
  EXPECT_EQ(c.timeout(), kTransitory);
  c.Send(kOut, kSyn | kAck);
  EXPECT_EQ(c.timeout(), kEstablished);
}

TEST(NatTcp, AResetFromInsideMakesNoMappingAndKeepsNone) {
  Connections c("filtering=address_dependent");
  EXPECT_EQ(c.Send(kIn, kRst), "no_mapping");
  EXPECT_TRUE(c.nat.aliases.empty());
  c.Send(kIn, kSyn);
  EXPECT_EQ(c.Send(kIn, kRst | kAck, kOther, Seconds(100)), "");
  EXPECT_EQ(c.Send(kOut, kSyn, kOther, Seconds(101)), "filtered");
  EXPECT_EQ(c.Send(kIn, kRst | kAck, kPeer, Seconds(200)), "");
  EXPECT_EQ(c.Send(kOut, kSyn | kAck, kPeer, Seconds(241)), "mapping_expired");
}

TEST(NatTcp, AStrangerChangesNothing) {
  Connections c;
  c.Open();
  const size_t notes = c.nat.notes.size();
  const std::vector<std::byte> before = c.flow.record;
  for (const int flags : {int{kSyn}, int{kRst}, kFin | kAck, int{kAck}}) {
    EXPECT_EQ(c.Send(kOut, flags, kOther), "");
  }
  EXPECT_EQ(c.nat.notes.size(), notes);
  EXPECT_EQ(c.flow.record, before);
}

TEST(NatTcp, LivesAsLongAsItsLongestLivedConnection) {
  Connections c;
  c.Open(kPeer);
  c.Open(kOther);
  c.Send(kIn, kRst, kOther);
  EXPECT_EQ(c.timeout(), kEstablished);
  EXPECT_EQ(c.nat.notes.size(), 2u);
  c.Send(kOut, kRst, kPeer);
  EXPECT_EQ(c.timeout(), kTransitory);
}

TEST(NatTcp, DoesNotLiveForAConnectionThatIsLongSilent) {
  Connections c;
  c.Open(kPeer);
  for (int64_t at = 7000; at <= 7500; at += 500) {
    c.Send(kIn, kAck, kOther, Seconds(at));
    c.Send(kOut, kAck, kOther, Seconds(at));
    c.Send(kIn, kRst, kOther, Seconds(at));
    EXPECT_EQ(c.timeout(), at < 7440 ? kEstablished : kTransitory);
  }
}

TEST(NatTcp, LivesForALongSilentConnectionThatGoesOn) {
  Connections c;
  c.Open(kPeer);
  for (const int64_t at : {7000, 7500}) {
    c.Send(kIn, kAck, kOther, Seconds(at));
    c.Send(kOut, kAck, kOther, Seconds(at));
    c.Send(kIn, kRst, kOther, Seconds(at));
  }
  EXPECT_EQ(c.timeout(), kTransitory);
  c.Send(kIn, kAck, kPeer, Seconds(7501));
  EXPECT_EQ(c.timeout(), kEstablished);
}

TEST(NatTcp, KeepsAnEstablishedConnectionThatItNoLongerRemembers) {
  Connections c("peers=2");
  c.Open({V4(192, 0, 9, 1), 1});
  c.Open({V4(192, 0, 9, 2), 2});
  c.Open({V4(192, 0, 9, 3), 3});
  for (uint8_t i = 1; i <= 3; ++i) c.Send(kIn, kRst, {V4(192, 0, 9, i), i});
  EXPECT_EQ(c.timeout(), kEstablished);
  EXPECT_EQ(c.nat.notes.size(), 2u);
}

TEST(NatTcp, ForgetsConnectionsThatAreNotEstablishedFirst) {
  Connections c("peers=2");
  c.Open();
  for (uint16_t port = 1; port < 50; ++port) {
    c.Send(kIn, kSyn, {V4(203, 0, 113, 1), port}, Seconds(port));
  }
  // If the peer were forgotten, this reset would have no effect.
  c.Send(kOut, kRst);
  EXPECT_EQ(c.timeout(), kTransitory);
}

TEST(NatTcp, AdmitsPacketsOfAnEstablishedConnectionForTwoHoursFourMinutes) {
  for (const bool is_late : {false, true}) {
    Connections c;
    c.Open();
    EXPECT_EQ(
        c.Send(kOut, kAck, kPeer, Nanos{kEstablished.ns + (is_late ? 1 : 0)}),
        is_late ? "mapping_expired" : "");
  }
}

TEST(NatTcp, AdmitsPacketsOfATransitoryConnectionForFourMinutes) {
  for (const bool is_late : {false, true}) {
    Connections c;
    c.Open();
    c.Send(kIn, kRst);
    EXPECT_EQ(
        c.Send(kOut, kRst, kPeer, Nanos{kTransitory.ns + (is_late ? 1 : 0)}),
        is_late ? "mapping_expired" : "");
  }
}

TEST(NatTcp, SaysNothingToAnUnsolicitedSyn) {
  Connections c("filtering=address_and_port_dependent");
  EXPECT_EQ(c.Send(kOut, kSyn), "no_mapping");
  c.Send(kIn, kSyn);
  EXPECT_EQ(c.Send(kOut, kSyn, kOther, Seconds(10)), "filtered");
  EXPECT_TRUE(c.nat.emitted.empty());
}

TEST(NatTcp, TakesTheTimeoutsFromItsOptions) {
  Connections c("tcp_timeout=5s,tcp_transitory_timeout=2s");
  c.Send(kIn, kSyn);
  EXPECT_EQ(c.timeout(), Seconds(2));
  c.Send(kOut, kSyn | kAck);
  EXPECT_EQ(c.timeout(), Seconds(5));
}

}  // namespace
}  // namespace snf
