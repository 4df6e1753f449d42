// SPDX-License-Identifier: Apache-2.0
#include "platform/run/far_side.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/byte_order.h"
#include "base/packet/endpoint.h"

namespace snf {

FarSide::FarSide(std::vector<IpPrefix> inside) : inside_(std::move(inside)) {}

bool FarSide::IsInside(const FlowKey& endpoint) const {
  if (inside_.empty()) return known_.contains(endpoint);
  return std::ranges::any_of(inside_, [&endpoint](const IpPrefix& prefix) {
    return prefix.Contains(endpoint.source);
  });
}

size_t FarSide::AddressHash::operator()(const IpAddress& address) const {
  const uint64_t both =
      LoadAs<uint64_t>(&address.bytes[0]) ^ LoadAs<uint64_t>(&address.bytes[8]);
  const uint64_t spread = both * 0x9e37'79b9'7f4a'7c15;
  return spread ^ spread >> 32;
}

FarSide::Placed FarSide::Place(const Endpoints& ends) {
  const auto& [from, to] = ends;
  if (IsInside(from)) {
    return {.side = Side::kInside, .key = from, .inside = from};
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
  return {.side = Side::kInside, .key = from, .inside = from};
}

void FarSide::OnAlias(const FlowKey& inside, const FlowKey& external) {
  OnFlowOver(inside);
  const auto [entry, is_new] = announced_.try_emplace(external, inside);
  if (is_new) {
    ++external_[external.source];
  } else {
    Find(entry->second)->Forget();
    entry->second = inside;
  }
  known_.insert({.inside = inside});
  Find(inside)->Announce(external);
}

void FarSide::OnFlowOver(const FlowKey& inside) {
  Known* const known = Find(inside);
  if (known == nullptr || !known->is_announced()) return;
  const FlowKey external = known->external();
  const auto address = external_.find(external.source);
  if (announced_.erase(external) > 0 && --address->second == 0) {
    external_.erase(address);
  }
  known->Forget();
}

FarSide::Known* FarSide::Find(const FlowKey& inside) {
  const auto known = known_.find(inside);
  // What is announced is no part of what it is found by.
  return known == known_.end() ? nullptr : &const_cast<Known&>(*known);
}

// By words, as they are read again.
FlowKey FarSide::Known::external() const {
  FlowKey key;
  key.source = address;
  std::memcpy(reinterpret_cast<std::byte*>(&key) + sizeof key - sizeof rest,
              &rest, sizeof rest);
  return key;
}

void FarSide::Known::Announce(const FlowKey& external) {
  address = external.source;
  rest = LoadAs<uint64_t>(reinterpret_cast<const std::byte*>(&external) +
                          sizeof external - sizeof rest);
}

}  // namespace snf
