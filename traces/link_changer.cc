// SPDX-License-Identifier: Apache-2.0
#include "traces/link_changer.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/packet/packet_parser.h"

namespace snf {
namespace {

constexpr size_t kEthernetBytes = 14;
using AnyHeader = std::array<uint8_t, kEthernetBytes>;
constexpr AnyHeader kIpv4Header = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0};
constexpr AnyHeader kIpv6Header = {2, 0, 0, 0, 0, 2,    2,
                                   0, 0, 0, 0, 1, 0x86, 0xdd};

}  // namespace

bool LinkChanger::Change(CapturedPacket& packet) {
  if (packet.link == to_) {
    packet.link_number = 0;
    return true;
  }
  const ParsedPacket parsed = Parse(packet.link, packet.bytes);
  if (!parsed.has_ip()) return false;
  const bool is_whole = packet.bytes.size() == packet.original_bytes;
  const size_t begin = parsed.l3_offset;
  packet.bytes = packet.bytes.subspan(begin, parsed.end_offset - begin);
  packet.original_bytes = is_whole ? static_cast<uint32_t>(packet.bytes.size())
                                   : packet.original_bytes - parsed.l3_offset;
  packet.link = to_;
  packet.link_number = 0;
  if (to_ == LinkType::kRawIp) return true;
  const AnyHeader& header = parsed.l3 == L3::kIpv4 ? kIpv4Header : kIpv6Header;
  frame_.resize(kEthernetBytes + packet.bytes.size());
  for (size_t i = 0; i < kEthernetBytes; ++i) frame_[i] = std::byte{header[i]};
  std::copy(packet.bytes.begin(), packet.bytes.end(),
            frame_.begin() + kEthernetBytes);
  packet.bytes = frame_;
  packet.original_bytes += uint32_t{kEthernetBytes};
  return true;
}

}  // namespace snf
