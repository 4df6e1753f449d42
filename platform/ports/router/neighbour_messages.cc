// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/router/neighbour_messages.h"

#include <algorithm>

#include "base/answers/ip_writing.h"
#include "base/packet/checksum.h"
#include "base/packet/headers.h"

namespace snf {
namespace {

using Byte = std::byte;
using Bytes = std::span<const std::byte>;

constexpr size_t kLinkBytes = EthernetHeader<Byte>::kBytes;
constexpr size_t kIpv6Bytes = Ipv6Header<Byte>::kBytes;
constexpr size_t kMessageBytes = 24;  // of discovery, in front of its options
constexpr size_t kRouterQuestionBytes = 8;  // the same, of a host's
constexpr uint8_t kRouterQuestion = 133;
constexpr uint8_t kSolicitation = 135, kAdvertisement = 136;
constexpr uint8_t kSourceOption = 1, kTargetOption = 2;
constexpr uint32_t kRouterFlag = 1u << 31, kSolicitedFlag = 1u << 30,
                   kOverrideFlag = 1u << 29;
constexpr uint16_t kArpQuestion = 1, kArpAnswer = 2;
constexpr MacAddress kEverybody = {Byte{0xff}, Byte{0xff}, Byte{0xff},
                                   Byte{0xff}, Byte{0xff}, Byte{0xff}};

MacAddress MacAt(const Byte* from) {
  MacAddress mac;
  std::copy_n(from, mac.size(), mac.begin());
  return mac;
}

bool IsOfHost(const MacAddress& mac) {
  return (mac[0] & Byte{1}) == Byte{} && mac != MacAddress{};
}

// ff02::1:ffXX:XXXX of a target (RFC 4291 §2.7.1).
IpAddress SolicitedNode(const IpAddress& target) {
  IpAddress address = AllNodes();
  address.bytes[11] = Byte{0x01};
  address.bytes[12] = Byte{0xff};
  std::copy_n(&target.bytes[13], 3, &address.bytes[13]);
  return address;
}
// Finds the link address among the options; false if these are malformed.
bool ReadOptions(Bytes options, uint8_t wanted,
                 std::optional<MacAddress>& mac) {
  while (!options.empty()) {
    if (options.size() < 2) return false;
    const size_t bytes = std::to_integer<size_t>(options[1]) * 8;
    if (bytes == 0 || bytes > options.size()) return false;
    if (options[0] == Byte{wanted} && bytes == 8 && !mac.has_value()) {
      mac = MacAt(&options[2]);
      if (!IsOfHost(*mac)) return false;
    }
    options = options.subspan(bytes);
  }
  return true;
}

// Returns an ICMPv6 message of one link, if it has that many bytes; nothing if
// the frame is another, or is malformed.
Bytes IcmpOfLink(Bytes frame, size_t least_bytes) {
  constexpr uint8_t kNoRouterBetween = 255;
  const auto ip = Ipv6Header<const Byte>::At(frame, kLinkBytes);
  if (!ip || ip.next_header() != IpProtocol::kIcmpv6 ||
      ip.hop_limit() != kNoRouterBetween || ip.payload_bytes() < least_bytes ||
      ip.payload_bytes() > frame.size() - kLinkBytes - kIpv6Bytes) {
    return {};
  }
  const Bytes icmp = frame.subspan(kLinkBytes + kIpv6Bytes, ip.payload_bytes());
  const be16 sum =
      L4Checksum(ip.source(), ip.destination(), IpProtocol::kIcmpv6, icmp);
  return sum == be16(0) ? icmp : Bytes();
}

}  // namespace

IpAddress AllNodes() {
  IpAddress address;
  address.bytes[0] = Byte{0xff};
  address.bytes[1] = Byte{0x02};
  address.bytes[15] = Byte{0x01};
  return address;
}

MacAddress MacOfGroup(const IpAddress& group) {
  MacAddress mac = {Byte{0x33}, Byte{0x33}};
  std::copy_n(&group.bytes[12], 4, &mac[2]);
  return mac;
}

std::optional<RouterQuestion> ReadRouterQuestion(Bytes frame) {
  const Bytes icmp = IcmpOfLink(frame, kRouterQuestionBytes);
  if (icmp.empty() || icmp[0] != Byte{kRouterQuestion} || icmp[1] != Byte{0}) {
    return std::nullopt;
  }
  RouterQuestion question = {
      .sender = Ipv6Header<const Byte>::At(frame, kLinkBytes).source(),
      .mac = std::nullopt};
  if (!ReadOptions(icmp.subspan(kRouterQuestionBytes), kSourceOption,
                   question.mac) ||
      question.sender.bytes[0] == Byte{0xff}) {
    return std::nullopt;
  }
  // A host without an address yet says no link address (RFC 4861 §6.1.1).
  if (question.sender == IpAddress{} && question.mac.has_value()) {
    return std::nullopt;
  }
  return question;
}

std::optional<NeighbourMessage> ReadArp(Bytes frame) {
  constexpr size_t kArpBytes = 28;
  if (frame.size() < kLinkBytes + kArpBytes) return std::nullopt;
  const Byte* const arp = &frame[kLinkBytes];
  constexpr uint32_t kEthernetIpv4 = 0x0001'0800, kLengths = 0x0604;
  const uint16_t operation = LoadBe16(arp + 6).host();
  if (LoadBe32(arp).host() != kEthernetIpv4 ||
      LoadBe16(arp + 4).host() != kLengths ||
      (operation != kArpQuestion && operation != kArpAnswer)) {
    return std::nullopt;
  }
  const NeighbourMessage message = {
      .is_question = operation == kArpQuestion,
      .is_solicited = operation == kArpAnswer,
      .sender = IpAddress::FromIpv4(LoadBe32(arp + 14)),
      .target = IpAddress::FromIpv4(LoadBe32(arp + 24)),
      .mac = MacAt(arp + 8)};
  if (!IsOfHost(*message.mac)) return std::nullopt;
  return message;
}

std::optional<NeighbourMessage> ReadDiscovery(Bytes frame) {
  const Bytes icmp = IcmpOfLink(frame, kMessageBytes);
  if (icmp.empty()) return std::nullopt;
  const auto ip = Ipv6Header<const Byte>::At(frame, kLinkBytes);
  const auto type = std::to_integer<uint8_t>(icmp[0]);
  const auto target = LoadAs<IpAddress>(&icmp[8]);
  if ((type != kSolicitation && type != kAdvertisement) || icmp[1] != Byte{0} ||
      target.bytes[0] == Byte{0xff}) {
    return std::nullopt;
  }
  NeighbourMessage message = {
      .is_question = type == kSolicitation,
      .is_solicited = type == kAdvertisement &&
                      (LoadBe32(&icmp[4]).host() & kSolicitedFlag) != 0,
      .sender = ip.source(),
      .target = target,
      .mac = std::nullopt};
  const uint8_t wanted = message.is_question ? kSourceOption : kTargetOption;
  if (!ReadOptions(icmp.subspan(kMessageBytes), wanted, message.mac)) {
    return std::nullopt;
  }
  // A host without an address yet says no link address (RFC 4861 §7.1.1).
  if (message.is_question && message.sender == IpAddress{} &&
      (message.mac.has_value() || ip.destination() != SolicitedNode(target))) {
    return std::nullopt;
  }
  const bool is_to_group = ip.destination().bytes[0] == Byte{0xff};
  if (message.sender.bytes[0] == Byte{0xff} ||
      (message.is_solicited && is_to_group)) {
    return std::nullopt;
  }
  return message;
}

NeighbourFrame NeighbourFrame::Question(const End& own, const IpAddress& target,
                                        const std::optional<MacAddress>& at) {
  NeighbourFrame frame;
  if (IsIpv4(target)) {
    frame.WriteArp(kArpQuestion, own, {.address = target, .mac = {}},
                   at.value_or(kEverybody));
  } else {
    const IpAddress group = SolicitedNode(target);
    frame.WriteDiscovery(kSolicitation, 0, own, target,
                         at.has_value()
                             ? End{.address = target, .mac = *at}
                             : End{.address = group, .mac = MacOfGroup(group)});
  }
  return frame;
}

NeighbourFrame NeighbourFrame::Answer(const End& own, const End& to,
                                      bool is_proxy) {
  NeighbourFrame frame;
  if (IsIpv4(own.address)) {
    frame.WriteArp(kArpAnswer, own, to, to.mac);
    return frame;
  }
  const uint32_t flags = kRouterFlag | (is_proxy ? 0 : kOverrideFlag);
  if (to.address == IpAddress{}) {
    frame.WriteDiscovery(
        kAdvertisement, flags, own, own.address,
        {.address = AllNodes(), .mac = MacOfGroup(AllNodes())});
  } else {
    frame.WriteDiscovery(kAdvertisement, flags | kSolicitedFlag, own,
                         own.address, to);
  }
  return frame;
}

NeighbourFrame NeighbourFrame::Announcement(const End& own) {
  if (!IsIpv4(own.address)) {
    return Answer(own, {.address = IpAddress{}, .mac = {}}, false);
  }
  return Question(own, own.address, std::nullopt);
}

void NeighbourFrame::WriteArp(uint16_t operation, const End& own, const End& to,
                              const MacAddress& link_to) {
  std::ranges::copy(link_to, &bytes_[0]);
  std::ranges::copy(own.mac, &bytes_[6]);
  Store(&bytes_[12], be16(static_cast<uint16_t>(EtherType::kArp)));
  Byte* const arp = &bytes_[kLinkBytes];
  Store(arp, be32(0x0001'0800));
  Store(arp + 4, be16(0x0604));
  Store(arp + 6, be16(operation));
  std::ranges::copy(own.mac, arp + 8);
  Store(arp + 14, own.address.ipv4());
  std::ranges::copy(to.mac, arp + 18);
  Store(arp + 24, to.address.ipv4());
  size_ = kLinkBytes + kArpBytes;
}

void NeighbourFrame::WriteDiscovery(uint8_t type, uint32_t flags,
                                    const End& own, const IpAddress& target,
                                    const End& to) {
  std::ranges::copy(to.mac, &bytes_[0]);
  std::ranges::copy(own.mac, &bytes_[6]);
  Store(&bytes_[12], be16(static_cast<uint16_t>(EtherType::kIpv6)));
  const std::span<Byte> ip =
      std::span(bytes_).subspan(kLinkBytes, kDiscoveryBytes);
  WriteIpv6Header(ip, 0, 0, IpProtocol::kIcmpv6, own.address, to.address);
  const auto header = Ipv6Header<Byte>::At(ip, 0);
  const std::span<Byte> icmp = ip.subspan(kIpv6Bytes);
  header.set_payload_bytes(static_cast<uint16_t>(icmp.size()));
  header.set_hop_limit(255);
  icmp[0] = Byte{type};
  Store(&icmp[4], be32(flags));
  std::ranges::copy(target.bytes, &icmp[8]);
  icmp[kMessageBytes] =
      Byte{type == kSolicitation ? kSourceOption : kTargetOption};
  icmp[kMessageBytes + 1] = Byte{1};
  std::ranges::copy(own.mac, &icmp[kMessageBytes + 2]);
  Store(&icmp[2],
        L4Checksum(own.address, to.address, IpProtocol::kIcmpv6, icmp));
  size_ = bytes_.size();
}

}  // namespace snf
