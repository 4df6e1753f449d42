// SPDX-License-Identifier: Apache-2.0
#include "traces/synthesis/synthesizer.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/packet/classifier.h"
#include "base/packet/headers.h"
#include "base/packet/test_packets.h"
#include "traces/fixture_capture.h"
#include "traces/synthesis/drawn_model.h"
#include "traces/synthesis/readdress.h"

namespace snf {
namespace {

constexpr FlowKind kTcp4 = {
    .protocol = IpProtocol::kTcp, .l3 = L3::kIpv4, .server_port = 443};
constexpr FlowKind kUdp6 = {
    .protocol = IpProtocol::kUdp, .l3 = L3::kIpv6, .server_port = 53};

std::string TextOfBytes(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Distribution Of(const std::string& text, Distribution::Unit unit) {
  return *Distribution::Parse(text, unit);
}

FlowDistributions SomeDistributions() {
  using Unit = Distribution::Unit;
  return {.flow_bytes = Of("lognormal(6KB, 1)", Unit::kBytes),
          .packet_bytes = Of("40% 66B + 60% 1434B", Unit::kBytes),
          .gap = Of("exp(20us)", Unit::kTime),
          .burst_packets = Of("4", Unit::kCount),
          .pause = Of("2ms", Unit::kTime),
          .tcp_share = 0.75,
          .server_share = 0.5};
}

struct Made {
  std::vector<KeptPacket> packets;
  OverlayTally tally;
  uint64_t with_string = 0;
};

Made Make(const FlowModel& model, const Synthesizer::Options& options) {
  Synthesizer synthesizer(model, options);
  Made made;
  CapturedPacket packet;
  while (synthesizer.Next(packet)) {
    made.packets.push_back({packet.time.ns, TextOfBytes(packet.bytes),
                            packet.original_bytes, packet.link});
  }
  made.tally = synthesizer.tally();
  made.with_string = synthesizer.with_string();
  return made;
}

TEST(PacketMaker, MakesWholePacketsOfEverySizeWithRightChecksums) {
  PacketMaker maker({});
  for (const IpProtocol protocol : {IpProtocol::kTcp, IpProtocol::kUdp}) {
    for (const L3 l3 : {L3::kIpv4, L3::kIpv6}) {
      const FlowKind kind = {.protocol = protocol, .l3 = l3};
      PacketMaker::Flow flow = maker.Begin(77, kind);
      for (uint32_t bytes = kind.LeastBytes(); bytes <= FlowModel::kMostBytes;
           bytes += bytes < 200 ? 1 : 997) {
        const auto place = static_cast<PacketMaker::Place>(bytes % 4);
        const auto frame = maker.Make(flow, place, bytes % 2 == 0, bytes);
        ASSERT_EQ(frame.size(), bytes);
        const ParsedPacket headers = Parse(LinkType::kEthernet, frame);
        ASSERT_EQ(headers.result, ParseResult::kComplete);
        ASSERT_EQ(headers.l3, l3);
        ASSERT_EQ(headers.l4_protocol, protocol);
        ASSERT_EQ(headers.end_offset, bytes);
        std::vector<std::byte> filled(frame.begin(), frame.end());
        FillChecksums(filled, headers);
        ASSERT_TRUE(std::ranges::equal(filled, frame)) << bytes;
        const FreshEnds ends = FreshEndsOf(77, l3);
        const FlowKey key = FiveTuple(frame, headers, /*with_vlan=*/false);
        EXPECT_EQ(key.source, bytes % 2 == 0 ? ends.server : ends.client);
      }
    }
  }
}

TEST(PacketMaker, CountsTcpSequenceNumbersAsTcpDoes) {
  using Tcp = TcpHeader<const std::byte>;
  PacketMaker maker({});
  PacketMaker::Flow flow = maker.Begin(1, kTcp4);
  const auto [client, server] = flow.sequence;
  struct Step {
    PacketMaker::Place place;
    bool from_server;
    uint32_t payload_bytes;
    uint8_t flags;
    uint32_t sequence;
    uint32_t acknowledged;
  };
  using Place = PacketMaker::Place;
  const std::vector<Step> steps = {
      {Place::kBegin, false, 0, Tcp::kSyn, client, 0},
      {Place::kAnswer, true, 0, Tcp::kSyn | Tcp::kAck, server, client + 1},
      {Place::kMiddle, false, 100, Tcp::kPsh | Tcp::kAck, client + 1,
       server + 1},
      {Place::kMiddle, true, 0, Tcp::kAck, server + 1, client + 101},
      {Place::kEnd, true, 0, Tcp::kFin | Tcp::kAck, server + 1, client + 101},
      {Place::kMiddle, false, 0, Tcp::kAck, client + 101, server + 2}};
  for (const Step& step : steps) {
    const auto frame =
        maker.Make(flow, step.place, step.from_server, 54 + step.payload_bytes);
    const auto tcp = Tcp::At(frame, 34);
    EXPECT_EQ(tcp.flags(), step.flags);
    EXPECT_EQ(tcp.sequence(), step.sequence);
    EXPECT_EQ(tcp.acknowledgement(), step.acknowledged);
  }
}

TEST(Synthesizer, MakesFlowsInTheRhythmOfTheModel) {
  FlowModel model;
  model.Add(kTcp4, std::vector<ModelPacket>{{{}, 74, false},
                                            {Microseconds(100), 74, true},
                                            {Microseconds(50), 900, false}});
  model.Add(kUdp6, std::vector<ModelPacket>{{{}, 80, false},
                                            {Milliseconds(3), 500, true}});
  const Made made =
      Make(model, {.rate_bps = 20'000'000, .duration = Milliseconds(100)});
  FlowClassifier classifier({});
  std::map<FlowKey, std::vector<std::pair<int64_t, uint32_t>>> flows;
  for (const KeptPacket& packet : made.packets) {
    ParsedPacket headers;
    FlowKey key;
    const auto bytes = std::as_bytes(std::span(packet.bytes));
    ASSERT_NE(
        classifier.Classify({packet.ns}, packet.link, bytes, headers, key),
        Direction::kNone);
    flows[key].emplace_back(packet.ns, packet.original_bytes);
  }
  EXPECT_EQ(flows.size(), made.tally.flows());
  size_t whole = 0;
  for (const auto& [key, packets] : flows) {
    if (key.protocol == IpProtocol::kTcp && packets.size() == 3) {
      EXPECT_EQ(packets[1].first - packets[0].first, 100'000);
      EXPECT_EQ(packets[2].first - packets[1].first, 50'000);
      EXPECT_EQ(packets[2].second, 900u);
      ++whole;
    }
  }
  EXPECT_GT(whole, 50u);
}

TEST(Synthesizer, IsTheSameForTheSameSeedOnly) {
  const FlowModel model = DrawnModel(SomeDistributions(), 100, Rng(1));
  const auto packets = [&model](uint64_t seed) {
    return Make(model, {.rate_bps = 50'000'000,
                        .duration = Milliseconds(50),
                        .seed = seed})
        .packets;
  };
  EXPECT_EQ(packets(1), packets(1));
  EXPECT_NE(packets(1), packets(2));
}

TEST(Synthesizer, PutsStringsIntoTheShareOfPayloadsThatIsAskedFor) {
  FlowModel model;
  model.Add(kTcp4, std::vector<ModelPacket>(100, {Microseconds(10), 500}));
  const std::string string("GET \0/etc", 9);
  const Made made = Make(
      model, {.rate_bps = 200'000'000,
              .duration = Milliseconds(100),
              .packets = {.strings = {string}, .string_density = 100'000}});
  uint64_t found = 0;
  for (const KeptPacket& packet : made.packets) {
    found += packet.bytes.find(string) == std::string::npos ? 0 : 1;
  }
  EXPECT_EQ(found, made.with_string);
  const double share =
      static_cast<double>(found) / static_cast<double>(made.packets.size());
  EXPECT_NEAR(share, 0.1, 0.02);
}

TEST(Synthesizer, RepeatsAModelThatIsShorterWithOtherFlows) {
  FlowModel model(Milliseconds(10));
  model.Add(kTcp4, std::vector<ModelPacket>(5, {Milliseconds(2), 500}));
  const Made made =
      Make(model, {.rate_bps = 40'000'000, .duration = Milliseconds(35)});
  // Four windows of 8.75 ms: flows keep their gaps, and end with a window.
  Instant last = kWindowStart;
  std::set<FlowKey> keys;
  for (const KeptPacket& packet : made.packets) {
    EXPECT_GE(packet.ns, last.ns);
    last = {packet.ns};
    const auto bytes = std::as_bytes(std::span(packet.bytes));
    FlowKey key;
    ConnectionKey(bytes, Parse(packet.link, bytes), /*with_vlan=*/false, key);
    key.source_port = key.destination_port = be16(0);
    keys.insert(key);
  }
  EXPECT_EQ(keys.size(), made.tally.flows());
  EXPECT_LT(last, kWindowStart + Milliseconds(35));
  EXPECT_GE(last, kWindowStart + Milliseconds(34));
  EXPECT_LE(made.tally.flow_packets().max(), 5);
  EXPECT_NEAR(static_cast<double>(made.tally.bytes()), 175'000, 5'000);
}

TEST(Synthesizer, AddsBurstsToTheFlowsThatItIsToldTo) {
  FlowModel model;
  model.Add(kTcp4, std::vector<ModelPacket>(10, {Microseconds(700), 100}));
  const Made made = Make(model, {.rate_bps = 100'000'000,
                                 .duration = Milliseconds(100),
                                 .bursts = {.every = 10}});
  uint64_t of_bursts = 0;
  for (const KeptPacket& packet : made.packets) {
    of_bursts += packet.original_bytes == 1'400 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(of_bursts),
              static_cast<double>(made.tally.flows() / 10 * 20), 20);
}

TEST(FlowModel, TakesFlowsFromACapture) {
  HandmadeCapture file;
  file.PcapHeader();
  const auto add = [&file](uint32_t microseconds, const Frame& frame) {
    file.PcapRecord(1, microseconds, TextOfBytes(frame),
                    static_cast<uint32_t>(frame.size()));
  };
  const auto ipv4 = [](uint8_t from, uint8_t to, uint8_t protocol,
                       const Frame& l4) {
    return Ethernet(0x0800, Ipv4({.source = V4(10, 0, 0, from),
                                  .destination = V4(10, 0, 0, to),
                                  .protocol = protocol},
                                 l4));
  };
  add(0, ipv4(1, 2, 6, Tcp(5'000, 8'080)));
  add(30, ipv4(2, 1, 6, Tcp(8'080, 5'000, 0, 40)));
  add(90, ipv4(3, 4, 17, Udp(9'000, 53)));
  add(300, ipv4(5, 6, 1, Icmp(8, 0, 1, Hex("01 02"))));
  const TestFolder folder;
  SourceCaptures capture(96);
  ASSERT_TRUE(capture.Add(folder.Write("a", file.bytes())).ok());
  const FlowModel model = ModelOf(capture);
  EXPECT_EQ(model.period(), Nanos{300'000 + 300'000 / 4 + 1});
  ASSERT_EQ(model.conversations().size(), 3u);
  EXPECT_EQ(model.KindOf(0), (FlowKind{IpProtocol::kTcp, L3::kIpv4, 8'080}));
  EXPECT_EQ(model.KindOf(1), (FlowKind{IpProtocol::kUdp, L3::kIpv4, 53}));
  EXPECT_EQ(model.KindOf(2).protocol, IpProtocol::kUdp);
  EXPECT_FALSE(model.FromServer(0, 0));
  EXPECT_TRUE(model.FromServer(0, 1));
  EXPECT_EQ(model.conversations().OffsetsOf(0)[1], 30'000);
  EXPECT_EQ(model.conversations().WireBytes(0, 1), 94u);
}

TEST(FlowModel, IsResampledInBlocksOfFlowsOfTheSameClass) {
  // Two classes that share no gap and no size.
  FlowModel model;
  for (int i = 0; i < 20; ++i) {
    model.Add(kTcp4,
              std::vector<ModelPacket>(40, {Microseconds(10), 1'000u + i % 2}));
    model.Add(kTcp4,
              std::vector<ModelPacket>(3, {Milliseconds(10), 200u + i % 2}));
  }
  const FlowModel resampled = Resampled(model, Rng(1));
  ASSERT_EQ(resampled.conversations().size(), model.conversations().size());
  size_t mixed = 0;
  for (size_t flow = 0; flow < 40; ++flow) {
    const size_t count = model.conversations().CountOf(flow);
    ASSERT_EQ(resampled.conversations().CountOf(flow), count);
    EXPECT_EQ(resampled.KindOf(flow), model.KindOf(flow));
    std::set<uint32_t> sizes;
    for (size_t i = 0; i < count; ++i) {
      const ModelPacket packet = resampled.PacketOf(flow, i);
      sizes.insert(packet.wire_bytes);
      EXPECT_EQ(packet.wire_bytes / 2, flow % 2 == 0 ? 500u : 100u);
      if (i == 0) continue;
      EXPECT_EQ(packet.gap,
                flow % 2 == 0 ? Microseconds(10) : Milliseconds(10));
    }
    mixed += sizes.size() > 1 ? 1 : 0;
  }
  EXPECT_GT(mixed, 5u);
}

TEST(FlowModel, EndsAFlowThatWouldNotFitIntoThePeriod) {
  FlowModel model(Milliseconds(10));
  model.Add(kTcp4, std::vector<ModelPacket>(9, {Milliseconds(3), 10}));
  EXPECT_EQ(model.conversations().CountOf(0), 4u);
  EXPECT_EQ(model.conversations().WireBytes(0, 0), kTcp4.LeastBytes());
}

TEST(DrawnModel, HasTheFlowsThatTheDistributionsSay) {
  const FlowModel model = DrawnModel(SomeDistributions(), 5'000, Rng(1));
  const Conversations& conversations = model.conversations();
  ASSERT_EQ(conversations.size(), 5'000u);
  size_t tcp = 0;
  size_t above = 0;
  for (size_t flow = 0; flow < conversations.size(); ++flow) {
    tcp += model.KindOf(flow).protocol == IpProtocol::kTcp ? 1 : 0;
    // The last packet reaches the flow's size: half of one too much.
    above += conversations.BytesOf(flow) > 6'000 + 500 ? 1 : 0;
    for (size_t i = 1; i < conversations.CountOf(flow); ++i) {
      const bool is_pause = model.PacketOf(flow, i).gap == Milliseconds(2);
      EXPECT_EQ(is_pause, i % 4 == 0);
    }
  }
  EXPECT_NEAR(static_cast<double>(tcp), 3'750, 120);
  EXPECT_NEAR(static_cast<double>(above), 2'500, 200);
}

TEST(DrawnModel, IsStretchedToTheConcurrencyThatIsAskedFor) {
  const FlowModel model = DrawnModel(SomeDistributions(), 3'000, Rng(1));
  const FlowModel stretched = WithConcurrency(model, 100'000'000, 700);
  EXPECT_NEAR(ConcurrencyOf(stretched, 100'000'000), 700, 1);
  // And so many are seen, but for those that come and go with one packet.
  const Made made =
      Make(stretched, {.rate_bps = 100'000'000, .duration = Milliseconds(300)});
  EXPECT_NEAR(static_cast<double>(made.tally.under_way()), 700, 120);
}

}  // namespace
}  // namespace snf
