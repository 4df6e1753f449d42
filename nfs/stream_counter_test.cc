// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

const std::string kThere = "tcp 203.0.113.9:5000 > 10.0.0.1:80 ";
const std::string kBack = "tcp 10.0.0.1:80 > 203.0.113.9:5000 ";

// Bytes and gap bytes of the client, then of the server.
using Connection = std::array<uint64_t, 5>;
std::vector<uint64_t> CountsOf(const NfTest& nf) {
  const auto slot = nf.slot<Connection>("connection", kThere);
  if (!slot.has_value()) return {};
  return {slot->begin(), slot->begin() + 4};
}

std::vector<std::string> Talk() {
  return {kThere + "SYN seq=99",
          kBack + "SYN ACK seq=499 ack=100",
          kThere + "ACK seq=100 ack=500 \"hello\"",
          kThere + "ACK seq=110 ack=500 \"world\"",
          kThere + "ACK seq=105 ack=500 \"there\"",
          kThere + "ACK seq=105 ack=500 \"there\"",
          kBack + "ACK seq=510 ack=115 len=20",
          kThere + "ACK seq=115 ack=530",  // bytes that are missing here
          kThere + "FIN ACK seq=115 ack=530",
          kBack + "FIN ACK seq=530 ack=116"};
}

TEST(StreamCounter, CountsBytesInOrderAndGapsOfBothDirections) {
  NfTest nf("stream_counter");
  for (const std::string& packet : Talk()) EXPECT_EQ(nf.Send(packet), packet);
  EXPECT_EQ(CountsOf(nf), (std::vector<uint64_t>{15, 0, 20, 10}));
  EXPECT_EQ(nf.count("bytes"), 35u);
  EXPECT_EQ(nf.count("gaps"), 1u);
  EXPECT_EQ(nf.count("gap_bytes"), 10u);
  EXPECT_EQ(nf.count("begun"), 2u);
  EXPECT_EQ(nf.count("ended"), 2u);
  EXPECT_EQ(nf.count("midstream"), 0u);
}

TEST(StreamCounter, TellsTheClientByTheSynOrTheFirstPacket) {
  NfTest by_answer("stream_counter");
  by_answer.Send(kBack + "SYN ACK seq=9 ack=100 \"server\"");
  EXPECT_EQ(CountsOf(by_answer), (std::vector<uint64_t>{0, 0, 6, 0}));
  NfTest by_first("stream_counter");
  by_first.Send(kThere + "ACK seq=9 ack=100 \"client\"");
  by_first.Send(kBack + "ACK seq=100 ack=15 \"server's\"");
  EXPECT_EQ(CountsOf(by_first), (std::vector<uint64_t>{6, 0, 8, 0}));
  EXPECT_EQ(by_first.count("midstream"), 2u);
}

TEST(StreamCounter, GivesUpGapsAtItsBoundAndAtTheEnd) {
  NfTest nf("stream_counter:bound=64B");
  nf.Send(kThere + "SYN seq=99");
  nf.Send(kThere + "ACK seq=200 ack=1 len=50");
  EXPECT_EQ(nf.count("bytes"), 0u);
  nf.Send(kThere + "ACK seq=260 ack=1 len=50");
  EXPECT_EQ(nf.count("over_bound"), 1u);
  EXPECT_EQ(CountsOf(nf), (std::vector<uint64_t>{50, 100, 0, 0}));
  nf.EndFlows();
  EXPECT_EQ(nf.count("bytes"), 100u);
  EXPECT_EQ(nf.count("gap_bytes"), 110u);
}

TEST(StreamCounter, LetsTheFirstOrTheLastCopyWin) {
  for (const std::string overlap : {"first", "last"}) {
    NfTest nf("stream_counter:overlap=" + overlap);
    nf.Send(kThere + "SYN seq=99");
    nf.Send(kThere + "ACK seq=105 ack=1 \"held\"");
    nf.Send(kThere + "ACK seq=105 ack=1 \"HELD\"");
    EXPECT_EQ(nf.count("overlaps_differ"), 1u);
    EXPECT_EQ(nf.SlotBytes("client_held", kThere)->back(),
              overlap == "first" ? std::byte{'d'} : std::byte{'D'});
  }
}

// The card pads a short frame.
TEST(StreamCounter, CountsNoPaddingNorWhatIsNoSegment) {
  NfTest nf("stream_counter");
  const std::string packet = kThere + "ACK seq=100 ack=1 \"a\"";
  TestPacket padded = Packets({packet})[0];
  padded.bytes.resize(100, std::byte{'p'});
  padded.original_length = 100;
  nf.Send(padded);
  EXPECT_EQ(nf.count("bytes"), 1u);
  for (const std::string other :
       {"udp 203.0.113.9:5000 > 10.0.0.1:80 \"data\"",
        "tcp 203.0.113.9:5000 > 10.0.0.1:80 ACK more \"data\""}) {
    EXPECT_EQ(nf.Send(other), other);
  }
  EXPECT_EQ(nf.count("bytes"), 1u);
  EXPECT_EQ(nf.count("not_segments"), 2u);
}

TEST(StreamCounter, RunsEverywhere) {
  std::vector<std::string> packets = Talk();
  // Two more connections between the packets of this one, out of order.
  for (int i = 0; i < 40; ++i) {
    const std::string client = std::to_string(6'000 + i % 2);
    packets.push_back("+10us tcp 203.0.113.9:" + client +
                      " > 10.0.0.1:80 ACK ack=1 len=30 seq=" +
                      std::to_string(1'000 + (i * 7 % 20) * 25));
  }
  EXPECT_TRUE(RunEverywhere("stream_counter:bound=200B", Packets(packets)));
  EXPECT_TRUE(
      RunEverywhere("stream_counter", PacketsOf("traces/small.pcap.zst",
                                                "tcp 192.0.2.16:40477 <> "
                                                "198.51.100.10:5207")));
}

}  // namespace
}  // namespace snf
