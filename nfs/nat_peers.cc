// SPDX-License-Identifier: Apache-2.0
#include "nfs/nat_peers.h"

#include <span>
#include <utility>

#include "base/packet/headers.h"

namespace snf {
namespace {

using TcpFlags = TcpHeader<const std::byte>;

uint8_t TcpAfter(uint8_t seen, const NatView& packet, bool from_inside) {
  if (packet.protocol != IpProtocol::kTcp) return 0;
  return NatTcp::After(seen, packet.tcp_flags, from_inside);
}

}  // namespace

bool NatTcp::IsEstablished(uint8_t seen) {
  constexpr uint8_t kBoth = kInside | kOutside;
  constexpr uint8_t kBothFins = kInsideFin | kOutsideFin;
  return (seen & kBoth) == kBoth && (seen & kReset) == 0 &&
         (seen & kBothFins) != kBothFins;
}

uint8_t NatTcp::After(uint8_t seen, uint8_t tcp_flags, bool from_inside) {
  if ((tcp_flags & TcpFlags::kRst) != 0) return seen | kReset;
  const bool is_over = seen != 0 && !IsEstablished(seen) &&
                       (seen & (kReset | kInsideFin | kOutsideFin)) != 0;
  if ((tcp_flags & TcpFlags::kSyn) != 0 && is_over) seen = 0;
  seen &= static_cast<uint8_t>(~kReset);
  seen |= from_inside ? kInside : kOutside;
  if ((tcp_flags & TcpFlags::kFin) != 0) {
    seen |= from_inside ? kInsideFin : kOutsideFin;
  }
  return seen;
}

void NatPeers::Put(uint32_t index, const NatPeer& peer) {
  flow_.patch(blob_, index * static_cast<uint32_t>(sizeof peer),
              std::as_bytes(std::span(&peer, 1)));
}

uint32_t NatPeers::Find(NatEnd peer) const {
  const uint32_t n = size();
  for (uint32_t i = 0; i < n; ++i) {
    const NatPeer known = At(i);
    if (known.address == peer.address && known.port == peer.port) return i;
  }
  return n;
}

uint32_t NatPeers::ToReplace() const {
  const uint32_t n = size();
  const auto max = static_cast<uint32_t>(blob_.max_bytes() / sizeof(NatPeer));
  if (n < max) return n;
  // Peers that are not established go first, and among equals the oldest.
  const auto rank = [this](const NatPeer& peer) {
    return std::pair(!NatTcp::IsEstablished(peer.tcp), Age(peer));
  };
  uint32_t oldest = 0;
  for (uint32_t i = 1; i < n; ++i) {
    if (rank(At(i)) > rank(At(oldest))) oldest = i;
  }
  return oldest;
}

bool NatPeers::IsLive(const NatPeer& peer, const Timeouts& timeouts) const {
  const Nanos timeout =
      NatTcp::IsEstablished(peer.tcp) ? timeouts.established : timeouts.other;
  return Age(peer) <= static_cast<uint64_t>(timeout.ns >> 30) + 1;
}

NatPeers::Change NatPeers::Update(uint32_t index, NatPeer peer, uint8_t tcp,
                                  bool refresh) {
  const uint32_t tick = refresh ? now_ : peer.tick;
  if (peer.tcp == tcp && peer.tick == tick) return {};
  const bool was_established = NatTcp::IsEstablished(peer.tcp);
  const bool is_established = NatTcp::IsEstablished(tcp);
  // An established peer whose tick changes may have expired before.
  const bool goes_on = is_established && peer.tick != tick;
  peer.tcp = tcp;
  peer.tick = tick;
  Put(index, peer);
  return {.established_changed = is_established != was_established || goes_on};
}

NatPeers::Change NatPeers::Sent(const NatView& packet) {
  const NatEnd peer = PeerOf(packet.destination, packet.protocol);
  const uint32_t index = Find(peer);
  if (index < size()) {
    const NatPeer known = At(index);
    return Update(index, known, TcpAfter(known.tcp, packet, true),
                  !packet.is_reset());
  }
  if (packet.is_reset()) return {};
  const uint32_t place = ToReplace();
  const bool forgot = place < size() && NatTcp::IsEstablished(At(place).tcp);
  Put(place, {.address = peer.address,
              .port = peer.port,
              .tcp = TcpAfter(0, packet, true),
              .tick = now_});
  return {.forgot_established = forgot};
}

NatPeers::Change NatPeers::Received(const NatView& packet, bool refresh) {
  const uint32_t index = Find(PeerOf(packet.source, packet.protocol));
  if (index == size()) return {};
  const NatPeer known = At(index);
  return Update(index, known, TcpAfter(known.tcp, packet, false), refresh);
}

bool NatPeers::HasEstablished(const Timeouts& timeouts) const {
  const uint32_t n = size();
  for (uint32_t i = 0; i < n; ++i) {
    const NatPeer peer = At(i);
    if (NatTcp::IsEstablished(peer.tcp) && IsLive(peer, timeouts)) return true;
  }
  return false;
}

bool NatPeers::Has(NatEnd peer, const Timeouts& timeouts) const {
  const uint32_t index = Find(peer);
  return index < size() && IsLive(At(index), timeouts);
}

bool NatPeers::HasAddress(be32 address, const Timeouts& timeouts) const {
  const uint32_t n = size();
  for (uint32_t i = 0; i < n; ++i) {
    const NatPeer peer = At(i);
    if (peer.address == address && IsLive(peer, timeouts)) return true;
  }
  return false;
}

}  // namespace snf
