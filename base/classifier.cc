// SPDX-License-Identifier: Apache-2.0
#include "base/classifier.h"

#include <numeric>

namespace snf {
namespace {

FragmentTable::Flow Canonical(FlowKey key) {
  const bool is_reverse = Canonicalize(key);
  return {key, is_reverse};
}

// The packet that an ICMP error quotes; without IP where there is none.
ParsedPacket Quoted(std::span<const std::byte> frame,
                    const ParsedPacket& packet) {
  if (packet.icmp_inner_offset == 0) return {};
  return ParseInner(frame, packet);
}

}  // namespace

uint64_t ClassifierCounters::packets() const {
  return std::accumulate(results.begin(), results.end(), uint64_t{0});
}

uint64_t ClassifierCounters::not_ip() const {
  return std::accumulate(
      results.begin() + static_cast<size_t>(ParseResult::kNotIp), results.end(),
      uint64_t{0});
}

FlowClassifier::FlowClassifier(const Options& options)
    : options_(options), fragments_(options.fragments) {}

FlowClassifier::Flow FlowClassifier::ConnectionOfLater(
    Instant now, std::span<const std::byte> frame, const ParsedPacket& packet) {
  const FlowKey fragment = FragmentKey(frame, packet, options_.vlan);
  if (const Flow* flow = fragments_.Find(now, fragment)) {
    ++counters_.fragments_matched;
    return *flow;
  }
  ++counters_.fragments_unmatched;
  return {fragment, false};
}

FlowClassifier::Flow FlowClassifier::ConnectionOfWhole(
    Instant now, std::span<const std::byte> frame, const ParsedPacket& packet) {
  const ParsedPacket quoted = Quoted(frame, packet);
  if (!quoted.has_ip()) {
    return Canonical(FiveTupleOrQuery(frame, packet, options_.vlan));
  }
  ++counters_.icmp_errors_matched;
  Flow flow = quoted.fragment == Fragment::kLater
                  ? ConnectionOfLater(now, frame, quoted)
                  : Canonical(FiveTupleOrQuery(frame, quoted, options_.vlan));
  flow.is_reverse = !flow.is_reverse;
  return flow;
}

FlowClassifier::Flow FlowClassifier::ConnectionOf(
    Instant now, std::span<const std::byte> frame, const ParsedPacket& packet) {
  if (packet.fragment == Fragment::kLater) {
    return ConnectionOfLater(now, frame, packet);
  }
  const Flow flow = ConnectionOfWhole(now, frame, packet);
  if (packet.fragment == Fragment::kFirst) {
    fragments_.Insert(now, FragmentKey(frame, packet, options_.vlan), flow);
    ++counters_.fragments_first;
  }
  return flow;
}

FlowClassifier::Flow FlowClassifier::HostPair(
    std::span<const std::byte> frame, const ParsedPacket& packet) const {
  const ParsedPacket quoted = Quoted(frame, packet);
  const bool is_error = quoted.has_ip();
  FlowKey key = FiveTuple(frame, is_error ? quoted : packet, options_.vlan);
  key.source_port = key.destination_port = be16(0);
  Flow flow = Canonical(key);
  flow.is_reverse ^= is_error;
  return flow;
}

Direction FlowClassifier::Classify(Instant now, LinkType link,
                                   std::span<const std::byte> frame,
                                   ParsedPacket& packet, FlowKey& key) {
  packet = Parse(link, frame);
  ++counters_.results[static_cast<size_t>(packet.result)];
  if (!packet.has_ip()) return Direction::kNone;
  Flow flow;
  switch (options_.kind) {
    case FlowKeyKind::kConnection:
      flow = ConnectionOf(now, frame, packet);
      break;
    case FlowKeyKind::k5Tuple:
      flow.key = FiveTuple(frame, packet, options_.vlan);
      break;
    case FlowKeyKind::k3Tuple:
      flow = HostPair(frame, packet);
      break;
  }
  key = flow.key;
  return flow.is_reverse ? Direction::kReverse : Direction::kForward;
}

}  // namespace snf
