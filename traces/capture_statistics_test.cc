// SPDX-License-Identifier: Apache-2.0
#include "traces/capture_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/packet/test_packets.h"

namespace snf {
namespace {

using ::testing::ElementsAre;

constexpr Instant kStart = {1'000'000'000'000};

Frame ToServer() { return Ethernet(0x0800, Ipv4({}, Udp(5000, 53))); }
Frame FromServer() {
  return Ethernet(
      0x0800, Ipv4({.source = V4(192, 0, 2, 9), .destination = V4(10, 0, 0, 1)},
                   Udp(53, 5000)));
}

// A capture's packets, as they are added.
class Capture {
 public:
  explicit Capture(const CaptureStatistics::Options& options)
      : statistics_(options) {}

  Capture& At(Nanos since, const Frame& frame, uint32_t original_bytes) {
    statistics_.Add({.time = kStart + since,
                     .bytes = frame,
                     .original_bytes = original_bytes});
    return *this;
  }
  CaptureFigures Figures() { return statistics_.Finish(); }

 private:
  CaptureStatistics statistics_;
};

CaptureStatistics::Options Grid(FlowKeyKind kind, std::vector<Nanos> timeouts,
                                std::vector<uint32_t> bytes) {
  CaptureStatistics::Options options;
  options.kind = kind;
  options.timeouts = std::move(timeouts);
  options.flowlet_bytes = std::move(bytes);
  return options;
}

TEST(CaptureStatistics, BeginsAFlowletAfterAGapLongerThanTAndNotOneAsLong) {
  Capture capture(Grid(FlowKeyKind::kConnection,
                       {Microseconds(500), Milliseconds(1), Nanos::max()},
                       {15'000}));
  for (const int64_t us : {0, 100, 600, 1'101, 2'102}) {
    capture.At(Microseconds(us), ToServer(), 1'000);
  }
  EXPECT_THAT(capture.Figures().flowlets, ElementsAre(3, 2, 1));
}

TEST(CaptureStatistics, BeginsAFlowletWithThePacketThatWouldExceedB) {
  Capture capture(Grid(FlowKeyKind::kConnection, {Milliseconds(1)},
                       {999, 2'000, 2'001, CaptureStatistics::kNoLimit}));
  for (int i = 0; i < 6; ++i) capture.At(Microseconds(i), ToServer(), 1'000);
  // Of 1,000 bytes each: one, two, two and all of them fit.
  EXPECT_THAT(capture.Figures().flowlets, ElementsAre(6, 3, 3, 1));
}

TEST(CaptureStatistics, CountsFlowsByEveryKeyAtOnce) {
  Capture capture({});
  capture.At(Nanos{0}, ToServer(), 50)
      .At(Nanos{1}, FromServer(), 50)
      .At(Nanos{2}, Ethernet(0x0800, Ipv4({}, Udp(5001, 53))), 50);
  const CaptureFigures figures = capture.Figures();
  EXPECT_THAT(figures.flows, ElementsAre(2, 3, 1));
  EXPECT_EQ(figures.flow_packets.max(), 2);
  EXPECT_EQ(figures.kind_flows(), 2u);
}

TEST(CaptureStatistics, TellsVlansApartOnlyWhereAsked) {
  const Frame udp = Ipv4({}, Udp(5000, 53));
  for (const bool vlan : {false, true}) {
    CaptureStatistics::Options options;
    options.vlan = vlan;
    Capture capture(options);
    capture.At(Nanos{0}, Ethernet(0x8100, Vlan(7, 0x0800, udp)), 60)
        .At(Nanos{1}, Ethernet(0x8100, Vlan(8, 0x0800, udp)), 60)
        .At(Nanos{2}, Ethernet(0x0800, udp), 60);
    const CaptureFigures figures = capture.Figures();
    const uint64_t flows = vlan ? 3 : 1;
    EXPECT_THAT(figures.flows, ElementsAre(flows, flows, flows));
    EXPECT_EQ(figures.vlan_tagged, 2u);
  }
}

TEST(CaptureStatistics, SaysOfWhatKindPacketsAre) {
  Capture capture({});
  capture.At(Nanos{0}, Ethernet(0x0806, Frame(28)), 42)
      .At(Nanos{1}, Ethernet(0x86dd, Ipv6({.next_header = 6}, Tcp(1, 2))), 74)
      .At(Nanos{2}, Ethernet(0x0800, Ipv4({.protocol = 1}, Icmp(8, 0, 7, {}))),
          42)
      .At(Nanos{3},
          Ethernet(0x0800, Ipv4({.id = 9, .more_fragments = true}, Udp(1, 2))),
          1'514)
      .At(Nanos{1}, Ethernet(0x0800, Ipv4({.protocol = 47}, Frame(8))), 42);
  const CaptureFigures f = capture.Figures();
  EXPECT_EQ(f.packets, 5u);
  EXPECT_EQ(f.usable, 4u);
  EXPECT_EQ(f.results[static_cast<size_t>(ParseResult::kLinkControl)], 1u);
  EXPECT_EQ(f.tcp, 1u);
  EXPECT_EQ(f.udp, 1u);
  EXPECT_EQ(f.icmp, 1u);
  EXPECT_EQ(f.other_protocol, 1u);
  EXPECT_EQ(f.ipv6, 1u);
  EXPECT_EQ(f.fragments, 1u);
  EXPECT_EQ(f.truncated, 1u);
  EXPECT_EQ(f.out_of_order, 1u);
  EXPECT_EQ(f.bytes, 42u + 74 + 42 + 1'514 + 42);
  EXPECT_EQ(f.duration(), Nanos{3});
}

TEST(CaptureStatistics, TakesAPacketOutOfOrderAtTheLatestTimeBeforeIt) {
  Capture capture(
      Grid(FlowKeyKind::kConnection, {Microseconds(500)}, {15'000}));
  capture.At(Milliseconds(0), ToServer(), 60)
      .At(Milliseconds(2), ToServer(), 60)
      .At(Milliseconds(1), ToServer(), 60);
  const CaptureFigures figures = capture.Figures();
  EXPECT_THAT(figures.flowlets, ElementsAre(2));
  EXPECT_EQ(figures.gap_ns.min(), 0);
  EXPECT_EQ(figures.gap_ns.max(), 2'000'000);
}

// Of six packets of one flow, 100 µs apart, one of which is an hour ahead.
CaptureFigures FiguresWithALatePacket(int64_t late) {
  Capture capture(
      Grid(FlowKeyKind::kConnection, {Microseconds(500)}, {15'000}));
  for (int64_t i = 0; i < 6; ++i) {
    const int64_t ahead_us = i == late ? 3'600'000'000 : 0;
    capture.At(Microseconds(100 * i + ahead_us), ToServer(), 60);
  }
  return capture.Figures();
}

TEST(CaptureStatistics, SetsNoClockByAPacketFarAheadOfBothItsNeighbours) {
  for (const int64_t late : {0, 1, 4}) {
    SCOPED_TRACE(late);
    const CaptureFigures figures = FiguresWithALatePacket(late);
    EXPECT_EQ(figures.packets, 6u);
    EXPECT_EQ(figures.strays, 1u);
    EXPECT_EQ(figures.first_stray, static_cast<uint64_t>(late) + 1);
    // A replay, whose clock it sets, takes all that follow at its time.
    EXPECT_EQ(figures.out_of_order, static_cast<uint64_t>(5 - late));
    EXPECT_EQ(figures.duration(), Microseconds(late == 0 ? 400 : 500));
    EXPECT_THAT(figures.flowlets, ElementsAre(1));
    EXPECT_EQ(figures.gap_ns.max(), late == 0 ? 100'000 : 200'000);
    EXPECT_EQ(figures.peak_ms_packets, 6u);
  }
}

TEST(CaptureStatistics, NamesTheFirstOfSeveralStrays) {
  Capture capture({});
  for (const int64_t s : {0, 9, 0, 9, 0}) {
    capture.At(Seconds(s), ToServer(), 60);
  }
  const CaptureFigures figures = capture.Figures();
  EXPECT_EQ(figures.strays, 2u);
  EXPECT_EQ(figures.first_stray, 2u);
  EXPECT_EQ(figures.duration(), Nanos{0});
}

TEST(CaptureStatistics, TakesALongPauseForWhatItIs) {
  Capture capture({});
  // The packet after the pause is held back for its successor, which is a
  // little out of order, by as much as no stray is.
  capture.At(Seconds(0), ToServer(), 60)
      .At(Seconds(7), FromServer(), 70)
      .At(Seconds(6), ToServer(), 80);
  const CaptureFigures figures = capture.Figures();
  EXPECT_EQ(figures.strays, 0u);
  EXPECT_EQ(figures.bytes, 210u);
  EXPECT_EQ(figures.duration(), Seconds(7));
  EXPECT_EQ(figures.gap_ns.max(), Seconds(7).ns);
}

TEST(CaptureStatistics, TakesTheLastPacketAtItsWord) {
  const CaptureFigures figures = FiguresWithALatePacket(5);
  EXPECT_EQ(figures.packets, 6u);
  EXPECT_EQ(figures.strays, 0u);
  EXPECT_EQ(figures.duration(), Microseconds(3'600'000'500));
}

TEST(CaptureStatistics, IsNotStretchedByAPacketFarInThePast) {
  Capture capture({});
  capture.At(Nanos{0}, ToServer(), 60)
      .At(Microseconds(50), ToServer(), 60)
      .At(Seconds(-900), ToServer(), 60)
      .At(Microseconds(100), ToServer(), 60);
  const CaptureFigures figures = capture.Figures();
  EXPECT_EQ(figures.duration(), Microseconds(100));
  EXPECT_EQ(figures.peak_ms_packets, 4u);
}

TEST(CaptureStatistics, FindsTheFullestMsAndTheBusiest) {
  Capture capture({});
  capture.At(Microseconds(0), ToServer(), 9'000)
      .At(Microseconds(1'000), ToServer(), 100)
      .At(Microseconds(1'999), ToServer(), 100)
      .At(Microseconds(2'000), ToServer(), 8'000);
  const CaptureFigures figures = capture.Figures();
  EXPECT_EQ(figures.peak_ms_bytes, 9'000u);
  EXPECT_EQ(figures.peak_ms_packets, 2u);
}

TEST(CaptureStatistics, CountsAFlowAsThereFromItsFirstPacketToItsLast) {
  Capture capture(Grid(FlowKeyKind::k5Tuple, {}, {}));
  capture.At(Milliseconds(0), ToServer(), 60)
      .At(Milliseconds(10), FromServer(), 60)
      .At(Milliseconds(10), ToServer(), 60)
      .At(Milliseconds(20), FromServer(), 60);
  const CaptureFigures figures = capture.Figures();
  EXPECT_EQ(figures.flows_at_once_max, 2u);
  EXPECT_EQ(figures.flows_at_once_mean_1000, 1'000u);
}

TEST(TrafficSeries, GetsCoarserInsteadOfLongerAndLosesNothing) {
  TrafficSeries series;
  series.Add(Nanos{0}, 1);
  series.Add(Milliseconds(1), 2);
  series.Add(Milliseconds(2'047), 4);
  EXPECT_EQ(series.width(), Milliseconds(1));
  EXPECT_EQ(series.bins().size(), 2'048u);
  series.Add(Milliseconds(2'048), 8);
  EXPECT_EQ(series.width(), Milliseconds(2));
  EXPECT_EQ(series.bins()[0], 3u);
  EXPECT_EQ(series.bins()[1'023], 4u);
  EXPECT_EQ(series.bins()[1'024], 8u);
  series.Add({int64_t{1} << 62}, 16);
  uint64_t sum = 0;
  for (const uint64_t bytes : series.bins()) sum += bytes;
  EXPECT_EQ(sum, 31u);
  EXPECT_LE(series.bins().size(), TrafficSeries::kMaxBins);
}

}  // namespace
}  // namespace snf
