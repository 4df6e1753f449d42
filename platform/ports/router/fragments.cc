// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/router/fragments.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/packet/checksum.h"
#include "base/packet/headers.h"

namespace snf {
namespace {

using Byte = std::byte;
using Bytes = std::span<const std::byte>;

constexpr size_t kEthernetBytes = EthernetHeader<Byte>::kBytes;
constexpr size_t kMaxHeader = 60;
constexpr size_t kFlagsAt = 6;
constexpr uint16_t kMore = 0x2000;

// Writes the options to be copied, filled up to whole words. Returns their
// size.
size_t CopyOptions(Bytes options, std::span<Byte> to) {
  constexpr Byte kEnd{0}, kNothing{1}, kCopied{0x80};
  size_t size = 0;
  while (options.size() >= 2 && options[0] != kEnd) {
    const size_t bytes =
        options[0] == kNothing ? 1 : std::to_integer<size_t>(options[1]);
    if (bytes == 0 || bytes > options.size()) break;
    if ((options[0] & kCopied) != Byte{}) {
      std::ranges::copy(options.first(bytes), &to[size]);
      size += bytes;
    }
    options = options.subspan(bytes);
  }
  while (size % 4 != 0) to[size++] = kEnd;
  return size;
}

}  // namespace

void CutIntoFragments(Bytes frame, uint32_t mtu,
                      absl::FunctionRef<void(Bytes)> take) {
  constexpr size_t kLeastMtu = 68;
  SNF_CHECK(mtu >= kLeastMtu);
  const auto ip = Ipv4Header<const Byte>::At(frame, kEthernetBytes);
  size_t header = ip.header_bytes();
  std::array<Byte, kEthernetBytes + kMaxHeader> front{};
  std::ranges::copy(frame.first(kEthernetBytes + header), front.begin());
  Bytes payload =
      frame.subspan(kEthernetBytes + header, ip.total_bytes() - header);
  const uint16_t flags = LoadBe16(&front[kEthernetBytes + kFlagsAt]).host();
  size_t offset = ip.fragment_offset_bytes();
  std::array<Byte, kEthernetBytes + 65'535> room_for_it;  // not cleared
  while (!payload.empty()) {
    const size_t room = mtu - header;
    const size_t bytes = payload.size() <= room ? payload.size() : room / 8 * 8;
    const bool is_last = bytes == payload.size() && (flags & kMore) == 0;
    const std::span<Byte> fragment =
        std::span(room_for_it).first(kEthernetBytes + header + bytes);
    std::copy_n(front.begin(), kEthernetBytes + header, fragment.begin());
    std::ranges::copy(payload.first(bytes),
                      fragment.subspan(kEthernetBytes + header).begin());
    Store(&fragment[kEthernetBytes + kFlagsAt],
          be16(static_cast<uint16_t>((is_last ? 0 : kMore) | offset / 8)));
    const auto written = Ipv4Header<Byte>::At(fragment, kEthernetBytes);
    written.set_total_bytes(static_cast<uint16_t>(header + bytes));
    FillIpv4Checksum(written);
    take(fragment);
    if (offset == ip.fragment_offset_bytes()) {
      header = 20 + CopyOptions(ip.options(),
                                std::span(front).subspan(kEthernetBytes + 20));
      front[kEthernetBytes] = static_cast<Byte>(0x40 | header / 4);
    }
    payload = payload.subspan(bytes);
    offset += bytes;
  }
}

}  // namespace snf
