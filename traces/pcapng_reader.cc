// SPDX-License-Identifier: Apache-2.0
#include "traces/pcapng_reader.h"

#include <algorithm>
#include <limits>
#include <string>

namespace snf {
namespace {

constexpr uint64_t kNanosPerSecond = 1'000'000'000;
constexpr uint32_t kBlockHeaderBytes = 8;   // type and length
constexpr uint32_t kBlockTrailerBytes = 4;  // the length again
constexpr uint32_t kSectionBodyBytes = 16;
constexpr uint32_t kInterfaceBodyBytes = 8;
constexpr uint32_t kTimedFieldBytes = 20;
constexpr uint32_t kSimpleFieldBytes = 4;

// The largest power of ten in 64 bits is 10^19.
constexpr uint32_t kMaxPowerOfTen = 19;

uint64_t PowerOfTen(uint32_t exponent) {
  uint64_t power = 1;
  for (uint32_t i = 0; i < exponent; ++i) {
    power *= 10;
  }
  return power;
}

size_t PaddedTo32Bits(size_t bytes) { return (bytes + 3) & ~size_t{3}; }

}  // namespace

void InterfaceClock::SetResolution(uint8_t resolution) {
  constexpr uint8_t kBinary = 0x80;
  const uint32_t exponent = resolution & 0x7f;
  multiplier_ = 1;
  divisor_ = 1;
  shift_ = 0;
  if ((resolution & kBinary) != 0) {
    multiplier_ = kNanosPerSecond;
    shift_ = static_cast<uint8_t>(exponent);
  } else if (exponent <= 9) {
    multiplier_ = PowerOfTen(9 - exponent);
  } else if (exponent - 9 <= kMaxPowerOfTen) {
    divisor_ = PowerOfTen(exponent - 9);
  } else {
    multiplier_ = 0;  // all of 2^64 ticks are less than a nanosecond
  }
}

std::optional<Instant> InterfaceClock::TimeOfWide(Wide ticks) const {
  // Neither product reaches 2^95, so that the sum fits.
  Wide ns = ticks * multiplier_ >> shift_;
  if (divisor_ != 1) ns /= divisor_;
  ns += Wide{offset_seconds_} * kNanosPerSecond;
  if (ns < std::numeric_limits<int64_t>::min() ||
      ns > std::numeric_limits<int64_t>::max()) {
    return std::nullopt;
  }
  return Instant{static_cast<int64_t>(ns)};
}

ReadResult PcapngReader::ReadFileHeader() {
  ReadResult result = ReadBlock();
  if (result == ReadResult::kPacket) {
    result = StartSection();
  }
  return result;
}

ReadResult PcapngReader::Read(CapturedPacket& packet) {
  for (;;) {
    ReadResult result = ReadBlock();
    if (result != ReadResult::kPacket) {
      return result;
    }
    switch (block_type_) {
      case kEnhancedPacketBlock:
      case kOldPacketBlock:
        result = ReadTimedPacket(packet);
        if (result == ReadResult::kEnd) continue;
        return result;
      case kSimplePacketBlock:
        result = ReadSimplePacket(packet);
        if (result == ReadResult::kEnd) continue;
        return result;
      case kSectionHeaderBlock:
        result = StartSection();
        break;
      case kInterfaceBlock:
        result = AddInterface();
        break;
      default:
        source().Consume(block_bytes_);
        break;
    }
    if (result != ReadResult::kPacket) {
      return result;
    }
  }
}

ReadResult PcapngReader::ReadBlock() {
  if (!source().Require(kMinBlockBytes)) {
    return EndOfSource("block", kMinBlockBytes);
  }
  const std::byte* block = source().data();
  block_type_ = fields_.Load32(block);
  if (block_type_ == kSectionHeaderBlock) {
    // Says in which order this block, its length included, is to be read.
    const uint32_t magic = FieldLoader().Load32(block + kBlockHeaderBytes);
    if (magic != kByteOrderMagic &&
        magic != __builtin_bswap32(kByteOrderMagic)) {
      return Fail(
          "byte-order magic of the section is not 1a2b3c4d in either "
          "order: " +
          Hex({block + kBlockHeaderBytes, sizeof(magic)}));
    }
    fields_ = FieldLoader(magic != kByteOrderMagic);
  }
  block_bytes_ = fields_.Load32(block + 4);
  if (block_bytes_ < kMinBlockBytes || block_bytes_ % 4 != 0 ||
      block_bytes_ > kMaxBlockBytes) {
    return Fail("block length is not a multiple of 4 from " +
                std::to_string(kMinBlockBytes) + " to " +
                std::to_string(kMaxBlockBytes) + ": " +
                std::to_string(block_bytes_));
  }
  if (!source().Require(block_bytes_)) {
    return EndOfSource("block", block_bytes_);
  }
  block = source().data();
  const uint32_t trailer =
      fields_.Load32(block + block_bytes_ - kBlockTrailerBytes);
  if (trailer != block_bytes_) {
    return Fail(
        "block length " + std::to_string(block_bytes_) +
        " is repeated at the block's end as: " + std::to_string(trailer));
  }
  body_ = {block + kBlockHeaderBytes, block_bytes_ - kMinBlockBytes};
  return ReadResult::kPacket;
}

ReadResult PcapngReader::StartSection() {
  if (body_.size() < kSectionBodyBytes) {
    return FailTooShort(kSectionBodyBytes);
  }
  const uint16_t major = fields_.Load16(body_.data() + 4);
  const uint16_t minor = fields_.Load16(body_.data() + 6);
  if (major != 1 || (minor != 0 && minor != 2)) {  // 1.2 is read as 1.0
    return Fail("pcapng version is neither 1.0 nor 1.2: " +
                std::to_string(major) + "." + std::to_string(minor));
  }
  interfaces_.clear();
  source().Consume(block_bytes_);
  return ReadResult::kPacket;
}

ReadResult PcapngReader::AddInterface() {
  if (body_.size() < kInterfaceBodyBytes) {
    return FailTooShort(kInterfaceBodyBytes);
  }
  if (interfaces_.size() == kMaxSectionInterfaces) {
    return Fail("more interfaces in a section than: " +
                std::to_string(kMaxSectionInterfaces));
  }
  Interface interface;
  interface.link_number = fields_.Load16(body_.data());
  interface.link = LinkTypeOf(interface.link_number);
  interface.snap_bytes = fields_.Load32(body_.data() + 4);
  if (ReadResult result = ReadInterfaceOptions(interface);
      result != ReadResult::kPacket) {
    return result;
  }
  interfaces_.push_back(interface);
  AddFacts({.link_number = interface.link_number,
            .snap_bytes = interface.snap_bytes,
            .tick_exponent = static_cast<uint8_t>(interface.resolution & 0x7f),
            .tick_is_binary = (interface.resolution & 0x80) != 0});
  source().Consume(block_bytes_);
  return ReadResult::kPacket;
}

ReadResult PcapngReader::ReadInterfaceOptions(Interface& interface) {
  std::span<const std::byte> options = body_.subspan(kInterfaceBodyBytes);
  while (options.size() >= kOptionHeaderBytes) {
    const uint16_t code = fields_.Load16(options.data());
    const uint16_t bytes = fields_.Load16(options.data() + 2);
    if (code == kOptionEnd) {
      break;
    }
    // Bodies are padded, and so is what is left of them.
    if (kOptionHeaderBytes + PaddedTo32Bits(bytes) > options.size()) {
      return Fail("option " + std::to_string(code) + " of interface " +
                  std::to_string(interfaces_.size()) +
                  " runs past its block, bytes: " + std::to_string(bytes));
    }
    const std::byte* value = options.data() + kOptionHeaderBytes;
    const size_t expected = code == kOptionTsresol    ? 1
                            : code == kOptionTsoffset ? 8
                                                      : bytes;
    if (bytes != expected) {
      return Fail("option " + std::to_string(code) + " of interface " +
                  std::to_string(interfaces_.size()) + " wants " +
                  std::to_string(expected) +
                  " bytes, not: " + std::to_string(bytes));
    }
    if (code == kOptionTsresol) {
      interface.resolution = std::to_integer<uint8_t>(*value);
      interface.clock.SetResolution(interface.resolution);
    } else if (code == kOptionTsoffset) {
      interface.clock.SetOffset(static_cast<int64_t>(fields_.Load64(value)));
    }
    options = options.subspan(kOptionHeaderBytes + PaddedTo32Bits(bytes));
  }
  return ReadResult::kPacket;
}

ReadResult PcapngReader::ReadTimedPacket(CapturedPacket& packet) {
  if (body_.size() < kTimedFieldBytes) [[unlikely]] {
    return FailTooShort(kTimedFieldBytes);
  }
  const std::byte* body = body_.data();
  packet.interface = block_type_ == kEnhancedPacketBlock ? fields_.Load32(body)
                                                         : fields_.Load16(body);
  if (packet.interface >= interfaces_.size()) [[unlikely]] {
    return FailNoInterface(packet.interface);
  }
  const uint64_t ticks =
      uint64_t{fields_.Load32(body + 4)} << 32 | fields_.Load32(body + 8);
  const InterfaceClock& clock = interfaces_[packet.interface].clock;
  std::optional<Instant> time = clock.TimeOf(ticks);
  if (!time.has_value()) [[unlikely]] {
    const std::string of = "of interface " + std::to_string(packet.interface);
    time = clock.TimeBefore1970(ticks);
    if (!time.has_value()) {
      return PassOver(
          "a time " + of + " exceeds 64 bits of nanoseconds: not read",
          Error("timestamp " + of + " exceeds 64 bits of nanoseconds, ticks: " +
                std::to_string(ticks)));
    }
    CountOdd("timestamps " + of + " are below 0: its clock was before 1970");
  }
  packet.time = *time;
  packet.original_bytes = fields_.Load32(body + 16);
  return Deliver(fields_.Load32(body + 12), kTimedFieldBytes, packet);
}

ReadResult PcapngReader::ReadSimplePacket(CapturedPacket& packet) {
  if (body_.size() < kSimpleFieldBytes) [[unlikely]] {
    return FailTooShort(kSimpleFieldBytes);
  }
  if (interfaces_.empty()) [[unlikely]] {
    return FailNoInterface(0);
  }
  if (!warned_untimed_) {
    warned_untimed_ = true;
    Warn(
        "a packet without a time takes that of the packet before it, as all "
        "further ones do");
  }
  packet.interface = 0;
  packet.time = packets_found() == 0 ? Instant{} : time_found();
  packet.original_bytes = fields_.Load32(body_.data());
  const uint32_t snap_bytes = interfaces_[0].snap_bytes;
  const uint32_t captured_bytes =
      snap_bytes == 0 ? packet.original_bytes
                      : std::min(packet.original_bytes, snap_bytes);
  return Deliver(captured_bytes, kSimpleFieldBytes, packet);
}

ReadResult PcapngReader::Deliver(uint32_t captured_bytes, uint32_t field_bytes,
                                 CapturedPacket& packet) {
  const Interface& interface = interfaces_[packet.interface];
  if (!interface.link.has_value()) [[unlikely]] {
    const std::string of = " of interface " + std::to_string(packet.interface);
    const std::string_view name = UnreadLinkName(interface.link_number);
    return PassOver("link type " + std::to_string(interface.link_number) +
                        (name.empty() ? "" : " (" + std::string(name) + ")") +
                        of + " is not read",
                    LinkTypeError(of, interface.link_number));
  }
  const std::span<const std::byte> rest = body_.subspan(field_bytes);
  if (captured_bytes > std::min<size_t>(rest.size(), kMaxCapturedBytes))
      [[unlikely]] {
    return Fail(
        "captured length exceeds " +
        std::to_string(std::min<size_t>(rest.size(), kMaxCapturedBytes)) +
        ": " + std::to_string(captured_bytes));
  }
  packet.bytes = rest.first(captured_bytes);
  packet.original_bytes = std::max(packet.original_bytes, captured_bytes);
  packet.file = 0;
  packet.link = *interface.link;
  packet.link_number = interface.link_number;
  source().Consume(block_bytes_);
  return ReadResult::kPacket;
}

ReadResult PcapngReader::PassOver(const std::string& why,
                                  const absl::Status& alone) {
  CountUnread(why, alone);
  source().Consume(block_bytes_);
  return ReadResult::kEnd;
}

ReadResult PcapngReader::FailNoInterface(uint32_t number) {
  return Fail("packet of an interface that its section lacks (it has " +
              std::to_string(interfaces_.size()) +
              "): " + std::to_string(number));
}

ReadResult PcapngReader::FailTooShort(uint32_t wanted_bytes) {
  return Fail("block of type " + std::to_string(block_type_) + " wants " +
              std::to_string(wanted_bytes) +
              " bytes of fields, not: " + std::to_string(body_.size()));
}

}  // namespace snf
