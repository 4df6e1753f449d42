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

inline constexpr size_t kLinkTypes = 6;
inline constexpr size_t kFlowKeyKinds = 3;

// What a capture holds, as numbers. Bytes are original lengths, the link header
// included, unless they say otherwise.
struct CaptureFigures {
  uint64_t packets = 0;
  uint64_t bytes = 0;
  uint64_t captured_bytes = 0;
  Instant first;  // of the clock: see below
  Instant last;
  std::array<uint64_t, kLinkTypes> links{};       // packets by LinkType
  std::array<uint64_t, kParseResults> results{};  // packets by ParseResult
  uint64_t usable = 0;  // have a flow; all others pass through
  // Of the usable ones.
  uint64_t tcp = 0, udp = 0, icmp = 0, other_protocol = 0;
  uint64_t ipv6 = 0;
  uint64_t fragments = 0;
  // Of all.
  uint64_t vlan_tagged = 0;
  uint64_t truncated = 0;     // captured less than there was
  uint64_t out_of_order = 0;  // earlier than the packet before
  uint64_t strays = 0;        // far ahead of both neighbours
  uint64_t first_stray = 0;   // the number of its packet, from 1; 0: none
  // The most in one ms, as counted from the first packet.
  uint64_t peak_ms_bytes = 0;
  uint64_t peak_ms_packets = 0;
  Histogram packet_bytes;  // of all

  std::array<uint64_t, kFlowKeyKinds> flows{};  // by FlowKeyKind
  // Of flows by Options::kind, as are the flowlets.
  Histogram flow_bytes, flow_packets, flow_ns;
  Histogram gap_ns;  // between a flow's packets
  uint64_t flows_at_once_max = 0;
  uint64_t flows_at_once_mean_1000 = 0;  // over time, in thousandths
  // For timeouts[i] and flowlet_bytes[j], at i × flowlet_bytes.size() + j.
  std::vector<uint64_t> flowlets;

  Nanos duration() const { return last - first; }
  uint64_t kind_flows() const { return flow_bytes.count(); }
};

// Theory of operation. Goes once over a capture and keeps a record a flow, but
// nothing of a packet: memory grows with flows alone (some 600 bytes each by
// all three keys). A flow's packet begins a new flowlet when it is the flow's
// first, comes more than T after the flow's packet before, or would bring the
// flowlet's bytes above B; that is counted for every T and B of a grid at once.
// A flow never ends. A packet earlier than one before it counts as of that
// one's time. So one time too late would hold the clock for all that follow: a
// packet more than kFar later than the packets before it and the one after it
// is a stray, and counts as of the time of the one after it. Two in a row with
// such times are taken at their word, as is one at the very end.
//
// Example, T = 500 µs, B = 15,000: packets of 1,000 bytes of one flow at 0, 100
// and 900 µs are two flowlets, for the last gap is 800 µs; at T = 1 ms one.
//
// A value; owner-thread only. Cost: some 200 ns a packet with 10 K flows.
class CaptureStatistics {
 public:
  static constexpr Nanos kNoTimeout = Nanos::max();
  static constexpr uint32_t kNoLimit = std::numeric_limits<uint32_t>::max();
  static constexpr Nanos kFar = Seconds(1);

  struct Options {
    FlowKeyKind kind = FlowKeyKind::kConnection;
    bool vlan = false;  // whether flows on two VLANs are two, by every key
    // kNoTimeout and kNoLimit stand for none.
    std::vector<Nanos> timeouts = {Microseconds(50),  Microseconds(100),
                                   Microseconds(500), Milliseconds(1),
                                   Milliseconds(5),   Milliseconds(50)};
    std::vector<uint32_t> flowlet_bytes = {5'000, 15'000, 60'000, kNoLimit};
  };

  explicit CaptureStatistics(const Options& options);

  void Add(const CapturedPacket& packet);

  // Goes over the flows. O(flows × log flows). To be called once, at the end,
  // before series().
  const CaptureFigures& Finish();

  const Options& options() const { return options_; }
  // Bytes over time, coarser the longer the capture is.
  const TrafficSeries& series() const { return series_; }

 private:
  struct Flow {
    Instant first;
    Instant last;
    uint64_t bytes = 0;
    uint64_t packets = 0;
  };
  struct KeyHash {
    size_t operator()(const FlowKey& key) const { return Hash(key, 0); }
  };

  // What may be a stray waits for the next packet.
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
  Instant before_ = Instant::min();  // the packet before, as it stands
  Instant now_ = Instant::min();     // the latest so far
  uint64_t packets_ = 0;             // added
  bool holds_ = false;
  CapturedPacket held_;  // its bytes are held_bytes_
  std::vector<std::byte> held_bytes_;
  int64_t this_ms_ = 0;
  uint64_t this_ms_bytes_ = 0;
  uint64_t this_ms_packets_ = 0;
  std::vector<FlowClassifier> classifiers_;  // by FlowKeyKind
  // Flows by the other two keys are counted only.
  std::array<absl::flat_hash_set<FlowKey, KeyHash>, kFlowKeyKinds> keys_;
  absl::flat_hash_map<FlowKey, uint32_t, KeyHash> places_;
  std::deque<Flow> flows_;
  // For each flow the bytes of its open flowlet by grid cell, where limited.
  std::deque<uint32_t> open_bytes_;
};

}  // namespace snf

#endif  // SNF_TRACES_CAPTURE_STATISTICS_H_
