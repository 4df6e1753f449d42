// SPDX-License-Identifier: Apache-2.0
//
// Puts any bytes together as fragments of IPv4 and IPv6, with little room: no
// crash, no read outside, bounded memory, and packets of IPv4 without marks of
// fragments.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/check.h"
#include "base/packet/packet_parser.h"
#include "nfs/snort/fragments.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using snf::snort::Fragments;
  if (bytes < 2) return 0;
  constexpr size_t kMaxHeld = 600;
  const snf::LinkType link =
      data[0] % 2 == 0 ? snf::LinkType::kRawIp : snf::LinkType::kEthernet;
  Fragments fragments;
  std::string held;
  uint32_t second = 0;
  size_t at = 1;
  while (at < bytes) {
    const size_t size = std::min<size_t>(data[at++], bytes - at);
    // The copy is as long as the frame, so that the sanitizer sees an access
    // beyond it.
    const auto copy = std::make_unique<std::byte[]>(size);
    std::transform(data + at, data + at + size, copy.get(),
                   [](uint8_t byte) { return std::byte{byte}; });
    at += size;
    const std::span<const std::byte> frame(copy.get(), size);
    const snf::ParsedPacket headers = snf::Parse(link, frame);
    if (!headers.has_ip() || headers.fragment == snf::Fragment::kNone) continue;
    second += static_cast<uint32_t>(size) % 8;
    const Fragments::Result result =
        fragments.Take({.frame = frame,
                        .headers = headers,
                        .original_length = static_cast<uint32_t>(size),
                        .second = second,
                        .to_server = size % 2 == 0},
                       kMaxHeld, held);
    SNF_CHECK(held.size() <= kMaxHeld);
    SNF_CHECK(Fragments::PacketsIn(held) <= Fragments::kMaxPieces);
    if (!result.is_whole) continue;
    const snf::ParsedPacket whole = snf::Parse(link, fragments.whole());
    SNF_CHECK(whole.has_ip());
    // A fragment of IPv6 may hold another fragment header.
    SNF_CHECK(whole.l3 == snf::L3::kIpv6 ||
              whole.fragment == snf::Fragment::kNone);
    SNF_CHECK(whole.end_offset == fragments.whole().size());
  }
  return 0;
}
