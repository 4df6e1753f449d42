// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/packet/test_packets.h"
#include "nfs/test_ids.h"
#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

// Fragments of a packet of UDP: eight bytes of payload in the first one.
const std::string kFirst = "udp 10.0.0.1:5 > 192.0.2.9:53 ip_id=7 more ";
const std::string kLater = "udp 10.0.0.1 > 192.0.2.9 ip_id=7 ";

const std::string kRules =
    "alert udp any any -> any 53 (content:\"evil\"; sid:1;)\n"
    "alert udp any any -> any 53 (content:\"head\"; depth:4; sid:2;)\n"
    "alert udp any any -> any 53 (dsize:12; content:\"code\"; sid:3;)\n"
    "alert ip any any -> any any (fragbits:M; sid:4;)\n";

// Returns the signatures of the alerts since the last call.
std::string Told(NfTest& nf) {
  std::string ids;
  for (const std::string& line : nf.TakeLog("ids.alerts")) {
    const std::string key = "\"signature_id\":";
    ids += line[line.find(key) + key.size()];
  }
  return ids;
}

TEST(IdsFragments, AreInspectedAsOnePacket) {
  NfTest nf(Ids(kRules));
  nf.Send(kFirst + "\"head--ev\"");
  EXPECT_EQ(Told(nf), "24");
  nf.Send(kLater + "offset=16 \"il--\"");
  EXPECT_EQ(Told(nf), "1");
  EXPECT_EQ(nf.count("fragments"), 2u);
  EXPECT_EQ(nf.count("fragments_joined"), 1u);
  EXPECT_EQ(nf.count("fragments_alone"), 1u);
  nf.Send(kFirst + "\"nothing.\"");
  nf.Send(kLater + "offset=16 \"code\"");
  EXPECT_EQ(Told(nf), "43");
}

// The last fragment may come before others, and other packets between them.
TEST(IdsFragments, AreFoundAmongOthersInAnyOrder) {
  NfTest nf(Ids(kRules));
  nf.Send(kFirst + "\"-------e\"");
  nf.Send("udp 10.0.0.1:5 > 192.0.2.9:53 ip_id=8 more \"........\"");
  nf.Send(kLater + "offset=24 \"l\"");
  nf.Send("udp 10.0.0.1:5 > 192.0.2.9:53 \"whole\"");
  Told(nf);
  nf.Send(kLater + "offset=16 more \"v-------\"");
  EXPECT_EQ(Told(nf), "4");
  nf.Send(kFirst + "\"-------e\"");
  nf.Send(kLater + "offset=16 \"vil\"");
  EXPECT_EQ(Told(nf), "41");
  nf.EndFlows();
  EXPECT_EQ(nf.count("fragments_joined"), 2u);
  EXPECT_EQ(nf.count("fragments_never_whole"), 1u);
}

// A fragment in front of the first one is of another flow.
TEST(IdsFragments, BeforeTheFirstOneAreInspectedAlone) {
  NfTest nf(
      Ids("alert ip any any -> any any (content:\"evil\"; sid:1;)\n"
          "alert udp any any -> any 53 (content:\"head\"; sid:2;)"));
  nf.Send(kLater + "offset=16 \"evil\"");
  EXPECT_EQ(Told(nf), "1");
  nf.Send(kFirst + "\"head....\"");
  EXPECT_EQ(Told(nf), "2");
  nf.EndFlows();
  EXPECT_EQ(nf.count("fragments_never_whole"), 2u);
}

TEST(IdsFragments, ThatOverlapAreToldAndInspectedBothWays) {
  NfTest nf(
      Ids("alert udp any any -> any 53 (content:\"evil\"; sid:1;)\n"
          "alert ip any any -> any any (content:\"EVIL\"; sid:2;)",
          "events=anomaly"));
  nf.Send(kFirst + "\"-------e\"");
  nf.Send(kLater + "offset=16 more \"vil-----\"");
  nf.Send(kLater + "offset=16 more \"EVIL----\"");
  EXPECT_EQ(Told(nf), "2");
  EXPECT_EQ(nf.count("fragment_overlaps"), 1u);
  nf.Send(kLater + "offset=24 \"x\"");
  EXPECT_EQ(Told(nf), "1");
  const std::vector<std::string> events = nf.TakeLog("ids.events");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_NE(events[0].find("\"anomaly\":{\"type\":\"decode\",\"event\":"
                           "\"decoder.ipv4.frag_overlap\"}}"),
            std::string::npos)
      << events[0];
}

TEST(IdsFragments, WithoutRoomAreInspectedPassedOrDropped) {
  const std::string rules =
      "alert ip any any -> any any (content:\"evil\"; sid:1;)";
  const std::string first = kFirst + "len=64";
  const std::string later = kLater + "offset=128 \"evil\"";
  NfTest alert(Ids(rules, "fragments=80"));
  alert.Send(first);
  EXPECT_EQ(alert.Send(later).text.substr(0, 7), "alerted");
  EXPECT_EQ(alert.count("fragments_memcap"), 1u);
  NfTest pass(Ids(rules, "fragments=80,on_memcap=pass"));
  EXPECT_EQ(pass.Send(first), first);
  EXPECT_EQ(pass.count("passed"), 1u);
  NfTest drop(Ids(rules, "fragments=80,on_memcap=drop"));
  EXPECT_EQ(drop.Send(first), "drop memcap");
  // Other packets of the flow are not dropped for it.
  const std::string whole = "udp 10.0.0.1:5 > 192.0.2.9:53 \"x\"";
  EXPECT_EQ(drop.Send(whole), whole);
}

TEST(IdsFragments, ThatCompleteAPacketOfARuleAreDropped) {
  NfTest nf(Ids("drop udp any any -> any 53 (content:\"evil\"; sid:1;)",
                "action=rule"));
  nf.Send(kFirst + "\"-------e\"");
  const std::string last = kLater + "offset=16 \"vil\"";
  EXPECT_EQ(nf.Send(last), "drop rule");
  EXPECT_EQ(nf.Send(last), "drop rule");
  EXPECT_EQ(nf.Send(kLater + "offset=16 \"ver\"").text.substr(0, 3), "udp");
}

// The two halves of a frame of IPv4, as fragments of it.
std::vector<TestPacket> Halves(const std::string& text, uint16_t id) {
  const TestPacket whole = *ParsePacket(text);
  constexpr size_t kData = 14 + 20;
  constexpr size_t kFirstBytes = 24;
  std::vector<TestPacket> halves(2, whole);
  Frame& first = halves[0].bytes;
  Frame& second = halves[1].bytes;
  first.resize(kData + kFirstBytes);
  second.erase(second.begin() + kData, second.begin() + kData + kFirstBytes);
  for (size_t i = 0; i < 2; ++i) {
    Frame& frame = halves[i].bytes;
    frame[17] = std::byte{static_cast<unsigned char>(frame.size() - 14)};
    frame[18] = std::byte{static_cast<unsigned char>(id >> 8)};
    frame[19] = std::byte{static_cast<unsigned char>(id)};
    frame[20] = i == 0 ? std::byte{0x20} : std::byte{0};
    frame[21] = i == 0 ? std::byte{0} : std::byte{kFirstBytes / 8};
    halves[i].original_length = static_cast<uint32_t>(frame.size());
  }
  return halves;
}

// A stream is inspected through segments in fragments.
TEST(IdsFragments, OfSegmentsAreInspectedInTheirStream) {
  NfTest nf(
      Ids("alert tcp any any -> any 80 (content:\"/e\"; http_uri; sid:1;)\n"
          "alert tcp any any -> any any (content:\"GE\"; sid:2;)\n"
          "alert tcp any any -> any any (content:\"HTTP\"; sid:3;)"));
  for (const std::string& text : Connection::Handshake()) nf.Send(text);
  Connection connection;
  uint16_t id = 0;
  for (const char* part : {"GET /", "e HTTP/1.1\r\nA: b\r\n", "C: d\r\n\r\n"}) {
    for (const TestPacket& half : Halves(connection.There(part), ++id)) {
      nf.Send(half);
    }
  }
  EXPECT_EQ(Told(nf), "231");
  EXPECT_EQ(nf.count("fragments_joined"), 3u);
}

TEST(IdsFragments, RunEverywhere) {
  std::vector<TestPacket> packets = Packets(Connection::Handshake());
  Connection connection;
  for (uint16_t id = 0; id < 6; ++id) {
    for (const TestPacket& half : Halves(connection.There("part of evi"), id)) {
      packets.push_back(half);
    }
    for (const TestPacket& packet :
         Packets({connection.There("l"), kFirst + "\"head...e\"",
                  kLater + "offset=24 \"l\"", kLater + "offset=16 \"vi------\"",
                  kLater + "offset=16 more \"vi------\""})) {
      packets.push_back(packet);
    }
  }
  EXPECT_TRUE(RunEverywhere(Ids(kRules + "drop tcp any any -> any any "
                                         "(content:\"evil\"; sid:5;)\n",
                                "action=rule,on_memcap=drop,fragments=300"),
                            packets));
}

}  // namespace
}  // namespace snf
