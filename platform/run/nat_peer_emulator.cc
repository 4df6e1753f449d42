// SPDX-License-Identifier: Apache-2.0
#include "platform/run/nat_peer_emulator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/byte_order.h"
#include "base/packet/endpoint.h"

namespace snf {

NatPeerEmulator::NatPeerEmulator(std::vector<IpPrefix> inside,
                                 size_t most_known)
    : inside_(std::move(inside)),
      most_known_(inside_.empty() ? most_known : 0) {}

bool NatPeerEmulator::IsInside(const FlowKey& endpoint) const {
  if (inside_.empty()) return known_.contains(endpoint);
  return std::ranges::any_of(inside_, [&endpoint](const IpPrefix& prefix) {
    return prefix.Contains(endpoint.source);
  });
}

NatPeerEmulator::Placed NatPeerEmulator::Place(const Endpoints& ends) {
  const auto& [from, to] = ends;
  if (IsInside(from)) {
    return {.side = Side::kInside,
            .key = from,
            .inside = from,
            .untranslated = !inside_.empty() && IsInside(to)};
  }
  if (IsInside(to)) {
    const Known* const known = Find(to);
    if (known == nullptr || !known->is_announced()) {
      return {.side = Side::kOutside,
              .key = to,
              .inside = to,
              .untranslated = true};
    }
    return {.side = Side::kOutside,
            .key = known->external(),
            .inside = to,
            .rewrite = true};
  }
  // To an external address, or to nobody of the inside: the controller knows.
  const FlowKey* const inside = InsideOf(to);
  if (inside != nullptr || !inside_.empty()) {
    return {.side = Side::kOutside,
            .key = to,
            .inside = inside != nullptr ? *inside : to};
  }
  known_.insert({.inside = from});
  Remember(from);
  return {.side = Side::kInside, .key = from, .inside = from};
}

void NatPeerEmulator::on_alias(const FlowKey& inside, const FlowKey& external) {
  on_flow_over(inside);
  const auto [entry, is_new] = announced_.try_emplace(external, inside);
  if (is_new) {
    ++external_[external.source];
    external_bits_ |= uint64_t{1} << (AddressHash()(external.source) % 64);
  } else {
    const FlowKey other = std::exchange(entry->second, inside);
    Find(other)->Forget();
    Remember(other);
  }
  known_.insert({.inside = inside});
  Find(inside)->Announce(external);
}

void NatPeerEmulator::on_flow_over(const FlowKey& inside) {
  Known* const known = Find(inside);
  if (known == nullptr || !known->is_announced()) return;
  const FlowKey external = known->external();
  const auto address = external_.find(external.source);
  if (announced_.erase(external) > 0 && --address->second == 0) {
    external_.erase(address);
    if (external_.empty()) external_bits_ = 0;
  }
  known->Forget();
  Remember(inside);
}

// Of an endpoint for which nothing is announced; forgets the oldest.
void NatPeerEmulator::Remember(const FlowKey& inside) {
  remembered_.push_back(inside);
  ForgetOldest();
}

void NatPeerEmulator::RememberNone() {
  most_known_ = 0;
  ForgetOldest();
}

void NatPeerEmulator::ForgetOldest() {
  while (remembered_.size() > most_known_) {
    const Known* const known = Find(remembered_.front());
    if (known != nullptr && !known->is_announced()) {
      known_.erase(remembered_.front());
    }
    remembered_.pop_front();
  }
}

NatPeerEmulator::Known* NatPeerEmulator::Find(const FlowKey& inside) {
  const auto known = known_.find(inside);
  // What is announced is no part of what it is found by.
  return known == known_.end() ? nullptr : &const_cast<Known&>(*known);
}

// By words, as they are read again.
FlowKey NatPeerEmulator::Known::external() const {
  FlowKey key;
  key.source = address;
  std::memcpy(reinterpret_cast<std::byte*>(&key) + sizeof key - sizeof rest,
              &rest, sizeof rest);
  return key;
}

void NatPeerEmulator::Known::Announce(const FlowKey& external) {
  address = external.source;
  rest = LoadAs<uint64_t>(reinterpret_cast<const std::byte*>(&external) +
                          sizeof external - sizeof rest);
}

}  // namespace snf
