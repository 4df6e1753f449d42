// SPDX-License-Identifier: Apache-2.0
#include "platform/real_time/release_order.h"

#include <algorithm>

namespace snf {

ReleaseOrder::Flow* ReleaseOrder::OtherFlow(FlowId flow) {
  std::vector<Flow>& flows = flows_[controller_of(flow)];
  const uint32_t slot = slot_of(flow);
  if (slot >= flows.size()) {
    if (flows.empty()) Reserve(flows);
    const size_t room = std::max(flows.capacity(), size_t{slot} + 1);
    flows.resize(std::min(2 * size_t{slot} + 64, room));
  }
  Flow& here = flows[slot];
  const bool is_newer = here.flow == kNoFlow || IsNewer(flow, here.flow);
  if (!is_newer) {
    const auto earlier = earlier_.find(flow);
    return earlier == earlier_.end() ? nullptr : &earlier->second;
  }
  if (here.flow != kNoFlow && !here.is_over()) earlier_[here.flow] = here;
  here = {};
  here.flow = flow;
  return &here;
}

void ReleaseOrder::End(FlowId flow, Clock last) {
  std::vector<Flow>& flows = flows_[controller_of(flow)];
  const uint32_t slot = slot_of(flow);
  const bool is_here = slot < flows.size() && flows[slot].flow == flow;
  Flow* const known = is_here ? &flows[slot] : OtherFlow(flow);
  if (known != nullptr) known->end = value(last);
}

void ReleaseOrder::Append(Flow& flow, const UnitCommand& command) {
  uint32_t node = static_cast<uint32_t>(nodes_.size());
  if (free_.empty()) {
    nodes_.push_back({command, kNone});
  } else {
    node = free_.back();
    free_.pop_back();
    nodes_[node] = {command, kNone};
  }
  (flow.last == kNone ? flow.first : nodes_[flow.last].next) = node;
  flow.last = node;
}

// Takes out the first command that may go; commands of one clock stay in order.
bool ReleaseOrder::TakeNext(Flow& flow, UnitCommand& next) {
  uint32_t before = kNone;
  for (uint32_t node = flow.first; node != kNone;
       before = node, node = nodes_[node].next) {
    const UnitCommand& command = nodes_[node].command;
    const uint64_t clock = value(command.meta.clock);
    if (clock > flow.ended + 1) continue;
    next = command;
    (before == kNone ? flow.first : nodes_[before].next) = nodes_[node].next;
    if (flow.last == node) flow.last = before;
    free_.push_back(node);
    if (Ends(next)) flow.ended = clock;
    return true;
  }
  return false;
}

}  // namespace snf
