// SPDX-License-Identifier: Apache-2.0
//
// Parses any bytes as a frame of any link type: the parser must stay inside the
// frame, and its results must be consistent.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/check.h"
#include "base/packet/classifier.h"
#include "base/packet/flow_key_text.h"
#include "base/packet/packet_parser.h"
#include "base/packet/plain_packet.h"

namespace snf {
namespace {

void CheckOffsets(const ParsedPacket& packet, size_t bytes) {
  SNF_CHECK(packet.end_offset <= bytes);
  if (!packet.has_ip()) return;
  SNF_CHECK(packet.l3_offset <= packet.l4_offset);
  SNF_CHECK(packet.l4_offset <= packet.payload_offset);
  SNF_CHECK(packet.payload_offset <= packet.end_offset);
  SNF_CHECK(packet.icmp_inner_offset <= packet.end_offset);
}

// PlainConnection must give the same results as Parse and ConnectionKey.
void CheckPlain(std::span<const std::byte> frame) {
  ParsedPacket packet;
  FlowKey key;
  const auto is_reverse = PlainConnection(frame, packet, key);
  if (!is_reverse.has_value()) return;
  const ParsedPacket parsed = Parse(LinkType::kEthernet, frame);
  FlowKey want;
  SNF_CHECK(*is_reverse == ConnectionKey(frame, parsed, true, want));
  SNF_CHECK(packet == parsed && key == want);
}

// The classifier agrees with the packet's own bytes.
void CheckUnread(std::span<const std::byte> frame, const ParsedPacket& packet,
                 Unread unread) {
  const Unread own = UnreadOf(packet);
  SNF_CHECK(own == Unread::kNothing || own == unread);
  SNF_CHECK(packet.has_ip() || own != Unread::kNothing ||
            packet.result == ParseResult::kLinkControl);
  if (IsNeighbourDiscovery(frame, packet)) SNF_CHECK(packet.has_ip());
}

void ParseAndClassify(LinkType link, std::span<const std::byte> frame) {
  const ParsedPacket packet = Parse(link, frame);
  CheckOffsets(packet, frame.size());
  if (packet.icmp_inner_offset != 0) {
    CheckOffsets(ParseInner(frame, packet), frame.size());
  }
  CheckPlain(frame);
  for (const auto kind :
       {FlowKeyKind::kConnection, FlowKeyKind::k5Tuple, FlowKeyKind::k3Tuple}) {
    FlowClassifier classifier(
        {.kind = kind, .vlan = true, .fragments = {.capacity = 1}});
    for (int twice = 0; twice < 2; ++twice) {
      ParsedPacket again;
      FlowKey key;
      const Direction direction =
          classifier.Classify(Instant{}, link, frame, again, key);
      SNF_CHECK(again == packet);
      CheckUnread(frame, packet, classifier.unread());
      if (direction == Direction::kNone) continue;
      const auto read = ParseFlowKey(ToString(key));
      SNF_CHECK(read.ok() && *read == key);
    }
  }
}

}  // namespace
}  // namespace snf

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  if (bytes == 0) return 0;
  const auto link = static_cast<snf::LinkType>(data[0] % snf::kLinkTypes);
  // The copy is as long as the frame, so that the sanitizer sees an access
  // beyond it.
  const size_t length = bytes - 1;
  const auto frame = std::make_unique<std::byte[]>(length);
  std::copy_n(reinterpret_cast<const std::byte*>(data + 1), length,
              frame.get());
  snf::ParseAndClassify(link, {frame.get(), length});
  return 0;
}
