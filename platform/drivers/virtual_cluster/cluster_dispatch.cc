// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_cluster/cluster_dispatch.h"

#include <algorithm>

#include "base/check.h"
#include "platform/drivers/cluster/flow_dispatcher.h"
#include "platform/run/run.h"

namespace snf {

void ClusterDispatch::Add(ControllerId id) {
  SNF_CHECK(table_.Join(id));
  live_.push_back(id);
}

bool ClusterDispatch::Enter(ControllerId id) {
  if (std::erase(joining_, id) == 0) return false;
  Add(id);
  return true;
}

void ClusterDispatch::Remove(ControllerId id) {
  SNF_CHECK(table_.Leave(id) && std::erase(live_, id) == 1);
}

bool ClusterDispatch::has(ControllerId id) const {
  return std::ranges::count(live_, id) > 0 ||
         std::ranges::count(joining_, id) > 0;
}

std::optional<ControllerId> ClusterDispatch::Choose(int controller,
                                                    Rng& rng) const {
  if (live_.empty()) return std::nullopt;
  if (controller == Kill::kAnyController) {
    return live_[rng.Below(live_.size())];
  }
  const auto found = std::ranges::find_if(live_, [controller](ControllerId id) {
    return int{value(id)} == controller;
  });
  return found == live_.end() ? std::nullopt : std::optional(*found);
}

ControllerId ClusterDispatch::Steer(const FlowKey& key, bool by_alias) const {
  return *(by_alias ? table_.SteerTo(key) : table_.Steer(IpAddress{}, 0, key));
}

void ClusterDispatch::on_alias(ControllerId of, const FlowKey& alias) {
  if (external_.try_emplace(alias.source, true).second) {
    GiveBlocks(PartsOf(example_.pools(), controllers_), alias.source, table_);
  }
  if (table_.OwnerOf(alias) != of) table_.Pin(alias, of);
}

}  // namespace snf
