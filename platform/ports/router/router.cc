// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/router/router.h"

#include <algorithm>

#include "base/packet/checksum.h"
#include "base/packet/headers.h"
#include "base/packet/packet_parser.h"
#include "platform/ports/router/fragments.h"

namespace snf {
namespace {

using Byte = std::byte;

constexpr uint8_t kOwnTtl = 64;
constexpr uint32_t kLeastMtu = 68;  // RFC 791

bool IsGroup(const IpAddress& address) {
  return IsIpv4(address) ? address.ipv4().host() >= 0xe000'0000
                         : address.bytes[0] == Byte{0xff};
}

// 169.254.0.0/16 (RFC 3927 §7) and fe80::/10.
bool IsOfOneLink(const IpAddress& address) {
  return IsIpv4(address) ? address.ipv4().host() >> 16 == 0xa9fe
                         : IsLinkLocal(address);
}

// Returns false for addresses from which no packet comes.
bool IsSender(const IpAddress& address) {
  if (IsIpv4(address)) return IsHostAddress(address.ipv4());
  IpAddress loopback;
  loopback.bytes[15] = Byte{1};
  return !IsGroup(address) && address != IpAddress{} && address != loopback;
}

// Router and neighbour discovery, and redirects.
bool IsOfDiscovery(std::span<const std::byte> frame, size_t ip_at) {
  const auto ip = Ipv6Header<const Byte>::At(frame, ip_at);
  const size_t at = ip_at + Ipv6Header<Byte>::kBytes;
  if (!ip || ip.next_header() != IpProtocol::kIcmpv6 || frame.size() <= at) {
    return false;
  }
  const auto type = std::to_integer<uint8_t>(frame[at]);
  return type >= 133 && type <= 137;
}

// Routers of a link advertise at times that differ.
uint64_t SeedOf(const MacAddress& mac) {
  uint64_t seed = 0;
  for (const Byte byte : mac)
    seed = seed << 8 | std::to_integer<uint64_t>(byte);
  return seed;
}

}  // namespace

Router::Router(const RouterConfig& config, const MacAddress& mac,
               RouterWire& wire)
    : config_(config.Completed(mac)),
      mac_(config.mac.value_or(mac)),
      wire_(wire),
      routes_(config_),
      advertisements_(Rng(SeedOf(mac_))),
      advertises_(config_.advertises),
      in_room_(new Byte[kMostBytes]),
      out_room_(new Byte[kMostBytes]) {}

void Router::SetLearnedRoutes(std::span<const LearnedRoute> routes,
                              std::span<const RoutingRule> rules) {
  routes_ = Routes(config_, routes, rules);
  Count(RouterCount::kRoutesTaken);
}

bool Router::IsOwn(const IpAddress& address) const {
  return std::ranges::find(config_.addresses, address,
                           &RouterConfig::Address::address) !=
         config_.addresses.end();
}

bool Router::IsProxied(const IpAddress& address) const {
  return std::ranges::any_of(config_.proxied, [&](const IpPrefix& prefix) {
    return prefix.is_ipv4() == IsIpv4(address) && prefix.Contains(address);
  });
}

bool Router::IsOwnMac(std::span<const Byte> mac) const {
  return std::ranges::equal(mac, mac_) ||
         std::ranges::any_of(config_.macs_beside, [mac](const auto& beside) {
           return std::ranges::equal(mac, beside);
         });
}

bool Router::IsOwnBeside(const IpAddress& address) const {
  return std::ranges::find(config_.addresses_beside, address) !=
         config_.addresses_beside.end();
}

bool Router::IsBeside(const IpAddress& address) const {
  return std::ranges::any_of(config_.networks_beside,
                             [&](const IpPrefix& network) {
                               return network.is_ipv4() == IsIpv4(address) &&
                                      network.Contains(address);
                             });
}

std::optional<IpAddress> Router::OwnAddressFor(const IpAddress& to) const {
  std::optional<IpAddress> other;
  for (const RouterConfig::Address& own : config_.addresses) {
    if (IsIpv4(own.address) != IsIpv4(to)) continue;
    if (own.network().Contains(to)) return own.address;
    if (!other.has_value()) other = own.address;
  }
  return other;
}

void Router::Announce() {
  for (const RouterConfig::Address& own : config_.addresses) {
    wire_.SendOwn(
        NeighbourFrame::Announcement({.address = own.address, .mac = mac_})
            .bytes());
  }
  constexpr uint8_t kOneHost = 128;
  for (const IpPrefix& prefix : config_.proxied) {
    if (prefix.length != kOneHost || IsOwn(prefix.address)) continue;
    wire_.SendOwn(
        NeighbourFrame::Announcement({.address = prefix.address, .mac = mac_})
            .bytes());
  }
}

// --- Frames that come in

std::optional<Router::IpFacts> Router::Read(Bytes frame) {
  const auto link = EthernetHeader<const Byte>::At(frame, 0);
  if (!link || frame.size() > kMostBytes) return std::nullopt;
  if (link.type() == EtherType::kIpv4) {
    const auto ip = Ipv4Header<const Byte>::At(frame, kLinkBytes);
    if (!ip || ip.total_bytes() < ip.header_bytes() ||
        ip.total_bytes() > frame.size() - kLinkBytes) {
      return std::nullopt;
    }
    return IpFacts{.is_ipv4 = true,
                   .is_fragment = ip.is_fragment(),
                   .dont_fragment = ip.dont_fragment(),
                   .ttl = ip.ttl(),
                   .protocol = ip.protocol(),
                   .header_bytes = ip.header_bytes(),
                   .bytes = ip.total_bytes(),
                   .source = IpAddress::FromIpv4(ip.source()),
                   .destination = IpAddress::FromIpv4(ip.destination())};
  }
  const auto ip = Ipv6Header<const Byte>::At(frame, kLinkBytes);
  constexpr size_t kHeader = Ipv6Header<Byte>::kBytes;
  if (link.type() != EtherType::kIpv6 || !ip ||
      ip.payload_bytes() > frame.size() - kLinkBytes - kHeader) {
    return std::nullopt;
  }
  return IpFacts{.is_ipv4 = false,
                 .is_fragment = false,
                 .dont_fragment = true,
                 .ttl = ip.hop_limit(),
                 .protocol = ip.next_header(),
                 .header_bytes = kHeader,
                 .bytes = kHeader + ip.payload_bytes(),
                 .source = ip.source(),
                 .destination = ip.destination()};
}

std::span<const std::byte> Router::Take(Instant now, Bytes frame) {
  news_ = NeighbourNews::kNone;
  const auto link = EthernetHeader<const Byte>::At(frame, 0);
  if (!link) {
    Count(RouterCount::kMalformed);
    return {};
  }
  const bool is_to_group = (frame[0] & Byte{1}) != Byte{};
  if (IsOwnMac(link.source())) {
    Count(RouterCount::kOwnSource);
  } else if (!is_to_group && !std::ranges::equal(link.destination(), mac_)) {
    Count(RouterCount::kOtherMac);
  } else if (IsVlan(link.type())) {
    Count(RouterCount::kVlanTag);
  } else if (link.type() == EtherType::kArp) {
    TakeArp(now, frame);
  } else if (link.type() == EtherType::kIpv6 &&
             IsOfDiscovery(frame, kLinkBytes)) {
    TakeDiscovery(now, frame);
  } else if (link.type() == EtherType::kIpv4 ||
             link.type() == EtherType::kIpv6) {
    return TakeIp(now, frame, is_to_group);
  } else {
    Count(RouterCount::kOtherType);
  }
  return {};
}

std::span<const std::byte> Router::TakeIp(Instant now, Bytes frame,
                                          bool is_to_group) {
  const std::optional<IpFacts> ip = Read(frame);
  if (!ip.has_value() ||
      (ip->is_ipv4 && InternetChecksum(frame.subspan(
                          kLinkBytes, ip->header_bytes)) != be16(0))) {
    Count(RouterCount::kMalformed);
    return {};
  }
  const Bytes whole = frame.first(kLinkBytes + ip->bytes);
  if (is_to_group || IsGroup(ip->destination) ||
      routes_.IsBroadcast(ip->destination)) {
    Count(RouterCount::kGroup);
    return {};
  }
  if (!IsSender(ip->source) || IsOwn(ip->source)) {
    Count(RouterCount::kBadSource);
    return {};
  }
  if ((IsOwn(ip->destination) || IsOwnBeside(ip->destination)) &&
      !IsProxied(ip->destination)) {
    TakeForRouter(now, whole, *ip);
    return {};
  }
  if (const auto refused = Refuse(*ip); refused.has_value()) {
    Count(*refused);
    if (*refused == RouterCount::kTtlExceeded ||
        *refused == RouterCount::kSameSide) {
      SendError(now, whole, false, *refused);
    }
    return {};
  }
  return Pass(whole, *ip);
}

std::optional<RouterCount> Router::Refuse(const IpFacts& ip) const {
  if (IsOfOneLink(ip.source) || IsOfOneLink(ip.destination)) {
    return RouterCount::kLinkLocal;
  }
  if (!IsSender(ip.destination)) return RouterCount::kBadDestination;
  const auto back = routes_.Find(ip.source, ip.destination, RouteSide::kIn);
  const bool is_near = back.has_value() && back->is_near();
  if (!IsProxied(ip.destination) && (is_near || IsBeside(ip.destination))) {
    return RouterCount::kSameSide;
  }
  if (ip.ttl <= 1) return RouterCount::kTtlExceeded;
  return std::nullopt;
}

// The frame as the chain gets it: with the TTL less one.
std::span<const std::byte> Router::Pass(Bytes frame, const IpFacts& ip) {
  std::ranges::copy(frame, in_room_.get());
  const std::span<Byte> passed(in_room_.get(), frame.size());
  const auto ttl = static_cast<uint8_t>(ip.ttl - 1);
  if (!ip.is_ipv4) {
    Ipv6Header<Byte>::At(passed, kLinkBytes).set_hop_limit(ttl);
    return passed;
  }
  constexpr size_t kTtlWordAt = 8;
  const Byte* const word = &passed[kLinkBytes + kTtlWordAt];
  const be16 before = LoadBe16(word);
  const auto header = Ipv4Header<Byte>::At(passed, kLinkBytes);
  header.set_ttl(ttl);
  header.set_checksum(
      UpdateChecksum(header.checksum(), before, LoadBe16(word)));
  return passed;
}

void Router::TakeForRouter(Instant now, Bytes frame, const IpFacts& ip) {
  if (const Bytes reply = EchoReply(frame, ip); !reply.empty()) {
    if (echoes_.Allows(now)) {
      Count(RouterCount::kEchoAnswered);
      wire_.SendOwn(reply);
    } else {
      Count(RouterCount::kLimited);
    }
    return;
  }
  Count(RouterCount::kForRouter);
  if (ip.protocol == IpProtocol::kUdp) {
    SendError(now, frame, false, RouterCount::kForRouter);
  }
}

std::span<const std::byte> Router::EchoReply(Bytes frame, const IpFacts& ip) {
  const uint8_t request = ip.is_ipv4 ? 8 : 128, reply = ip.is_ipv4 ? 0 : 129;
  const size_t at = kLinkBytes + ip.header_bytes;
  if (ip.protocol != (ip.is_ipv4 ? IpProtocol::kIcmp : IpProtocol::kIcmpv6) ||
      ip.is_fragment || ip.bytes < ip.header_bytes + IcmpHeader<Byte>::kBytes ||
      frame[at] != Byte{request}) {
    return {};
  }
  std::ranges::copy(frame, out_room_.get());
  const std::span<Byte> answer(out_room_.get(), frame.size());
  std::copy_n(&frame[6], mac_.size(), answer.begin());
  std::ranges::copy(mac_, &answer[6]);
  if (ip.is_ipv4) {
    const auto header = Ipv4Header<Byte>::At(answer, kLinkBytes);
    header.set_source(ip.destination.ipv4());
    header.set_destination(ip.source.ipv4());
    header.set_ttl(kOwnTtl);
    FillIpv4Checksum(header);
  } else {
    const auto header = Ipv6Header<Byte>::At(answer, kLinkBytes);
    header.set_source(ip.destination);
    header.set_destination(ip.source);
    header.set_hop_limit(kOwnTtl);
  }
  Byte* const icmp = &answer[at];
  const be16 before = LoadBe16(icmp);
  icmp[0] = Byte{reply};
  Store(icmp + 2, UpdateChecksum(LoadBe16(icmp + 2), before, LoadBe16(icmp)));
  return answer;
}

// --- Packets that leave

std::optional<uint8_t> Router::RouteLength(Bytes frame) const {
  constexpr uint8_t kOneHost = 128;
  const std::optional<IpFacts> ip = Read(frame);
  if (!ip.has_value()) return std::nullopt;
  if (IsOwn(ip->destination) || IsProxied(ip->destination)) return kOneHost;
  const auto found = routes_.Find(ip->source, ip->destination, RouteSide::kOut);
  if (!found.has_value()) return std::nullopt;
  return found->length;
}

void Router::Send(Instant now, Bytes frame) {
  ++given_;
  const std::optional<IpFacts> ip = Read(frame);
  if (!ip.has_value()) {
    Count(RouterCount::kOutMalformed);
    return;
  }
  const Bytes whole = frame.first(kLinkBytes + ip->bytes);
  const IpAddress& to = ip->destination;
  if (IsGroup(to) || routes_.IsBroadcast(to)) {
    Count(RouterCount::kOutGroup);
    return;
  }
  if (IsOwn(to) || IsProxied(to)) {
    Count(RouterCount::kOutForRouter);
    // A ping from the other side: the answer goes back through the chain.
    const Bytes reply = IsProxied(to) ? Bytes() : EchoReply(whole, *ip);
    if (!reply.empty() && echoes_.Allows(now)) Return(reply);
    return;
  }
  const auto route = routes_.Find(ip->source, to, RouteSide::kOut);
  if (!route.has_value()) {
    Count(RouterCount::kNoRoute);
    SendError(now, whole, true, RouterCount::kNoRoute);
    return;
  }
  if (mtu_ != 0 && ip->bytes > mtu_ && ip->dont_fragment) {
    Count(RouterCount::kTooBig);
    SendError(now, whole, true, RouterCount::kTooBig);
    return;
  }
  Resolve(now, route->hop, whole);
}

bool Router::SendMerged(Instant now, Bytes frame, uint16_t segment_bytes) {
  const std::optional<IpFacts> ip = Read(frame);
  if (!ip.has_value()) return false;
  const IpAddress& to = ip->destination;
  if (IsGroup(to) || routes_.IsBroadcast(to) || IsOwn(to) || IsProxied(to)) {
    return false;
  }
  const auto route = routes_.Find(ip->source, to, RouteSide::kOut);
  if (!route.has_value()) return false;
  const Bytes whole = frame.first(kLinkBytes + ip->bytes);
  const size_t packet_bytes = Parse(LinkType::kEthernet, whole).payload_offset -
                              kLinkBytes + segment_bytes;
  if (mtu_ != 0 && packet_bytes > mtu_) return false;
  const auto found = neighbours_.Find(now, route->hop);
  if (!found.has_value()) return false;
  ++given_;
  if (found->ask && questions_.Allows(now)) Ask(route->hop, found->mac);
  Count(RouterCount::kRouted);
  wire_.SendRoutedMerged(Addressed(whole, found->mac), segment_bytes);
  return true;
}

void Router::Resolve(Instant now, const IpAddress& hop, Bytes frame) {
  if (const auto found = neighbours_.Find(now, hop); found.has_value()) {
    if (found->ask && questions_.Allows(now)) Ask(hop, found->mac);
    Transmit(frame, found->mac);
    return;
  }
  if (!neighbours_.IsAsked(hop)) {
    if (!questions_.Allows(now)) {
      Count(RouterCount::kAskedTooOften);
      return;
    }
    neighbours_.Ask(now, hop, [&](Bytes lost) {
      Count(RouterCount::kNoNeighbour);
      SendError(now, lost, true, RouterCount::kNoNeighbour);
    });
    Ask(hop, std::nullopt);
  }
  if (!neighbours_.Keep(hop, frame)) Count(RouterCount::kTooManyWait);
}

void Router::Ask(const IpAddress& hop, const std::optional<MacAddress>& at) {
  const std::optional<IpAddress> own = OwnAddressFor(hop);
  if (!own.has_value()) return;
  Count(RouterCount::kQuestions);
  wire_.SendOwn(
      NeighbourFrame::Question({.address = *own, .mac = mac_}, hop, at)
          .bytes());
}

std::span<std::byte> Router::Addressed(Bytes frame, const MacAddress& to) {
  std::ranges::copy(frame, out_room_.get());
  const std::span<Byte> sent(out_room_.get(), frame.size());
  std::ranges::copy(to, sent.begin());
  std::ranges::copy(mac_, &sent[6]);
  return sent;
}

void Router::Transmit(Bytes frame, const MacAddress& to) {
  Count(RouterCount::kRouted);
  const std::span<Byte> sent = Addressed(frame, to);
  const bool is_ipv4 =
      EthernetHeader<const Byte>::At(sent, 0).type() == EtherType::kIpv4;
  if (mtu_ == 0 || sent.size() <= kLinkBytes + mtu_ || !is_ipv4) {
    wire_.SendRouted(sent);
    return;
  }
  Count(RouterCount::kFragmented);
  CutIntoFragments(sent, std::max(mtu_, kLeastMtu),
                   [&](Bytes fragment) { wire_.SendRouted(fragment); });
}

void Router::Tick(Instant now) {
  if (advertises_ && advertisements_.IsDue(now)) Advertise(false);
  neighbours_.Tick(
      now,
      [&](const IpAddress& hop) {
        if (questions_.Allows(now)) Ask(hop, std::nullopt);
      },
      [&](Bytes lost) {
        Count(RouterCount::kNoNeighbour);
        SendError(now, lost, true, RouterCount::kNoNeighbour);
      });
}

// From an address of no host, so that no host is taken for its owner.
void Router::Return(Bytes frame) {
  if (frame.data() != out_room_.get())
    std::ranges::copy(frame, out_room_.get());
  const std::span<Byte> returned(out_room_.get(), frame.size());
  std::ranges::copy(mac_, returned.begin());
  std::ranges::copy(MacAddress{}, &returned[6]);
  if (!wire_.ReturnToChain(returned)) Count(RouterCount::kAnswersLimited);
}

void Router::GiveUp() {
  neighbours_.Clear([&](Bytes) { Count(RouterCount::kNoNeighbour); });
}

// --- Errors

IcmpError Router::ErrorAbout(Bytes frame, const IpAddress& from,
                             RouterCount why) const {
  using enum RouterCount;
  constexpr LinkType kLink = LinkType::kEthernet;
  const ParsedPacket headers = Parse(kLink, frame);
  switch (why) {
    case kTtlExceeded:
      return IcmpError::TimeExceeded(kLink, frame, headers, from);
    case kTooBig:
      return IcmpError::TooBig(kLink, frame, headers, mtu_, from);
    case kNoRoute:
      return IcmpError::Unreachable(kLink, frame, headers, from,
                                    IcmpError::Unreached::kNetwork);
    case kNoNeighbour:
      return IcmpError::Unreachable(kLink, frame, headers, from,
                                    IcmpError::Unreached::kHost);
    case kForRouter:
      return IcmpError::Unreachable(kLink, frame, headers, from,
                                    IcmpError::Unreached::kPort);
    default:
      return IcmpError::Prohibited(kLink, frame, headers, from);
  }
}

void Router::SendError(Instant now, Bytes frame, bool is_behind,
                       RouterCount why) {
  const std::optional<IpFacts> ip = Read(frame);
  const IpAddress from = OwnAddressFor(ip->source).value_or(ip->destination);
  const IcmpError error = ErrorAbout(frame, from, why);
  if (error.frame().empty()) return;
  if (!errors_.Allows(now)) {
    Count(RouterCount::kAnswersLimited);
    return;
  }
  Count(RouterCount::kErrors);
  if (is_behind) {
    Return(error.frame());
  } else {
    wire_.SendOwn(error.frame());
  }
}

}  // namespace snf
