// SPDX-License-Identifier: Apache-2.0
#include "platform/run/ingress.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/packet/headers.h"
#include "base/packet/rewrite.h"
#include "base/packet/unread.h"
#include "platform/run/flow_keys.h"
#include "platform/run/run_setup.h"

namespace snf {
namespace {

DropReason ReasonOf(Unread unread) {
  switch (unread) {
    case Unread::kLink:
      return DropReason::kLinkUnreadable;
    case Unread::kIp:
      return DropReason::kIpUnreadable;
    case Unread::kTooManyExtensions:
      return DropReason::kTooManyExtensions;
    case Unread::kExtension:
      return DropReason::kExtensionNotRead;
    case Unread::kUpperHeader:
      return DropReason::kNoUpperHeader;
    case Unread::kOverlap:
      return DropReason::kFragmentOverlap;
    case Unread::kNothing:
    case Unread::kType:
      break;
  }
  return DropReason::kTypeUnknown;
}

}  // namespace

Ingress::Ingress(const RunOptions& options, const NetworkFunction& nf,
                 BufferPool& buffers)
    : buffers_(buffers),
      own_keys_(nf),
      has_sides_(HasSides(nf)),
      is_barrier_(nf.is_barrier()),
      needs_first_(HasSides(nf) || nf.needs_first_fragment()),
      takes_merged_(nf.takes_merged()),
      drops_unread_(options.unreadable == Unreadable::kAuto
                        ? is_barrier_
                        : options.unreadable == Unreadable::kDrop),
      classifier_(options.flow),
      early_fragments_(options.early_fragments),
      with_vlan_(options.flow.vlan),
      peer_emulator_(options.inside),
      released_({.fragments = options.flow.fragments}),
      numbers_(buffers.places()) {
  for (const NetworkFunction::Pool& pool : nf.pools()) {
    if (pool.address.has_value()) pool_addresses_.push_back(*pool.address);
  }
  std::ranges::sort(pool_addresses_);
  const auto same = std::ranges::unique(pool_addresses_);
  pool_addresses_.erase(same.begin(), same.end());
}

const Ingress::Taken& Ingress::Take(Instant arrival,
                                    const CapturedPacket& captured) {
  const bool is_again = std::exchange(is_again_, false);
  if (!is_again) ++taken_packets_;
  number_ = captured.number != 0 ? captured.number : taken_packets_;
  direction_ = classifier_.Classify(arrival, captured.link, captured.bytes,
                                    headers_, key_);
  // An NF's own key may be that of another packet, so fragments come first.
  if (headers_.fragment != Fragment::kNone) [[unlikely]] {
    if (!is_again && KeepEarly(arrival, captured)) return taken_;
    if (is_again && !IsEarly(captured)) ++fragments_kept_matched_;
  }
  if (own_keys_.any() && direction_ != Direction::kNone) {
    own_keys_.Apply(captured.bytes, headers_, direction_, key_);
  }
  return TakeAgain(arrival, captured);
}

void Ingress::KeepEarlyFragments() {
  if (needs_first_) early_ = EarlyFragments(early_fragments_);
}

// A key in the form of a fragment may also be that of the packet that an ICMP
// error quotes, and the error itself in fragments.
bool Ingress::IsEarly(const CapturedPacket& captured) const {
  return headers_.fragment == Fragment::kLater &&
         key_ == FragmentKey(captured.bytes, headers_, with_vlan_);
}

bool Ingress::KeepEarly(Instant arrival, const CapturedPacket& captured) {
  if (direction_ == Direction::kNone) return false;
  if (headers_.fragment == Fragment::kFirst) {
    if (!early_.empty()) {
      early_.Release(FragmentKey(captured.bytes, headers_, with_vlan_));
    }
    return false;
  }
  if (!IsEarly(captured)) return false;
  CapturedPacket kept = captured;
  kept.number = number_;
  if (!early_.Keep(arrival, key_, kept)) return false;
  ++fragments_kept_;
  ++counted_twice_.results[static_cast<size_t>(headers_.result)];
  ++counted_twice_.fragments_unmatched;
  taken_ = {.fate = Taken::Fate::kKept};
  return true;
}

const CapturedPacket* Ingress::NextOfKept(Instant now) {
  const CapturedPacket* const next = early_.Next(now);
  is_again_ = next != nullptr;
  return next;
}

ClassifierCounters Ingress::counters() const {
  ClassifierCounters counters = classifier_.counters();
  for (size_t i = 0; i < counters.results.size(); ++i) {
    counters.results[i] -= counted_twice_.results[i];
  }
  counters.fragments_unmatched -= counted_twice_.fragments_unmatched;
  return counters;
}

const Ingress::Taken& Ingress::TakeAgain(Instant arrival,
                                         const CapturedPacket& captured) {
  if (TakeBeside(captured)) return taken_;
  if (has_sides_) {
    TakeOfSides(arrival, captured);
  } else {
    taken_.key = taken_.flow = &key_;
    Fill(arrival, captured);
  }
  return taken_;
}

bool Ingress::TakeBeside(const CapturedPacket& captured) {
  const Unread unread = classifier_.unread();
  const bool is_dropped = drops_unread_ && unread != Unread::kNothing;
  if (!is_dropped && direction_ != Direction::kNone &&
      !(is_barrier_ && IsNeighbourDiscovery(captured.bytes, headers_))) {
    return false;
  }
  taken_ = {
      .fate = is_dropped ? Taken::Fate::kDropped : Taken::Fate::kPassesThrough,
      .reason = ReasonOf(unread)};
  return true;
}

void Ingress::TakeOfSides(Instant arrival, const CapturedPacket& captured) {
  taken_.fate = Taken::Fate::kDropped;
  if (!HasEnds(key_)) {
    taken_.key = taken_.flow = &key_;
    taken_.reason = DropReason::kFragmentEarly;
    return;
  }
  const Endpoints ends = EndpointsOf(key_, direction_);
  if (captured.side == Side::kUnknown) {
    placed_ = peer_emulator_.Place(ends);
  } else {
    if (!say_sides_) [[unlikely]] {
      say_sides_ = true;
      peer_emulator_.RememberNone();
    }
    placed_ = PlaceBySide(captured.side, ends);
  }
  if (placed_.side == Side::kOutside) AskForEnd(captured);
  taken_.key = &placed_.key;
  taken_.flow = &placed_.inside;
  taken_.by_alias = placed_.by_alias();
  taken_.side = placed_.side;
  if (placed_.untranslated) {
    taken_.reason = DropReason::kNotTranslated;
    return;
  }
  if (!Fill(arrival, captured)) return;
  const auto& [info, bytes] = buffers_.view(taken_.packet);
  SetFarEnd(info, placed_.side, ends);
  if (placed_.rewrite && placed_.key.form == FlowKeyForm::kIpv4Endpoint) {
    RewriteDestination(bytes, headers_, placed_.key.source.ipv4(),
                       placed_.key.source_port);
  }
}

// The far side is there: it sends to the alias itself.
NatPeerEmulator::Placed Ingress::PlaceBySide(Side side,
                                             const Endpoints& ends) const {
  if (side == Side::kInside) {
    return {.side = side, .key = ends.from, .inside = ends.from};
  }
  return {.side = side, .key = ends.to, .inside = FlowOf(ends.to)};
}

void Ingress::AskForEnd(const CapturedPacket& captured) {
  const std::optional<FlowKey> inside =
      own_keys_.InsideOf(captured.bytes, headers_, direction_, key_);
  if (!inside.has_value()) return;
  placed_ = {
      .side = Side::kOutside, .key = *inside, .inside = *inside, .told = true};
}

bool Ingress::Fill(Instant arrival, const CapturedPacket& captured) {
  const auto length = static_cast<uint32_t>(captured.bytes.size());
  taken_.packet = buffers_.Allocate(length);
  if (taken_.packet == kNoPacket) {
    taken_.fate = Taken::Fate::kDropped;
    taken_.reason = length > BufferPool::kMaxPacketBytes
                        ? DropReason::kPacketTooLarge
                        : DropReason::kBufferPoolEmpty;
    return false;
  }
  const auto& [info, room] = buffers_.whole(taken_.packet);
  std::memcpy(room.data(), captured.bytes.data(), length);
  ::new (&info) PacketInfo{.arrival = arrival,
                           .length = length,
                           .original_length = captured.original_bytes,
                           .headers = headers_,
                           .link = captured.link,
                           .side = captured.side};
  info.headers.segment_bytes = captured.segment_bytes;
  numbers_[buffers_.place(taken_.packet)] = number_;
  taken_.fate = Taken::Fate::kPacket;
  return true;
}

void Ingress::on_alias(const Alias& alias, const FlowKey& flow) {
  announced_[alias.flow] = {.inside = flow, .clock = alias.clock};
  aliases_max_ = std::max(aliases_max_, announced_.size());
  peer_emulator_.on_alias(flow, alias.key);
  if (listener_ != nullptr) listener_->on_alias(alias, flow);
}

void Ingress::ForgetAlias(FlowId flow, Clock clock) {
  const auto announced = announced_.find(flow);
  if (announced == announced_.end() || announced->second.clock > clock) return;
  peer_emulator_.on_flow_over(announced->second.inside);
  announced_.erase(announced);
  if (listener_ != nullptr) listener_->on_alias_over(flow, clock);
}

void Ingress::on_moved(FlowId from, FlowId to) {
  const auto announced = announced_.find(from);
  if (announced == announced_.end()) return;
  const Announced moved = announced->second;
  announced_.erase(announced);
  announced_[to] = moved;
}

// A look at the address that it goes to, where nothing is quoted in it.
bool Ingress::MayComeBack(PacketHandle released) {
  const ParsedPacket& headers = buffers_.info(released).headers;
  if (headers.l3 != L3::kIpv4 || IsIcmp(headers.l4_protocol)) return true;
  const auto ip = Ipv4Header<const std::byte>::At(buffers_.bytes(released),
                                                  headers.l3_offset);
  // Where the headers are is known from the NF's side: it may be wrong.
  if (!ip) return false;
  const IpAddress to = IpAddress::FromIpv4(ip.destination());
  return peer_emulator_.HasExternal(to) ||
         std::ranges::binary_search(pool_addresses_, ip.destination()) ||
         (listener_ != nullptr && listener_->IsExternal(to));
}

// A packet from the outside is not sent back there once more.
std::optional<Ingress::Return> Ingress::ComesBack(Instant now,
                                                  PacketHandle released) {
  PacketInfo& info = buffers_.info(released);
  if (own_keys_.any() || info.side != Side::kInside || !MayComeBack(released)) {
    return std::nullopt;
  }
  ParsedPacket headers;
  FlowKey connection;
  const Direction direction = released_.Classify(
      now, info.link, buffers_.bytes(released), headers, connection);
  if (direction == Direction::kNone || !HasEnds(connection)) {
    return std::nullopt;
  }
  const Endpoints ends = EndpointsOf(connection, direction);
  if (peer_emulator_.InsideOf(ends.to) == nullptr) {
    const std::optional<FlowKey> inside = own_keys_.InsideOf(
        buffers_.bytes(released), headers, direction, connection);
    if (inside.has_value()) {
      SetFarEnd(info, Side::kOutside, ends);
      return Return{.key = *inside, .by_alias = false};
    }
    if (listener_ != nullptr && listener_->IsExternal(ends.to.source)) {
      listener_->on_departure(ends.to, info, buffers_.bytes(released));
    }
    return std::nullopt;
  }
  SetFarEnd(info, Side::kOutside, ends);
  return Return{.key = ends.to};
}

}  // namespace snf
