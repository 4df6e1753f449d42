// SPDX-License-Identifier: Apache-2.0
#include "platform/system_test/test_nat_packet.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace snf {
namespace {

using Bytes = std::span<const std::byte>;

constexpr size_t kIp = 14;  // where it begins
constexpr size_t kL4 = kIp + 20;
constexpr size_t kQuoted = kL4 + 8;
constexpr size_t kQuotedL4 = kQuoted + 20;

uint32_t Get(Bytes bytes, size_t at, size_t size) {
  uint32_t value = 0;
  for (size_t i = 0; i < size; ++i) {
    value = value << 8 | std::to_integer<uint32_t>(bytes[at + i]);
  }
  return value;
}
uint8_t Get8(Bytes bytes, size_t at) {
  return static_cast<uint8_t>(Get(bytes, at, 1));
}
uint16_t Get16(Bytes bytes, size_t at) {
  return static_cast<uint16_t>(Get(bytes, at, 2));
}
void Set(Frame& bytes, size_t at, size_t size, uint32_t value) {
  for (size_t i = size; i-- > 0; value >>= 8) {
    bytes[at + i] = static_cast<std::byte>(value);
  }
}

// The sum of 16-bit words modulo 65,535: 0 with the checksum among them.
uint32_t Sum(Bytes bytes) {
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = std::to_integer<uint64_t>(bytes[i]);
    sum += i % 2 == 0 ? byte << 8 : byte;
  }
  return static_cast<uint32_t>(sum % 65'535);
}

// Where a protocol has its checksum in layer 4.
size_t ChecksumAt(uint8_t protocol) {
  return protocol == kProtocolTcp ? 16 : protocol == kProtocolUdp ? 6 : 2;
}

// The IP packet at `ip` of the frame, as far as it is there.
struct Layers {
  Bytes ip;
  Bytes l4;
  uint8_t protocol;
  bool is_later_fragment;

  explicit Layers(Bytes frame, size_t at)
      : ip(frame.subspan(at, 20)),
        l4(frame.subspan(at + 20)),
        protocol(Get8(ip, 9)),
        is_later_fragment((Get16(ip, 6) & 0x1fff) != 0) {}

  bool has_checksum() const {
    return !is_later_fragment && l4.size() >= ChecksumAt(protocol) + 2;
  }
  uint16_t checksum() const { return Get16(l4, ChecksumAt(protocol)); }
  // That of layer 4 with its pseudo header; of a part of it, no more than
  // something that a translation does not change.
  uint32_t sum() const {
    if (protocol == kProtocolIcmp) return Sum(l4);
    const uint32_t bytes = Get16(ip, 2) - 20u;
    return (Sum(l4) + Sum(ip.subspan(12, 8)) + protocol + bytes) % 65'535;
  }
};

ModelPacket::Kind KindOf(Bytes l4) {
  const uint8_t type = Get8(l4, 0);
  return type == 8   ? ModelPacket::Kind::kIcmpRequest
         : type == 0 ? ModelPacket::Kind::kIcmpReply
                     : ModelPacket::Kind::kIcmpError;
}

void ReadEnds(const Layers& layers, ModelEnd& source, ModelEnd& destination) {
  source = {.protocol = layers.protocol, .address = Get(layers.ip, 12, 4)};
  destination = {.protocol = layers.protocol, .address = Get(layers.ip, 16, 4)};
  if (layers.is_later_fragment) return;
  if (layers.protocol != kProtocolIcmp) {
    source.port = Get16(layers.l4, 0);
    destination.port = Get16(layers.l4, 2);
  } else if (KindOf(layers.l4) != ModelPacket::Kind::kIcmpError) {
    source.port = destination.port = Get16(layers.l4, 4);
  }
}

void SetEnd(Frame& frame, size_t ip, bool is_source, const ModelEnd& end) {
  const Layers layers(frame, ip);
  const uint8_t protocol = layers.protocol;
  const bool has_port = !layers.is_later_fragment &&
                        (protocol != kProtocolIcmp ||
                         KindOf(layers.l4) != ModelPacket::Kind::kIcmpError);
  Set(frame, ip + (is_source ? 12 : 16), 4, end.address);
  if (!has_port) return;
  const size_t at = protocol == kProtocolIcmp ? 4 : is_source ? 0 : 2;
  Set(frame, ip + 20 + at, 2, end.port);
}

Frame WithEnd(Frame frame, bool is_source, const ModelEnd& end) {
  SetEnd(frame, kIp, is_source, end);
  if (ReadModelPacket(frame).is_error()) {
    SetEnd(frame, kQuoted, !is_source, end);
  }
  return frame;
}

// The frame without its checksums.
Frame Bare(Frame frame) {
  const auto clear = [&frame](size_t ip) {
    const Layers layers(frame, ip);
    const size_t at = ip + 20 + ChecksumAt(layers.protocol);
    const bool has_checksum = layers.has_checksum();
    Set(frame, ip + 10, 2, 0);
    if (has_checksum) Set(frame, at, 2, 0);
  };
  const bool is_error = ReadModelPacket(frame).is_error();
  clear(kIp);
  if (is_error) clear(kQuoted);
  return frame;
}

std::string ChecksumDifference(const Layers& offered, const Layers& released) {
  if (Sum(released.ip) != Sum(offered.ip)) return "IP checksum";
  if (!offered.has_checksum()) return "";
  if (offered.protocol == kProtocolUdp && offered.checksum() == 0) {
    return released.checksum() == 0 ? "" : "UDP checksum where there was none";
  }
  if (offered.protocol == kProtocolUdp && released.checksum() == 0) {
    return "UDP checksum is gone";
  }
  return released.sum() == offered.sum() ? "" : "layer 4 checksum";
}

void FillChecksum(Frame& frame, size_t ip) {
  Set(frame, ip + 10, 2, 0);
  Set(frame, ip + 10, 2, 65'535 - Sum(Layers(frame, ip).ip));
}

// Up to layer 4, with checksums; 56 bytes from layer 4 on.
Frame Whole(const ModelFields& fields) {
  constexpr size_t kL4Bytes = 56;
  Frame frame(kL4 + kL4Bytes, std::byte{0x5a});
  const uint8_t protocol = fields.source.protocol;
  for (size_t i = 0; i < 12; ++i) {
    frame[i] = static_cast<std::byte>(i == 0 || i == 6 ? 2 : i);
  }
  Set(frame, 12, 2, 0x0800);
  Set(frame, kIp, 4, 0x4500'0000 | (20 + kL4Bytes));
  Set(frame, kIp + 4, 4, uint32_t{fields.id} << 16);
  Set(frame, kIp + 8, 4, 0x3d00'0000 | uint32_t{protocol} << 16);
  Set(frame, kIp + 12, 4, fields.source.address);
  Set(frame, kIp + 16, 4, fields.destination.address);
  if (protocol == kProtocolIcmp) {
    Set(frame, kL4, 4, fields.is_reply ? 0 : 0x0800'0000);
    const uint16_t identifier =
        fields.is_reply ? fields.destination.port : fields.source.port;
    Set(frame, kL4 + 4, 2, identifier);
  } else {
    Set(frame, kL4, 2, fields.source.port);
    Set(frame, kL4 + 2, 2, fields.destination.port);
    if (protocol == kProtocolUdp) Set(frame, kL4 + 4, 4, kL4Bytes << 16);
    if (protocol == kProtocolTcp) {
      Set(frame, kL4 + 12, 4, 0x5000'ffff | uint32_t{fields.tcp_flags} << 16);
      Set(frame, kL4 + 16, 4, 0);
    }
  }
  return frame;
}

void FinishL4(Frame& frame, const ModelFields& fields) {
  const Layers layers(frame, kIp);
  const uint8_t protocol = layers.protocol;
  const size_t at = kL4 + ChecksumAt(protocol);
  Set(frame, at, 2, 0);
  if (protocol == kProtocolUdp && !fields.has_udp_checksum) return;
  const uint32_t sum = 65'535 - layers.sum();
  Set(frame, at, 2, fields.has_wrong_checksum ? sum / 2 + 7 : sum);
}

}  // namespace

std::string Text(const ModelEnd& end) {
  return fmt::format("{} {}.{}.{}.{}:{}",
                     end.protocol == kProtocolTcp   ? "tcp"
                     : end.protocol == kProtocolUdp ? "udp"
                                                    : "icmp",
                     end.address >> 24, end.address >> 16 & 255,
                     end.address >> 8 & 255, end.address & 255, end.port);
}

ModelPacket ReadModelPacket(std::span<const std::byte> frame) {
  ModelPacket packet;
  const Layers layers(frame, kIp);
  ReadEnds(layers, packet.source, packet.destination);
  packet.id = Get16(layers.ip, 4);
  const bool has_more = (Get16(layers.ip, 6) & 0x2000) != 0;
  packet.is_later_fragment = layers.is_later_fragment;
  packet.is_first_fragment = has_more && !layers.is_later_fragment;
  packet.number = Get(frame, frame.size() - 4, 4);
  packet.has_good_checksums =
      Sum(layers.ip) == 0 &&
      (!layers.has_checksum() || has_more || layers.sum() == 0 ||
       (layers.protocol == kProtocolUdp && layers.checksum() == 0));
  if (layers.is_later_fragment) return packet;
  if (layers.protocol == kProtocolTcp) packet.tcp_flags = Get8(layers.l4, 13);
  if (layers.protocol == kProtocolIcmp) packet.kind = KindOf(layers.l4);
  if (packet.is_error()) {
    const Layers quoted(frame, kQuoted);
    ReadEnds(quoted, packet.quoted_source, packet.quoted_destination);
    packet.has_good_checksums &= Sum(quoted.ip) == 0;
  }
  return packet;
}

Frame WithSource(const Frame& frame, const ModelEnd& source) {
  return WithEnd(frame, true, source);
}
Frame WithDestination(const Frame& frame, const ModelEnd& destination) {
  return WithEnd(frame, false, destination);
}

std::string Difference(const Frame& offered, const Frame& expected,
                       const Frame& released) {
  if (released.size() != expected.size()) return "length";
  if (const Frame bare = Bare(released); bare != Bare(expected)) {
    const Frame wanted = Bare(expected);
    const auto at = std::ranges::mismatch(bare, wanted).in1 - bare.begin();
    return fmt::format("byte {}", at);
  }
  std::string wrong =
      ChecksumDifference(Layers(offered, kIp), Layers(released, kIp));
  if (wrong.empty() && ReadModelPacket(offered).is_error()) {
    wrong =
        ChecksumDifference(Layers(offered, kQuoted), Layers(released, kQuoted));
    if (!wrong.empty()) wrong += " of what is quoted";
  }
  return wrong;
}

Frame ModelFrame(const ModelFields& fields) {
  Frame frame = Whole(fields);
  Set(frame, frame.size() - 4, 4, fields.number);
  FinishL4(frame, fields);
  FillChecksum(frame, kIp);
  return frame;
}

Fragments ModelFragments(const ModelFields& fields, uint32_t later_number) {
  constexpr size_t kFirstBytes = 40;
  Frame whole = Whole(fields);
  Set(whole, kL4 + kFirstBytes - 4, 4, fields.number);
  Set(whole, whole.size() - 4, 4, later_number);
  FinishL4(whole, fields);
  const auto cut = whole.begin() + static_cast<ptrdiff_t>(kL4 + kFirstBytes);
  Fragments fragments;
  fragments.first.assign(whole.begin(), cut);
  fragments.later.assign(whole.begin(),
                         whole.begin() + static_cast<ptrdiff_t>(kL4));
  fragments.later.insert(fragments.later.end(), cut, whole.end());
  Set(fragments.first, kIp + 6, 2, 0x2000);
  Set(fragments.later, kIp + 6, 2, kFirstBytes / 8);
  for (Frame* const frame : {&fragments.first, &fragments.later}) {
    Set(*frame, kIp + 2, 2, static_cast<uint32_t>(frame->size() - kIp));
    FillChecksum(*frame, kIp);
  }
  return fragments;
}

Frame ModelError(uint32_t router, uint32_t to, const ModelFields& about,
                 size_t quoted_bytes) {
  const Frame quoted = ModelFrame(about);
  Frame frame(quoted.begin(), quoted.begin() + kL4);
  Set(frame, kIp + 2, 2, static_cast<uint32_t>(20 + 8 + 20 + quoted_bytes + 4));
  Set(frame, kIp + 8, 4, 0x3d01'0000);
  Set(frame, kIp + 12, 4, router);
  Set(frame, kIp + 16, 4, to);
  frame.resize(kQuoted);
  Set(frame, kL4, 4, 0x0301'0000);
  frame.insert(frame.end(), quoted.begin() + kIp,
               quoted.begin() + static_cast<ptrdiff_t>(kL4 + quoted_bytes));
  frame.resize(frame.size() + 4);
  Set(frame, frame.size() - 4, 4, about.number);
  FinishL4(frame, about);
  FillChecksum(frame, kIp);
  return frame;
}

}  // namespace snf
