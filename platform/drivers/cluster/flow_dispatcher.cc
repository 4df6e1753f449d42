// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/cluster/flow_dispatcher.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/ids.h"
#include "fmt/format.h"

namespace snf {

absl::Status FlowDispatcher::Check(const NetworkFunction& example,
                                   uint32_t controllers, uint64_t units) {
  if (units > kMaxUnits && !TablesOf(example).empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "the shared tables of an NF have at most {} units, of all controllers: "
        "these may have {}",
        kMaxUnits, units));
  }
  for (const NetworkFunction::Pool& pool : example.pools()) {
    for (uint32_t i = 0; i < controllers; ++i) {
      if (PartOf(pool, i, controllers).has_value()) continue;
      return absl::InvalidArgumentError(fmt::format(
          "{} controllers need at least 64 pieces each of the pool {}",
          controllers, pool.name));
    }
  }
  return absl::OkStatus();
}

FlowDispatcher::FlowDispatcher(const NetworkFunction& example,
                               uint32_t controllers)
    : blocks_(controllers) {
  SNF_CHECK(Check(example, controllers, /*units=*/0).ok());
  for (uint32_t c = 0; c < controllers; ++c) {
    SNF_CHECK(table_.Join(ControllerId{static_cast<uint8_t>(c)}));
    // Pools of an address have the same few ranges.
    for (const NetworkFunction::Pool& pool : example.pools()) {
      const PieceRange part = *PartOf(pool, c, controllers);
      if (std::ranges::find(blocks_[c], part) != blocks_[c].end()) continue;
      blocks_[c].push_back(part);
    }
  }
}

ControllerId FlowDispatcher::Steer(const FlowKey& key, bool by_alias) const {
  if (blocks_.size() == 1) return ControllerId{0};
  return by_alias ? *table_.Steer(key.source, key.source_port.host(), key)
                  : *table_.Steer(IpAddress{}, 0, key);
}

bool FlowDispatcher::on_alias(ControllerId of, const FlowKey& alias) {
  if (external_.insert(alias.source).second) {
    for (size_t c = 0; c < blocks_.size(); ++c) {
      for (const PieceRange& block : blocks_[c]) {
        table_.Give({.address = alias.source,
                     .first = static_cast<uint16_t>(block.first),
                     .last = static_cast<uint16_t>(block.last)},
                    ControllerId{static_cast<uint8_t>(c)});
      }
    }
  }
  return table_.Steer(alias.source, alias.source_port.host(), alias) == of;
}

}  // namespace snf
