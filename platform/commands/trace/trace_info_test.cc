// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <string>

#include "base/packet/test_packets.h"
#include "nlohmann/json.hpp"
#include "platform/commands/trace/trace_info_report.h"
#include "platform/system_test/test_captures.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

CaptureInfo InfoOf(const std::string& path,
                   const CaptureStatistics::Options& options) {
  auto reader = CaptureReader::Open(path);
  EXPECT_TRUE(reader.ok()) << reader.status();
  CaptureStatistics statistics(options);
  CapturedPacket packet;
  while ((*reader)->Next(packet) == ReadResult::kPacket) statistics.Add(packet);
  EXPECT_TRUE((*reader)->status().ok()) << (*reader)->status();
  return {.file = path,
          .stored_bytes = (*reader)->total_bytes(),
          .facts = (*reader)->facts(),
          .warnings = (*reader)->warnings(),
          .options = options,
          .figures = statistics.Finish(),
          .series = statistics.series()};
}

// Of T = 500 and 100 µs with B = 15,000 bytes.
CaptureStatistics::Options TableOptions(FlowKeyKind kind) {
  CaptureStatistics::Options options;
  options.kind = kind;
  options.timeouts = {Microseconds(100), Microseconds(500)};
  options.flowlet_bytes = {15'000};
  return options;
}

TEST(TraceInfo, HasTheFiguresOfTheTableOfRealCaptures) {
  std::vector<TableRow> rows = ReadTable(CapturesDir() + "/MANIFEST.tsv");
  if (rows.empty()) {
    GTEST_SKIP() << "no MANIFEST.tsv in " << CapturesDir()
                 << ": the real captures are not here; name their folder with "
                    "SNF_TRACES";
  }
  uint64_t flowlets_compared = 0;
  for (TableRow& row : rows) {
    SCOPED_TRACE(row["file"]);
    const CaptureInfo info = InfoOf(CapturesDir() + "/" + row["file"],
                                    TableOptions(FlowKeyKind::k5Tuple));
    const CaptureFigures& f = info.figures;
    const auto expect = [&row](const char* column, uint64_t value) {
      if (row[column] == "-") return false;
      EXPECT_EQ(std::to_string(value), row[column]) << column;
      return true;
    };
    expect("packets", f.packets);
    expect("flows_5tuple", f.flows[1]);
    expect("icmp", f.icmp);
    expect("fragments", f.fragments);
    expect("vlan", f.vlan_tagged);
    expect("non_ip", f.packets - f.usable);
    expect("out_of_order", f.out_of_order);
    expect("cut_by_snaplen", f.truncated);
    flowlets_compared += expect("flowlets_5tuple_T100us", f.flowlets[0]);
    flowlets_compared += expect("flowlets_5tuple_T500us", f.flowlets[1]);
    EXPECT_NEAR(static_cast<double>(f.duration().ns) / 1e9,
                std::stod(row["duration_s"]), 1e-5);
    // In the table the ports of a connection's ICMP and fragments are 0.
    if (f.icmp + f.fragments > 0) continue;
    expect("connections", f.flows[0]);
    const CaptureInfo both = InfoOf(CapturesDir() + "/" + row["file"],
                                    TableOptions(FlowKeyKind::kConnection));
    expect("flowlets_connection_T100us", both.figures.flowlets[0]);
    expect("flowlets_connection_T500us", both.figures.flowlets[1]);
  }
  std::cout << rows.size() << " captures, 5-tuple flowlet counts compared: "
            << flowlets_compared << "\n";
  EXPECT_GE(flowlets_compared, 90u);
}

TEST(TraceInfo, SaysOfTheBundledCaptureWhatItsDescriptionSays) {
  const CaptureInfo info =
      InfoOf("traces/small.pcap.zst", TableOptions(FlowKeyKind::k5Tuple));
  EXPECT_EQ(info.figures.packets, 45'153u);
  EXPECT_EQ(info.figures.flows[1], 1'144u);
  EXPECT_EQ(info.figures.flowlets[0], 17'209u);
  EXPECT_EQ(info.figures.flowlets[1], 14'607u);
  const std::string text = TextOf(info, {});
  EXPECT_THAT(text, HasSubstr("pcap in zstd, 783 KB; timestamps to the ns"));
  EXPECT_THAT(text, HasSubstr("32 packets: no IP inside"));
  EXPECT_THAT(text, HasSubstr("15.0 KB"));
  // As capinfos and tshark have it, and the flowlets of above.
  EXPECT_THAT(text, HasSubstr("46.0 MB in 4.90 s: 75.1 Mbit/s, 9,207 packets"));
  EXPECT_THAT(text, HasSubstr("37,119  82.2 %  TCP"));
  EXPECT_THAT(text, HasSubstr("30  <0.1 %  fragments"));
  EXPECT_THAT(text, HasSubstr("100 µs              15.04\n"));
  EXPECT_THAT(text, HasSubstr("500 µs              12.77\n"));
  const auto json = nlohmann::json::parse(JsonOf({{info}}))["captures"][0];
  EXPECT_EQ(json["first_ns"], 1'795'254'974'720'752'675);
  EXPECT_EQ(json["last_ns"], 1'795'254'979'624'680'248);
  EXPECT_NEAR(json["rate"]["mean_bps"].get<double>(), 75'092'598.5, 1);
  EXPECT_EQ(json["packet_bytes"]["p10"], 66);
  EXPECT_EQ(json["packet_bytes"]["p50"], 1'514);
  EXPECT_LT(json["flow_bytes"]["p50"], json["flow_bytes"]["p90"]);
  EXPECT_LT(json["flow_bytes"]["p90"], json["flow_bytes"]["p99"]);
  EXPECT_LT(json["flow_bytes"]["p99"], json["flow_bytes"]["max"]);
}

CaptureInfo MadeInfo(LinkType link, const Frame& frame,
                     uint32_t original_bytes) {
  CaptureInfo info;
  CaptureStatistics statistics(info.options);
  statistics.Add({.time = {},
                  .bytes = frame,
                  .original_bytes = original_bytes,
                  .link = link});
  info.file = "made.pcap";
  info.facts.interfaces.push_back({.link_number = 1, .tick_exponent = 3});
  info.figures = statistics.Finish();
  return info;
}

TEST(TraceInfo, SaysWhatIsNotUsableAndWhy) {
  const CaptureInfo info =
      MadeInfo(LinkType::kEthernet, Ethernet(0x0800, Hex("45 00")), 1'514);
  const std::string text = TextOf(info, {});
  EXPECT_THAT(text, HasSubstr("0  usable"));
  EXPECT_THAT(text, HasSubstr("1 packet: cut inside the IP header"));
  EXPECT_THAT(text, HasSubstr("1 packet: captured in part"));
  EXPECT_THAT(text, HasSubstr("a resolution of a ms"));
  EXPECT_THAT(text, Not(HasSubstr("Flowlets per flow")));
  const auto json = nlohmann::json::parse(JsonOf({{info}}))["captures"][0];
  EXPECT_EQ(json["bytes"], 1'514);
  EXPECT_EQ(json["captured_bytes"], 16);
}

TEST(TraceInfo, RemarksOnTimesThatAreNotInOrder) {
  CaptureInfo info = MadeInfo(LinkType::kRawIp, Ipv4({}, Udp(1, 2)), 36);
  info.facts.interfaces.clear();
  EXPECT_THAT(RemarksOn(info), ElementsAre());
  info.figures.out_of_order = 3;
  EXPECT_THAT(RemarksOn(info),
              ElementsAre(HasSubstr("3 packets: out of order")));
  info.figures.out_of_order = 0;
  info.figures.strays = 2;
  info.figures.first_stray = 17;
  EXPECT_THAT(RemarksOn(info),
              ElementsAre(HasSubstr("2 stray times, first packet 17:")));
}

TEST(TraceInfo, WritesJsonThatSaysTheSame) {
  const std::vector<CaptureInfo> infos = {
      MadeInfo(LinkType::kRawIp, Ipv4({}, Udp(1, 2)), 36)};
  const auto json = nlohmann::json::parse(JsonOf(infos));
  const auto& one = json["captures"][0];
  EXPECT_EQ(one["packets"], 1);
  EXPECT_EQ(one["links"]["raw_ip"], 1);
  EXPECT_EQ(one["flows"]["connection"], 1);
  EXPECT_EQ(one["interfaces"][0]["tick_exponent"], -3);
  EXPECT_EQ(one["rate"]["mean_bps"], nullptr);
  EXPECT_EQ(one["flowlets"].size(), 24u);
  EXPECT_EQ(one["flowlets"][0]["per_flow"], 1.0);
  EXPECT_EQ(one["flowlets"][3]["bytes"], nullptr);
}

}  // namespace
}  // namespace snf
