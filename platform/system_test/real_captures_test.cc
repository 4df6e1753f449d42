// SPDX-License-Identifier: Apache-2.0
//
// Real captures in real time: what threads release is, flow by flow, what one
// unit makes of it in virtual time. SNF_LONG_TESTS=1 runs each ten times as
// often.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/test_seeds.h"
#include "platform/drivers/real_time/real_driver.h"
#include "platform/drivers/virtual_time/virtual_driver.h"
#include "platform/system_test/test_captures.h"
#include "platform/system_test/test_run.h"
#include "traces/loaded_capture.h"
#include "traces/merged_reader.h"

namespace snf {
namespace {

constexpr uint64_t kMostBytes = 1 << 30;

LoadedCapture Load(const std::string& path) {
  LoadedCapture capture(kMostBytes);
  auto reader = MergedReader::Open({path});
  EXPECT_TRUE(reader.ok()) << reader.status();
  CapturedPacket packet;
  while ((*reader)->Next(packet) == ReadResult::kPacket) {
    EXPECT_TRUE(capture.Add(packet).ok());
  }
  return capture;
}

// The same flows in both kinds of time: they end with the run.
RunOptions Options(uint32_t units) {
  RunOptions options;
  PlaceByDemand(options.controller);
  options.controller.flow_timeout = Nanos::max();
  options.controller.max_units = units;
  options.controller.unit_capacity_bps = 1'000'000'000'000;
  options.controller.unit_queue_packets = 65'536;
  options.controller.start_buffer_packets = 65'536;
  options.hop_delay = Nanos{0};
  options.check = false;
  return options;
}

RunResult InVirtualTime(const LoadedCapture& capture, const NfSpec& nf,
                        RunObserver* sink = nullptr) {
  VirtualDriver driver(Options(1), *FindPlacementPolicy("snf"), nf, {sink});
  for (size_t i = 0; i < capture.size(); ++i) {
    CapturedPacket packet = capture.Packet(i, 0);
    // A packet and its answer at one time: the answer is not to come before the
    // packet was served.
    packet.time = packet.time + Microseconds(static_cast<int64_t>(i));
    driver.Offer(packet);
  }
  return driver.Finish();
}

RunResult InRealTime(const LoadedCapture& capture, const NfSpec& nf,
                     uint32_t units, uint32_t threads, std::string_view policy,
                     bool loggers, RunObserver* sink = nullptr) {
  RunOptions options = Options(units);
  options.loggers = loggers;
  options.controller.unit_queue_packets = 1'024;
  options.controller.start_buffer_packets = 1'024;
  options.check = true;
  const RealOptions real = {
      .speed = {.kind = Speed::Kind::kMax, .value = 0},
      .threads = threads,
      .buffers = {.small = 2'048, .medium = 128, .large = 16},
      .unpaced = true,
      .wait_for_room = true};
  auto driver = RealDriver::Start(options, real, *FindPlacementPolicy(policy),
                                  nf, {sink});
  EXPECT_TRUE(driver.ok()) << driver.status();
  for (size_t i = 0; i < capture.size(); ++i) {
    (*driver)->Offer(capture.Packet(i, 0));
  }
  RunResult result = (*driver)->Finish();
  EXPECT_TRUE(result.conserved());
  EXPECT_EQ(result.violations, 0u) << result.violation_messages.front();
  EXPECT_EQ((*driver)->buffers_in_use(), 0u);
  return result;
}

class RealCaptures : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(CapturesDir() + "/MANIFEST.tsv")) {
      GTEST_SKIP() << "no MANIFEST.tsv in " << CapturesDir()
                   << ": the real captures are not here; name their folder "
                      "with SNF_TRACES";
    }
    const char* const long_tests = std::getenv("SNF_LONG_TESTS");
    if (long_tests != nullptr && *long_tests == '1') runs_ = 50;
  }
  static LoadedCapture Shared(std::string_view name) {
    return Load(fmt::format("{}/{}", CapturesDir(), name));
  }
  // A sanitizer takes ten times as long: each capture then has one of the ways,
  // but none of the largest two.
  uint32_t runs_ = TestSeeds::kSanitized ? 1 : 5;
};

// Each packet at another unit than the one before it: its state has to come.
// Every other run has output loggers, which in the end have what units have.
TEST_F(RealCaptures, AreReleasedFlowByFlowAsOneUnitDoesHoweverTheyMove) {
  const NfSpec nf = TimelessChronicleNf();
  StateFigures sum;
  uint64_t moved = 0, packets = 0, entries = 0;
  uint32_t first = 0;
  for (const char* name :
       {"composite_A_1g_1s_snap96.pcap.gz", "PcapPlusPlus__tls2.pcap",
        "debian-ndpi-4.2-pcap__WebattackXSS.pcap",
        "debian-ndpi-4.2-pcap__netflix.pcap", "mercury__emix.pcap",
        "zeek__echo-connections.pcap.gz", "debian-ndpi-4.2-pcap__skype.pcap",
        "try-bro__http.pcap", "nDPI__gnutella.pcap", "zeek__smb2.pcap"}) {
    SCOPED_TRACE(name);
    const LoadedCapture capture = Shared(name);
    const RunResult one = InVirtualTime(capture, nf);
    // Those that have most packets are run less often.
    const uint32_t runs = capture.size() > 50'000 ? runs_ / 5 : runs_;
    for (uint32_t run = 0; run < runs; ++run) {
      const uint32_t way = first + run;
      const RunResult result =
          InRealTime(capture, nf, 16, 2 + way % 3, "rotate", way % 2 == 0);
      EXPECT_EQ(result.digest, one.digest);
      EXPECT_EQ(result.packets_released, one.packets_released);
      EXPECT_EQ(result.packets_dropped(), one.packets_dropped());
      sum.seamless += result.state.seamless;
      sum.pulled += result.state.pulled;
      sum.messages_lost += result.state.messages_lost;
      moved += result.controller.flowlets_moved;
      packets += result.packets_in;
      entries += result.loggers.entries;
      if (HasFailure()) return;
    }
    if (runs_ == 1) ++first;
  }
  std::cout << fmt::format(
      "{} packets, {} to loggers, {} flowlets moved, {} pulled, {} seamless, "
      "{} messages lost\n",
      packets, entries, moved, sum.pulled, sum.seamless, sum.messages_lost);
  const uint32_t part = TestSeeds::kSanitized ? 20 : 1;
  EXPECT_GE(moved, 300'000u / part);
  EXPECT_GE(sum.pulled, 100'000u / part);
  EXPECT_GE(entries, 150'000u / part);
}

// The sum of the hashes of all that was released, whatever external port each
// flow got: that depends on which unit had which.
class SumOfReleased : public RunObserver {
 public:
  void on_release(const ReleasedPacket& packet) override {
    Frame frame(packet.bytes.begin(), packet.bytes.end());
    const ParsedPacket headers = Parse(packet.link, frame);
    const size_t l3 = headers.l3_offset, l4 = headers.l4_offset;
    if (headers.result == ParseResult::kComplete && headers.l3 == L3::kIpv4 &&
        std::memcmp(&frame[l3 + 12], kExternal.data(), 4) == 0) {
      // Checksums, the port, and whatever an ICMP error quotes.
      Clear(frame, l3 + 10, 2);
      const bool is_icmp = headers.l4_protocol == IpProtocol::kIcmp;
      const bool is_tcp = headers.l4_protocol == IpProtocol::kTcp;
      Clear(frame, l4, is_icmp ? frame.size() : 2);
      Clear(frame, l4 + (is_tcp ? 16 : 6), 2);
    }
    uint64_t hash = 14'695'981'039'346'656'037u;
    for (const std::byte byte : frame) {
      hash = (hash ^ std::to_integer<uint64_t>(byte)) * 1'099'511'628'211u;
    }
    sum_ += hash;
  }
  uint64_t sum() const { return sum_; }

 private:
  static constexpr std::array<uint8_t, 4> kExternal = {100, 127, 255, 254};
  static void Clear(Frame& frame, size_t begin, size_t count) {
    const size_t end = std::min(frame.size(), begin + count);
    for (size_t i = begin; i < end; ++i) frame[i] = std::byte{0};
  }
  uint64_t sum_ = 0;
};

TEST_F(RealCaptures, AreTranslatedAsInVirtualTimeHoweverTheyMove) {
  const NfSpec nf = *NfSpec::Parse("nat:ip=100.127.255.254");
  uint64_t moved = 0;
  // In which no mapping times out, and nothing comes from the outside right
  // behind the end of one: either depends on the clock.
  for (const char* name :
       {"zeek__smb2.pcap", "debian-ndpi-4.2-pcap__WebattackRCE.pcap",
        "zeek__dhcp_flood.pcap", "trex-core__citrix.pcap",
        "trex-core__https.pcap", "trex-core__http_get.pcap",
        "trex-core__smtp.pcap", "trex-core__mail_pop.pcap"}) {
    SCOPED_TRACE(name);
    const LoadedCapture capture = Shared(name);
    SumOfReleased expected;
    const RunResult one = InVirtualTime(capture, nf, &expected);
    for (const auto& [units, loggers] :
         {std::pair(1, false), {16, false}, {16, true}}) {
      SumOfReleased released;
      const RunResult result =
          InRealTime(capture, nf, static_cast<uint32_t>(units), 3,
                     units == 1 ? "snf" : "rotate", loggers, &released);
      EXPECT_EQ(result.dropped, one.dropped);
      EXPECT_EQ(result.nf_dropped, one.nf_dropped);
      EXPECT_EQ(result.aliases.packets_found, one.aliases.packets_found);
      EXPECT_EQ(released.sum(), expected.sum()) << units << " units";
      moved += result.controller.flowlets_moved;
    }
  }
  std::cout << moved << " flowlets moved\n";
  EXPECT_GE(moved, 1'500u);
}

}  // namespace
}  // namespace snf
