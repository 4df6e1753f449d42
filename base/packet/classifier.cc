// SPDX-License-Identifier: Apache-2.0
#include "base/packet/classifier.h"

#include <algorithm>
#include <numeric>

#include "base/packet/plain_packet.h"

namespace snf {
namespace {

// Parses the packet that an ICMP error quotes. The result has no IP if `packet`
// quotes none.
ParsedPacket Quoted(std::span<const std::byte> frame,
                    const ParsedPacket& packet) {
  if (packet.icmp_inner_offset == 0) return {};
  return ParseInner(frame, packet);
}

// Returns the bytes of the first fragment, or 0 for IPv6: hosts discard
// IPv6 packets whose fragments overlap (RFC 5722).
uint16_t BytesOfFirst(const ParsedPacket& packet) {
  if (packet.l3 != L3::kIpv4) return 0;
  return static_cast<uint16_t>(std::min(packet.l4_bytes(), 0xffffu));
}

// Returns the unread part of a later fragment of the flow's packet.
Unread UnreadOf(const ParsedPacket& later, const FragmentTable::Flow& flow) {
  if (flow.unread != Unread::kNothing) return flow.unread;
  return later.l4_protocol == IpProtocol::kTcp &&
                 later.fragment_offset_bytes < flow.first_bytes
             ? Unread::kOverlap
             : Unread::kNothing;
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

bool FlowClassifier::ConnectionOfLaterFragment(Instant now,
                                               std::span<const std::byte> frame,
                                               const ParsedPacket& packet,
                                               FlowKey& key, Unread& unread) {
  key = FragmentKey(frame, packet, options_.vlan);
  const FragmentTable::Flow* flow = fragments_.Find(now, key);
  if (flow == nullptr) {
    ++counters_.fragments_unmatched;
    return false;
  }
  ++counters_.fragments_matched;
  if (unread == Unread::kNothing) unread = UnreadOf(packet, *flow);
  key = flow->key;
  return flow->is_reverse;
}

// An error travels against the packet that it quotes.
bool FlowClassifier::ConnectionOfError(Instant now,
                                       std::span<const std::byte> frame,
                                       const ParsedPacket& quoted,
                                       FlowKey& key) {
  ++counters_.icmp_errors_matched;
  if (quoted.fragment == Fragment::kLater) {
    Unread in_quoted = Unread::kNothing;  // the error itself was read
    return !ConnectionOfLaterFragment(now, frame, quoted, key, in_quoted);
  }
  return !ConnectionKey(frame, quoted, options_.vlan, key);
}

bool FlowClassifier::Connection(Instant now, std::span<const std::byte> frame,
                                const ParsedPacket& packet, FlowKey& key) {
  if (packet.fragment == Fragment::kLater) {
    return ConnectionOfLaterFragment(now, frame, packet, key, unread_);
  }
  const ParsedPacket quoted = Quoted(frame, packet);
  const bool is_reverse =
      quoted.has_ip() ? ConnectionOfError(now, frame, quoted, key)
                      : ConnectionKey(frame, packet, options_.vlan, key);
  if (packet.fragment == Fragment::kFirst) {
    fragments_.Insert(now, FragmentKey(frame, packet, options_.vlan),
                      {.key = key,
                       .is_reverse = is_reverse,
                       .unread = unread_,
                       .first_bytes = BytesOfFirst(packet)});
    ++counters_.fragments_first;
  }
  return is_reverse;
}

bool FlowClassifier::HostPair(std::span<const std::byte> frame,
                              const ParsedPacket& packet, FlowKey& key) {
  const ParsedPacket quoted = Quoted(frame, packet);
  if (!quoted.has_ip()) return HostPairKey(frame, packet, options_.vlan, key);
  ++counters_.icmp_errors_matched;
  return !HostPairKey(frame, quoted, options_.vlan, key);
}

Direction FlowClassifier::Classify(Instant now, LinkType link,
                                   std::span<const std::byte> frame,
                                   ParsedPacket& packet, FlowKey& key) {
  unread_ = Unread::kNothing;
  if (link == LinkType::kEthernet &&
      options_.kind == FlowKeyKind::kConnection) {
    if (const auto is_reverse = PlainConnection(frame, packet, key)) {
      ++counters_.results[static_cast<size_t>(ParseResult::kComplete)];
      return *is_reverse ? Direction::kReverse : Direction::kForward;
    }
  }
  return ClassifyAny(now, link, frame, packet, key);
}

Direction FlowClassifier::ClassifyAny(Instant now, LinkType link,
                                      std::span<const std::byte> frame,
                                      ParsedPacket& packet, FlowKey& key) {
  Parse(link, frame, packet);
  unread_ = snf::UnreadOf(packet);
  ++counters_.results[static_cast<size_t>(packet.result)];
  if (!packet.has_ip()) return Direction::kNone;
  bool is_reverse = false;
  switch (options_.kind) {
    case FlowKeyKind::kConnection:
      is_reverse = Connection(now, frame, packet, key);
      break;
    case FlowKeyKind::k5Tuple:
      FiveTuple(frame, packet, options_.vlan, key);
      break;
    case FlowKeyKind::k3Tuple:
      is_reverse = HostPair(frame, packet, key);
      break;
  }
  return is_reverse ? Direction::kReverse : Direction::kForward;
}

}  // namespace snf
