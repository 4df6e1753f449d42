// SPDX-License-Identifier: Apache-2.0
#include "traces/pcap_reader.h"

#include <algorithm>
#include <string>
#include <utility>

namespace snf {
namespace {

// The link type shares its word with the length of a frame check sequence.
constexpr uint32_t kLinkTypeMask = 0x03ff'ffff;

}  // namespace

ReadResult PcapReader::ReadFileHeader() {
  if (!source().Require(kPcapHeaderBytes)) {
    return EndOfSource("pcap file header", kPcapHeaderBytes);
  }
  const std::byte* header = source().data();
  const uint16_t major = fields_.Load16(header + 4);
  const uint16_t minor = fields_.Load16(header + 6);
  const uint32_t link_number = fields_.Load32(header + 20) & kLinkTypeMask;
  if (major != 2) {
    return Fail("pcap version is not 2.x: " + std::to_string(major) + "." +
                std::to_string(minor));
  }
  const auto link = LinkTypeOf(link_number);
  if (!link.has_value()) {
    return FailLinkType("", link_number);
  }
  link_ = *link;
  link_number_ = static_cast<uint16_t>(link_number);
  // Up to version 2.3 the two lengths of a record could stand in either order.
  lengths_may_be_swapped_ = minor <= 3;
  const uint8_t exponent = nanos_per_tick_ == 1 ? 9 : 6;
  AddFacts({.link_number = link_number,
            .snap_bytes = fields_.Load32(header + 16),
            .tick_exponent = exponent});
  source().Consume(kPcapHeaderBytes);
  return ReadResult::kPacket;
}

ReadResult PcapReader::Read(CapturedPacket& packet) {
  if (!source().Require(record_bytes_)) [[unlikely]] {
    return EndOfSource("packet header", record_bytes_);
  }
  const std::byte* record = source().data();
  uint32_t captured_bytes = fields_.Load32(record + 8);
  uint32_t original_bytes = fields_.Load32(record + 12);
  if (lengths_may_be_swapped_ && captured_bytes > original_bytes) {
    std::swap(captured_bytes, original_bytes);
  }
  if (captured_bytes > kMaxCapturedBytes) [[unlikely]] {
    return Fail("captured length exceeds " + std::to_string(kMaxCapturedBytes) +
                ": " + std::to_string(captured_bytes));
  }
  if (!source().Require(record_bytes_ + captured_bytes)) [[unlikely]] {
    return EndOfSource("packet", record_bytes_ + captured_bytes);
  }
  record = source().data();
  // At most 2^32 s + 2^32 µs, which is less than 2^63 ns.
  packet.time = {int64_t{fields_.Load32(record)} * 1'000'000'000 +
                 int64_t{fields_.Load32(record + 4)} * nanos_per_tick_};
  if (fields_.Load32(record + 4) >= ticks_per_second_) [[unlikely]] {
    CountOdd("fraction of a second of " + std::to_string(ticks_per_second_) +
             " ticks or more");
  }
  packet.bytes = {record + record_bytes_, captured_bytes};
  packet.original_bytes = std::max(captured_bytes, original_bytes);
  packet.interface = 0;
  packet.file = 0;
  packet.link = link_;
  packet.link_number = link_number_;
  source().Consume(record_bytes_ + captured_bytes);
  return ReadResult::kPacket;
}

}  // namespace snf
