// SPDX-License-Identifier: Apache-2.0
#include "nfs/dhcp_reply.h"

#include <algorithm>

#include "base/answers/ip_writing.h"
#include "base/packet/checksum.h"
#include "base/packet/ip_address.h"
#include "base/packet/l4_headers.h"

namespace snf {
namespace {

using Byte = std::byte;

constexpr size_t kIpBytes = Ipv4Header<Byte>::kMinBytes;
constexpr size_t kUdpBytes = UdpHeader<Byte>::kBytes;
constexpr size_t kLeastMessage = 300;  // RFC 1542 §2.1

// Writes options one behind the other.
class OptionWriter {
 public:
  explicit OptionWriter(std::span<Byte> to) : to_(to) {}

  void Add(uint8_t code, std::span<const Byte> value) {
    Begin(code, value.size());
    std::ranges::copy(value, &to_[at_]);
    at_ += value.size();
  }
  void Add(uint8_t code, be32 word) {
    Begin(code, 4);
    Store(&to_[at_], word);
    at_ += 4;
  }
  void Add(uint8_t code, const std::vector<be32>& words) {
    if (words.empty()) return;
    Begin(code, words.size() * 4);
    for (const be32 word : words) {
      Store(&to_[at_], word);
      at_ += 4;
    }
  }
  void AddWhole(std::span<const Byte> option) {
    std::ranges::copy(option, &to_[at_]);
    at_ += option.size();
  }
  size_t End() {
    to_[at_++] = Byte{255};
    return at_;
  }

 private:
  void Begin(uint8_t code, size_t bytes) {
    to_[at_++] = Byte{code};
    to_[at_++] = static_cast<Byte>(bytes);
  }

  std::span<Byte> to_;
  size_t at_ = 0;
};

be32 SecondsOf(Nanos time) {
  return be32(static_cast<uint32_t>(time.ns / 1'000'000'000));
}

}  // namespace

DhcpReply::DhcpReply(const Packet& packet, const DhcpMessage& message,
                     const DhcpOptions& options, DhcpType type, be32 yours) {
  const size_t link = packet.headers().l3_offset;
  if (link > kMaxLinkBytes) return;
  const std::span<const Byte> frame = packet.bytes();
  std::ranges::copy(frame.first(link), bytes_.begin());
  if (packet.link() == LinkType::kEthernet) {
    constexpr size_t kMac = sizeof(MacAddress48);
    std::ranges::copy(frame.subspan(kMac, kMac), bytes_.begin());
    std::ranges::copy(options.mac, &bytes_[kMac]);
  }
  const std::span<Byte> ip = std::span(bytes_).subspan(link);
  const size_t message_bytes = WriteMessage(message, options, type, yours,
                                            ip.subspan(kIpBytes + kUdpBytes));
  const size_t l4_bytes = kUdpBytes + message_bytes;
  const IpAddress from = IpAddress::FromIpv4(options.server);
  const IpAddress to = IpAddress::FromIpv4(DestinationOf(message, type, yours));
  WriteIpv4Header(ip, 0, IpProtocol::kUdp, from, to);
  const auto header = Ipv4Header<Byte>::At(ip, 0);
  header.set_total_bytes(static_cast<uint16_t>(kIpBytes + l4_bytes));
  FillIpv4Checksum(header);
  const bool is_relayed = message.relay != be32(0);
  Byte* const udp = &ip[kIpBytes];
  Store(udp, be16(kDhcpServerPort));
  Store(udp + 2, be16(is_relayed ? kDhcpServerPort : kDhcpClientPort));
  Store(udp + 4, be16(static_cast<uint16_t>(l4_bytes)));
  Store(udp + UdpHeader<Byte>::kChecksumOffset,
        UdpChecksumToSend(L4Checksum(from, to, IpProtocol::kUdp,
                                     ip.subspan(kIpBytes, l4_bytes))));
  size_ = link + kIpBytes + l4_bytes;
}

be32 DhcpReply::DestinationOf(const DhcpMessage& message, DhcpType type,
                              be32 yours) {
  constexpr be32 kBroadcast{0xffff'ffff};
  if (message.relay != be32(0)) return message.relay;
  if (type == DhcpType::kNak) return kBroadcast;
  if (message.client != be32(0)) return message.client;
  return message.wants_broadcast() ? kBroadcast : yours;
}

size_t DhcpReply::WriteMessage(const DhcpMessage& message,
                               const DhcpOptions& options, DhcpType type,
                               be32 yours, std::span<Byte> to) {
  constexpr uint8_t kBootReply = 2, kEthernet = 1;
  constexpr size_t kClientAt = 12, kYoursAt = 16, kRelayAt = 24,
                   kHardwareAt = 28, kCookieAt = 236, kOptionsAt = 240;
  to[0] = Byte{kBootReply};
  to[1] = Byte{kEthernet};
  to[2] = Byte{sizeof(MacAddress48)};
  Store(&to[4], be32(message.transaction));
  Store(&to[10], be16(message.flags));
  if (type == DhcpType::kAck) Store(&to[kClientAt], message.client);
  Store(&to[kYoursAt], yours);
  Store(&to[kRelayAt], message.relay);
  std::ranges::copy(message.hardware, &to[kHardwareAt]);
  Store(&to[kCookieAt], be32(0x6382'5363));
  OptionWriter writer(to.subspan(kOptionsAt));
  const Byte type_byte{static_cast<uint8_t>(type)};
  writer.Add(53, std::span(&type_byte, 1));
  writer.Add(54, options.server);
  if (type != DhcpType::kNak) {
    if (yours != be32(0)) {
      writer.Add(51, SecondsOf(options.lease));
      writer.Add(58, SecondsOf(Nanos{options.lease.ns / 2}));
      writer.Add(59, SecondsOf(Nanos{options.lease.ns / 8 * 7}));
    }
    writer.Add(1, options.mask());
    writer.Add(3, options.routers);
    writer.Add(6, options.dns);
  }
  writer.AddWhole(message.relay_information);
  return std::max(kLeastMessage, kOptionsAt + writer.End());
}

}  // namespace snf
