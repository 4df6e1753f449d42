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
  return CheckParts(example, controllers);
}

void GiveBlocks(const std::vector<std::vector<PieceRange>>& parts,
                IpAddress address, DispatchTable& table) {
  for (size_t c = 0; c < parts.size(); ++c) {
    for (const PieceRange& part : parts[c]) {
      table.Give({.address = address,
                  .first = static_cast<uint16_t>(part.first),
                  .last = static_cast<uint16_t>(part.last)},
                 ControllerId{static_cast<uint8_t>(c)});
    }
  }
}

FlowDispatcher::FlowDispatcher(const NetworkFunction& example,
                               uint32_t controllers) {
  SNF_CHECK(Check(example, controllers, /*units=*/0).ok());
  blocks_ = PartsOf(example.pools(), controllers);
  for (uint32_t c = 0; c < controllers; ++c) {
    SNF_CHECK(table_.Join(ControllerId{static_cast<uint8_t>(c)}));
  }
}

ControllerId FlowDispatcher::Steer(const FlowKey& key, bool by_alias) const {
  if (blocks_.size() == 1) return ControllerId{0};
  return by_alias ? *table_.Steer(key.source, key.source_port.host(), key)
                  : *table_.Steer(IpAddress{}, 0, key);
}

bool FlowDispatcher::on_alias(ControllerId of, const FlowKey& alias) {
  if (external_.insert(alias.source).second) {
    GiveBlocks(blocks_, alias.source, table_);
  }
  return table_.Steer(alias.source, alias.source_port.host(), alias) == of;
}

}  // namespace snf
