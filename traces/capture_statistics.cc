// SPDX-License-Identifier: Apache-2.0
#include "traces/capture_statistics.h"

#include <algorithm>
#include <utility>

namespace snf {
namespace {

constexpr int64_t kNanosPerMs = 1'000'000;

size_t IndexOf(FlowKeyKind kind) { return static_cast<size_t>(kind); }

}  // namespace

CaptureStatistics::CaptureStatistics(const Options& options)
    : options_(options) {
  for (size_t kind = 0; kind < kFlowKeyKinds; ++kind) {
    classifiers_.emplace_back(
        FlowClassifier::Options{.kind = static_cast<FlowKeyKind>(kind),
                                .vlan = options.vlan,
                                .fragments = {}});
  }
  figures_.flowlets.resize(options.timeouts.size() *
                           options.flowlet_bytes.size());
}

void CaptureStatistics::Add(const CapturedPacket& packet) {
  ++packets_;
  figures_.out_of_order += packet.time < latest_ ? 1 : 0;
  latest_ = std::max(latest_, packet.time);
  if (holds_) {
    if (held_.time - packet.time > kFar) {
      held_.time = packet.time;
      ++figures_.strays;
      if (figures_.first_stray == 0) figures_.first_stray = packets_ - 1;
    }
    Release();
  }
  if (figures_.packets == 0 || packet.time - now_ > kFar) {
    Hold(packet);
  } else {
    Count(packet);
  }
}

void CaptureStatistics::Hold(const CapturedPacket& packet) {
  held_bytes_.assign(packet.bytes.begin(), packet.bytes.end());
  held_ = packet;
  held_.bytes = held_bytes_;
  holds_ = true;
}

void CaptureStatistics::Release() {
  holds_ = false;
  Count(held_);
}

void CaptureStatistics::Count(const CapturedPacket& packet) {
  CountTraffic(packet);
  for (size_t kind = 0; kind < kFlowKeyKinds; ++kind) {
    const bool is_told_of = kind == IndexOf(options_.kind);
    ParsedPacket parsed;
    FlowKey key;
    const Direction direction = classifiers_[kind].Classify(
        now_, packet.link, packet.bytes, parsed, key);
    if (is_told_of) {
      ++figures_.results[static_cast<size_t>(parsed.result)];
      figures_.vlan_tagged += parsed.vlan_tags > 0 ? 1 : 0;
    }
    if (direction == Direction::kNone) continue;
    if (!is_told_of) {
      keys_[kind].insert(key);
      continue;
    }
    CountProtocol(parsed);
    CountFlow(key, packet.original_bytes);
  }
}

void CaptureStatistics::CountTraffic(const CapturedPacket& packet) {
  CaptureFigures& f = figures_;
  if (f.packets == 0) f.first = f.last = packet.time;
  f.last = now_ = std::max(f.last, packet.time);
  ++f.packets;
  f.bytes += packet.original_bytes;
  f.captured_bytes += packet.bytes.size();
  f.truncated += packet.bytes.size() < packet.original_bytes ? 1 : 0;
  ++f.links[static_cast<size_t>(packet.link)];
  f.packet_bytes.Record(packet.original_bytes);

  const Nanos since = now_ - f.first;
  series_.Add(since, packet.original_bytes);
  if (const int64_t ms = since.ns / kNanosPerMs; ms != this_ms_) {
    this_ms_ = ms;
    this_ms_bytes_ = this_ms_packets_ = 0;
  }
  this_ms_bytes_ += packet.original_bytes;
  ++this_ms_packets_;
  f.peak_ms_bytes = std::max(f.peak_ms_bytes, this_ms_bytes_);
  f.peak_ms_packets = std::max(f.peak_ms_packets, this_ms_packets_);
}

void CaptureStatistics::CountProtocol(const ParsedPacket& parsed) {
  CaptureFigures& f = figures_;
  ++f.usable;
  f.ipv6 += parsed.l3 == L3::kIpv6 ? 1 : 0;
  f.fragments += parsed.fragment != Fragment::kNone ? 1 : 0;
  switch (parsed.l4_protocol) {
    case IpProtocol::kTcp:
      ++f.tcp;
      break;
    case IpProtocol::kUdp:
      ++f.udp;
      break;
    case IpProtocol::kIcmp:
    case IpProtocol::kIcmpv6:
      ++f.icmp;
      break;
    default:
      ++f.other_protocol;
      break;
  }
}

void CaptureStatistics::CountFlow(const FlowKey& key, uint32_t bytes) {
  const size_t cells = figures_.flowlets.size();
  const auto [place, is_new] =
      places_.try_emplace(key, static_cast<uint32_t>(flows_.size()));
  if (is_new) {
    flows_.push_back({.first = now_, .last = now_});
    open_bytes_.resize(open_bytes_.size() + cells);
  }
  Flow& flow = flows_[place->second];
  const Nanos gap = now_ - flow.last;
  if (!is_new) figures_.gap_ns.Record(gap.ns);
  flow.last = now_;
  flow.bytes += bytes;
  ++flow.packets;

  size_t cell = 0;
  auto open =
      open_bytes_.begin() + static_cast<std::ptrdiff_t>(place->second * cells);
  for (const Nanos timeout : options_.timeouts) {
    const bool begins = is_new || gap > timeout;
    for (const uint32_t limit : options_.flowlet_bytes) {
      // Packets longer than the limit may add up to more than 32 bits.
      const uint64_t longer = uint64_t{*open} + bytes;
      const bool is_full = limit != kNoLimit && longer > limit;
      figures_.flowlets[cell] += begins || is_full ? 1 : 0;
      *open = begins || is_full   ? bytes
              : limit == kNoLimit ? 0
                                  : static_cast<uint32_t>(longer);
      ++cell;
      ++open;
    }
  }
}

const CaptureFigures& CaptureStatistics::Finish() {
  if (holds_) Release();
  for (size_t kind = 0; kind < kFlowKeyKinds; ++kind) {
    figures_.flows[kind] =
        kind == IndexOf(options_.kind) ? flows_.size() : keys_[kind].size();
  }
  for (const Flow& flow : flows_) {
    figures_.flow_bytes.Record(static_cast<int64_t>(flow.bytes));
    figures_.flow_packets.Record(static_cast<int64_t>(flow.packets));
    figures_.flow_ns.Record((flow.last - flow.first).ns);
  }
  CountAtOnce();
  return figures_;
}

void CaptureStatistics::CountAtOnce() {
  std::vector<Instant> begins, ends;
  begins.reserve(flows_.size());
  ends.reserve(flows_.size());
  uint64_t lasted_us = 0;
  for (const Flow& flow : flows_) {
    begins.push_back(flow.first);
    ends.push_back(flow.last);
    lasted_us += static_cast<uint64_t>((flow.last - flow.first).ns / 1'000);
  }
  std::ranges::sort(begins);
  std::ranges::sort(ends);
  // A flow is there from its first packet to its last, both included.
  size_t ended = 0;
  for (size_t begun = 0; begun < begins.size(); ++begun) {
    while (ends[ended] < begins[begun]) ++ended;
    figures_.flows_at_once_max =
        std::max<uint64_t>(figures_.flows_at_once_max, begun + 1 - ended);
  }
  const auto duration_us =
      static_cast<uint64_t>(figures_.duration().ns / 1'000);
  if (duration_us > 0) {
    figures_.flows_at_once_mean_1000 =
        static_cast<uint64_t>(static_cast<double>(lasted_us) /
                              static_cast<double>(duration_us) * 1'000);
  }
}

}  // namespace snf
