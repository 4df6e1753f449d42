// SPDX-License-Identifier: Apache-2.0
#include "platform/process/quarantine.h"

#include <algorithm>

namespace snf {

Quarantine::Verdict Quarantine::on_end(Instant now, const FlowKey& flow,
                                       Clock clock, bool was_killed) {
  if (!flows_.contains(flow)) Forget(now);
  Flow& known = flows_[flow];
  known.last = now;
  if (was_killed && known.suspect != clock) {
    known.suspect = clock;
    return {};
  }
  ++known.failures;
  if (known.failures == kMostFailures) ++blocked_;
  return {.drops_packet = true, .blocks_flow = known.failures >= kMostFailures};
}

bool Quarantine::IsBlocked(Instant now, const FlowKey& flow) {
  const auto found = flows_.find(flow);
  if (found == flows_.end() || found->second.failures < kMostFailures) {
    return false;
  }
  if (now - found->second.last > kForget) {
    flows_.erase(found);
    --blocked_;
    return false;
  }
  found->second.last = now;
  return true;
}

// Makes room for another flow.
void Quarantine::Forget(Instant now) {
  const auto is_old = [now](const auto& each) {
    return now - each.second.last > kForget;
  };
  absl::erase_if(flows_, is_old);
  if (flows_.size() >= kMostFlows) {
    flows_.erase(std::ranges::min_element(
        flows_, {}, [](const auto& each) { return each.second.last; }));
  }
  blocked_ =
      static_cast<size_t>(std::ranges::count_if(flows_, [](const auto& each) {
        return each.second.failures >= kMostFailures;
      }));
}

}  // namespace snf
