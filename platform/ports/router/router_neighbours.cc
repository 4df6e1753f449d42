// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "base/packet/headers.h"
#include "platform/ports/router/router.h"

namespace snf {
namespace {

using Byte = std::byte;

MacAddress SourceOf(std::span<const std::byte> frame) {
  MacAddress mac;
  std::copy_n(&frame[6], mac.size(), mac.begin());
  return mac;
}

// A question of IPv6 without an option says nothing.
std::optional<NeighbourClaim> ClaimOf(const NeighbourMessage& message,
                                      std::span<const Byte> frame) {
  const IpAddress& says = message.is_question || IsIpv4(message.sender)
                              ? message.sender
                              : message.target;
  if (says == IpAddress{} || says == IpAddress::FromIpv4(be32(0)) ||
      (message.is_question && !message.mac.has_value())) {
    return std::nullopt;
  }
  return NeighbourClaim{.address = says,
                        .mac = message.mac.value_or(SourceOf(frame)),
                        .is_answer = message.is_solicited};
}

std::optional<NeighbourClaim> ClaimOf(const RouterQuestion& question) {
  if (!question.mac.has_value()) return std::nullopt;
  return NeighbourClaim{
      .address = question.sender, .mac = *question.mac, .is_answer = false};
}

// Reads a frame of ARP or discovery.
std::optional<NeighbourClaim> ReadClaim(std::span<const Byte> frame) {
  const auto link = EthernetHeader<const Byte>::At(frame, 0);
  if (!link) return std::nullopt;
  const auto message =
      link.type() == EtherType::kArp ? ReadArp(frame) : ReadDiscovery(frame);
  if (message.has_value()) return ClaimOf(*message, frame);
  const auto question = ReadRouterQuestion(frame);
  return question.has_value() ? ClaimOf(*question) : std::nullopt;
}

}  // namespace

void Router::TakeArp(Instant now, Bytes frame) {
  const std::optional<NeighbourMessage> message = ReadArp(frame);
  if (!message.has_value()) {
    Count(RouterCount::kArpMalformed);
    return;
  }
  if (IsOwn(message->sender)) {
    Count(RouterCount::kAddressConflict);
    return;
  }
  const auto claim = ClaimOf(*message, frame);
  const bool is_learned = claim.has_value() && Learn(now, *claim);
  if (Answer(*message, frame)) {
    Count(RouterCount::kArpAnswered);
  } else {
    Count(is_learned ? RouterCount::kArpLearned : RouterCount::kArpIgnored);
  }
}

void Router::TakeDiscovery(Instant now, Bytes frame) {
  const auto type =
      std::to_integer<uint8_t>(frame[kLinkBytes + Ipv6Header<Byte>::kBytes]);
  if (type == 133 && config_.advertises) {
    TakeRouterQuestion(now, frame);
    return;
  }
  if (type != 135 && type != 136) {
    Count(RouterCount::kNdIgnored);
    return;
  }
  const std::optional<NeighbourMessage> message = ReadDiscovery(frame);
  if (!message.has_value()) {
    Count(RouterCount::kNdMalformed);
    return;
  }
  if (IsOwn(message->is_question ? message->sender : message->target)) {
    Count(RouterCount::kAddressConflict);
    return;
  }
  const auto claim = ClaimOf(*message, frame);
  const bool is_learned = claim.has_value() && Learn(now, *claim);
  if (Answer(*message, frame)) {
    Count(RouterCount::kNdAnswered);
  } else {
    Count(is_learned ? RouterCount::kNdLearned : RouterCount::kNdIgnored);
  }
}

void Router::TakeRouterQuestion(Instant now, Bytes frame) {
  const std::optional<RouterQuestion> question = ReadRouterQuestion(frame);
  if (!question.has_value()) {
    Count(RouterCount::kNdMalformed);
    return;
  }
  const auto claim = ClaimOf(*question);
  const bool is_learned =
      claim.has_value() && !IsOwn(claim->address) && Learn(now, *claim);
  if (advertises_) {
    Count(RouterCount::kNdAnswered);
    advertisements_.on_question(now);
  } else {
    Count(is_learned ? RouterCount::kNdLearned : RouterCount::kNdIgnored);
  }
}

bool Router::Answer(const NeighbourMessage& message, Bytes frame) {
  if (!message.is_question ||
      !(IsOwn(message.target) || IsProxied(message.target)) ||
      !wire_.IsToAnswer(frame)) {
    return false;
  }
  const NeighbourFrame answer = NeighbourFrame::Answer(
      {.address = message.target, .mac = mac_},
      {.address = message.sender, .mac = message.mac.value_or(SourceOf(frame))},
      !IsOwn(message.target));
  wire_.SendOwn(answer.bytes());
  return true;
}

bool Router::Learn(Instant now, const NeighbourClaim& claim) {
  const bool is_learned =
      neighbours_.Learn(now, claim.address, claim.mac, claim.is_answer,
                        [&](Bytes frame) { Transmit(frame, claim.mac); });
  news_ = is_learned ? NeighbourNews::kKnown : NeighbourNews::kHeard;
  return is_learned;
}

NeighbourNews Router::TakeNews(Instant now) {
  const NeighbourNews news = std::exchange(news_, NeighbourNews::kNone);
  if (news == NeighbourNews::kNone || news_limit_.Allows(now)) return news;
  Count(RouterCount::kNewsLimited);
  return NeighbourNews::kNone;
}

void Router::TellKnown(
    Instant now, absl::FunctionRef<void(Bytes frame, Nanos age)> take) const {
  neighbours_.ForEachKnown(
      [&](const IpAddress& address, const MacAddress& mac, Instant confirmed) {
        const IpAddress own = OwnAddressFor(address).value_or(address);
        take(NeighbourFrame::Answer({.address = address, .mac = mac},
                                    {.address = own, .mac = mac_}, false)
                 .bytes(),
             now - confirmed);
      });
}

void Router::Overhear(Instant came, Bytes frame, NeighbourNews news) {
  const auto claim = ReadClaim(frame);
  if (!claim.has_value()) return;
  if (news == NeighbourNews::kKnown) {
    neighbours_.Know(came, claim->address, claim->mac,
                     [&](Bytes ready) { Transmit(ready, claim->mac); });
  } else {
    Learn(came, *claim);
  }
}

void Router::Advertise(bool ends) {
  has_advertised_ = true;
  Count(RouterCount::kAdvertisements);
  wire_.SendOwn(AdvertisementFrame(config_, mac_, mtu_, ends).bytes());
}

void Router::TakeLeave() {
  if (advertises_ && has_advertised_) Advertise(true);
}

void Router::TakeOverAdvertising(Instant now) {
  advertises_ = config_.advertises;
  has_advertised_ = true;
  advertisements_.TakeOver(now);
}

}  // namespace snf
