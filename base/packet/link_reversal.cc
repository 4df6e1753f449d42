// SPDX-License-Identifier: Apache-2.0
#include "base/packet/link_reversal.h"

#include <algorithm>

namespace snf {
namespace {

// Returns the size of a link header that serves for the way back as it is, or
// with its addresses exchanged; nothing for other link types.
std::optional<size_t> LinkHeaderBytes(LinkType link) {
  switch (link) {
    case LinkType::kEthernet:
      return 14;
    case LinkType::kRawIp:
      return 0;
    case LinkType::kLinuxSll:
      return 16;
    case LinkType::kLinuxSll2:
      return 20;
    case LinkType::kNull:
    case LinkType::kLoop:
      return 4;
    case LinkType::kPpp:
    case LinkType::kNflog:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::optional<size_t> ReverseLinkHeader(LinkType link,
                                        std::span<const std::byte> frame,
                                        const ParsedPacket& headers,
                                        std::span<std::byte> to) {
  const std::optional<size_t> base = LinkHeaderBytes(link);
  const size_t bytes = headers.l3_offset;
  if (!base.has_value() || bytes != *base + size_t{4} * headers.vlan_tags) {
    return std::nullopt;
  }
  std::ranges::copy(frame.first(bytes), to.begin());
  if (link == LinkType::kEthernet) {
    constexpr auto kGroup = std::byte{1};
    if ((frame[0] & kGroup) != std::byte{0}) return std::nullopt;
    std::swap_ranges(&to[0], &to[6], &to[6]);
  }
  return bytes;
}

}  // namespace snf
