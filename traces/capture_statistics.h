// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_CAPTURE_STATISTICS_H_
#define SNF_TRACES_CAPTURE_STATISTICS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/histogram.h"
#include "base/packet/classifier.h"
#include "base/packet/flow_key.h"
#include "base/packet/link_type.h"
#include "base/time.h"
#include "traces/capture_reader.h"
#include "traces/traffic_series.h"

namespace snf {

inline constexpr size_t kFlowKeyKinds = 3;

// The contents of a capture in numbers. Bytes are original lengths, the link
// header included, unless the name says otherwise.
struct CaptureFigures {
  uint64_t packets = 0;
  uint64_t bytes = 0;
  uint64_t captured_bytes = 0;
  // The least and the greatest time of the clock that CaptureStatistics keeps.
  Instant first;
  Instant last;
  std::array<uint64_t, kLinkTypes> links{};       // packets by LinkType
  std::array<uint64_t, kParseResults> results{};  // packets by ParseResult
  uint64_t usable = 0;  // have a flow; all others pass through
  // Counts of usable packets.
  uint64_t tcp = 0, udp = 0, icmp = 0, other_protocol = 0;
  uint64_t ipv6 = 0;
  uint64_t fragments = 0;
  // Counts of all packets.
  uint64_t vlan_tagged = 0;
  uint64_t truncated = 0;     // captured in part
  uint64_t out_of_order = 0;  // earlier than some packet before
  uint64_t strays = 0;        // far ahead of both neighbours
  uint64_t first_stray = 0;   // the number of its packet, from 1; 0: none
  // The most in one millisecond; milliseconds are counted from the first
  // packet.
  uint64_t peak_ms_bytes = 0;
  uint64_t peak_ms_packets = 0;
  Histogram packet_bytes;  // of all packets

  std::array<uint64_t, kFlowKeyKinds> flows{};  // by FlowKeyKind
  // Flows are those of Options::kind here and below.
  Histogram flow_bytes, flow_packets, flow_ns;
  Histogram gap_ns;  // between a flow's packets
  uint64_t flows_at_once_max = 0;
  uint64_t flows_at_once_mean_1000 = 0;  // over time, in thousandths
  // The flowlets for timeouts[i] and flowlet_bytes[j] are at
  // i × flowlet_bytes.size() + j.
  std::vector<uint64_t> flowlets;

  Nanos duration() const { return last - first; }
  uint64_t kind_flows() const { return flow_bytes.count(); }
};

// Counts the packets, flows and flowlets of a capture.
//
// Theory of operation. One pass over the capture keeps a record for each flow
// and nothing for a packet: memory grows with flows alone (some 600 bytes each
// by all three keys). A flow's packet begins a new flowlet when it is the
// flow's first, comes more than T after the flow's packet before, or would
// bring the flowlet's bytes above B; this is counted for every T and B of a
// grid at once. A flow never ends.
//
// The clock never goes back: a packet that is earlier than a previous packet
// counts at the time of that packet. A single time that is far too late would
// therefore stop the clock for all that follow. So a packet that is more than
// kFar later than the packets before it and than the one after it is a stray,
// and counts as if it came with the one after it. Two such packets in a row are
// believed, as is one at the very end.
//
// Example, T = 500 µs, B = 15,000: packets of 1,000 bytes of one flow at 0, 100
// and 900 µs are two flowlets, for the last gap is 800 µs; at T = 1 ms one.
//
// A value; owner-thread only. Cost: some 200 ns a packet with 10 K flows.
class CaptureStatistics {
 public:
  static constexpr Nanos kNoTimeout = Nanos::max();
  static constexpr uint32_t kNoLimit = std::numeric_limits<uint32_t>::max();
  static constexpr Nanos kFar = CaptureReader::kFar;

  struct Options {
    FlowKeyKind kind = FlowKeyKind::kConnection;
    bool vlan = false;  // flows on two VLANs are two, by every key
    // The grid of flowlets. kNoTimeout and kNoLimit stand for none.
    std::vector<Nanos> timeouts = {Microseconds(50),  Microseconds(100),
                                   Microseconds(500), Milliseconds(1),
                                   Milliseconds(5),   Milliseconds(50)};
    std::vector<uint32_t> flowlet_bytes = {5'000, 15'000, 60'000, kNoLimit};
  };

  explicit CaptureStatistics(const Options& options);

  void Add(const CapturedPacket& packet);

  // Completes the figures. Call it once, at the end, before series().
  // O(flows × log flows).
  const CaptureFigures& Finish();

  const Options& options() const { return options_; }
  // The bytes over time; the longer the capture, the wider the bins.
  const TrafficSeries& series() const { return series_; }

 private:
  struct Flow {
    Instant first;
    Instant last;
    uint64_t bytes = 0;
    uint64_t packets = 0;
  };

  // Keeps a packet that may be a stray until the next packet decides.
  void Hold(const CapturedPacket& packet);
  void Release();
  void Count(const CapturedPacket& packet);
  void CountTraffic(const CapturedPacket& packet);
  void CountProtocol(const ParsedPacket& parsed);
  void CountFlow(const FlowKey& key, uint32_t bytes);
  void CountAtOnce();

  Options options_;
  CaptureFigures figures_;
  TrafficSeries series_;
  Instant latest_ = Instant::min();  // time so far, with that of strays
  Instant now_ = Instant::min();     // the latest so far, without
  uint64_t packets_ = 0;             // packets added
  bool holds_ = false;
  CapturedPacket held_;  // its bytes are held_bytes_
  std::vector<std::byte> held_bytes_;
  int64_t this_ms_ = 0;
  uint64_t this_ms_bytes_ = 0;
  uint64_t this_ms_packets_ = 0;
  std::vector<FlowClassifier> classifiers_;  // by FlowKeyKind
  // Flows by the other two keys are only counted.
  std::array<absl::flat_hash_set<FlowKey, FlowKeyHash>, kFlowKeyKinds> keys_;
  absl::flat_hash_map<FlowKey, uint32_t, FlowKeyHash> places_;
  std::deque<Flow> flows_;
  // For each flow the bytes of its open flowlet in each cell of the grid that
  // has a limit.
  std::deque<uint32_t> open_bytes_;
};

}  // namespace snf

#endif  // SNF_TRACES_CAPTURE_STATISTICS_H_
