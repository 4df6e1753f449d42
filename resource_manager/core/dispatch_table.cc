// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/core/dispatch_table.h"

#include <algorithm>
#include <iterator>

#include "base/keyed_hash.h"

namespace snf {

bool DispatchTable::Join(ControllerId controller) {
  const auto at = std::lower_bound(live_.begin(), live_.end(), controller);
  if (at != live_.end() && *at == controller) return Refuse();
  live_.insert(at, controller);
  ++epoch_;
  return true;
}

bool DispatchTable::Leave(ControllerId controller) {
  const auto at = std::lower_bound(live_.begin(), live_.end(), controller);
  if (at == live_.end() || *at != controller) return Refuse();
  live_.erase(at);
  std::erase_if(blocks_,
                [&](const auto& b) { return b.second.owner == controller; });
  ++epoch_;
  return true;
}

bool DispatchTable::Give(const Block& block, ControllerId owner) {
  if (block.first > block.last || blocks_.size() >= kMaxBlocks ||
      !std::binary_search(live_.begin(), live_.end(), owner)) {
    return Refuse();
  }
  const auto next = blocks_.lower_bound({block.address, block.first});
  if (next != blocks_.end() && next->first.first == block.address &&
      next->first.second <= block.last) {
    return Refuse();
  }
  if (next != blocks_.begin()) {
    const auto before = std::prev(next);
    if (before->first.first == block.address &&
        before->second.last >= block.first) {
      return Refuse();
    }
  }
  blocks_.emplace_hint(next, std::pair{block.address, block.first},
                       Owned{block.last, owner});
  ++epoch_;
  return true;
}

bool DispatchTable::Pin(const FlowKey& endpoint, ControllerId owner) {
  const auto pin = pins_.find(endpoint);
  if (pin == pins_.end() && pins_.size() >= kMaxPins) return Refuse();
  pins_[endpoint] = owner;
  ++epoch_;
  return true;
}

std::optional<ControllerId> DispatchTable::OwnerOf(
    const FlowKey& endpoint) const {
  const auto pin = pins_.find(endpoint);
  if (pin != pins_.end()) return pin->second;
  return FindBlock(endpoint.source, endpoint.source_port.host());
}

std::optional<ControllerId> DispatchTable::SteerTo(
    const FlowKey& endpoint) const {
  const auto owner = OwnerOf(endpoint);
  return owner.has_value() ? owner : Steer({}, 0, endpoint);
}

std::optional<ControllerId> DispatchTable::FindBlock(const IpAddress& address,
                                                     uint16_t port) const {
  const auto next = blocks_.upper_bound({address, port});
  if (next == blocks_.begin()) return std::nullopt;
  const auto& [start, owned] = *std::prev(next);
  if (start.first != address || port > owned.last) return std::nullopt;
  return owned.owner;
}

std::optional<ControllerId> DispatchTable::Steer(
    const IpAddress& destination, uint16_t port,
    const FlowKey& connection) const {
  if (const auto owner = FindBlock(destination, port); owner.has_value()) {
    return owner;
  }
  std::optional<ControllerId> best;
  uint64_t best_weight = 0;
  const uint64_t flow = Hash(connection);
  for (const ControllerId controller : live_) {
    // Odd constants of splitmix64 keep small ids apart.
    const uint64_t salt = (value(controller) + 1) * 0x9e37'79b9'7f4a'7c15u;
    const uint64_t weight = Fold(flow ^ salt, 0xbf58'476d'1ce4'e5b9u ^ salt);
    if (!best || weight > best_weight) {
      best = controller;
      best_weight = weight;
    }
  }
  return best;
}

}  // namespace snf
