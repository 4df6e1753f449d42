// SPDX-License-Identifier: Apache-2.0
#include "platform/far_side.h"

#include <algorithm>
#include <utility>

#include "base/byte_order.h"
#include "base/endpoint.h"

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
    const auto known = known_.find(to);
    if (known == known_.end() || !known->second.has_value()) {
      return {.side = Side::kOutside,
              .key = to,
              .inside = to,
              .untranslated = true};
    }
    return {.side = Side::kOutside,
            .key = *known->second,
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
  known_.try_emplace(from);
  return {.side = Side::kInside, .key = from, .inside = from};
}

void FarSide::OnAlias(const FlowKey& inside, const FlowKey& external) {
  OnFlowOver(inside);
  const auto [entry, is_new] = announced_.try_emplace(external, inside);
  if (is_new) {
    ++external_[external.source];
  } else {
    known_[entry->second].reset();
    entry->second = inside;
  }
  known_[inside] = external;
}

void FarSide::OnFlowOver(const FlowKey& inside) {
  const auto known = known_.find(inside);
  if (known == known_.end() || !known->second.has_value()) return;
  const auto address = external_.find(known->second->source);
  if (announced_.erase(*known->second) > 0 && --address->second == 0) {
    external_.erase(address);
  }
  known->second.reset();
}

}  // namespace snf
