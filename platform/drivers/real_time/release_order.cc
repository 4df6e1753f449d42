// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_time/release_order.h"

#include <algorithm>

namespace snf {

void ReleaseOrder::MakeSlots(std::vector<Flow>& flows, uint32_t least) const {
  if (flows.empty()) Reserve(flows);
  const size_t room = std::max(flows.capacity(), size_t{least});
  flows.resize(std::min(2 * size_t{least} + 62, room));
}

// The flow takes its slot from the one that had it.
void ReleaseOrder::Begin(FlowId flow) {
  std::vector<Flow>& flows = flows_[controller_of(flow)];
  const uint32_t slot = slot_of(flow);
  if (slot >= flows.size()) MakeSlots(flows, slot + 1);
  Flow& here = flows[slot];
  if (here.flow == flow && !here.is_over()) return;  // it is given once more
  if (here.flow != kNoFlow && !here.is_over()) earlier_[here.flow] = here;
  here = {};
  here.flow = flow;
}

void ReleaseOrder::Take(FlowId flow, Clock last) {
  Begin(flow);
  Flow& here = flows_[controller_of(flow)][slot_of(flow)];
  here.ended = here.given = value(last);
}

// The flow has the slot now, which may have been another's that was never heard
// of.
void ReleaseOrder::Resume(Flow& here, FlowId flow, Clock newest) {
  if (here.flow == flow) return;
  if (flow == kNoFlow) {
    if (here.first == kNone) here.given = here.ended | Flow::kOver;
    return;
  }
  if (here.first != kNone) earlier_[here.flow] = here;
  const auto earlier = earlier_.find(flow);
  if (earlier == earlier_.end()) {
    // It was over, or another process's: so all clocks have ended that are not
    // given once more.
    has_inherited_ = true;
    here = {};
    here.flow = flow;
    here.ended = here.given = value(newest);
  } else {
    here = earlier->second;
    earlier_.erase(earlier);
  }
}

ReleaseOrder::Flow* ReleaseOrder::OtherFlow(FlowId flow) {
  const auto earlier = earlier_.find(flow);
  return earlier == earlier_.end() ? nullptr : &earlier->second;
}

ReleaseOrder::Flow* ReleaseOrder::Find(FlowId flow) {
  std::vector<Flow>& flows = flows_[controller_of(flow)];
  const uint32_t slot = slot_of(flow);
  const bool is_here = slot < flows.size() && flows[slot].flow == flow;
  return is_here ? &flows[slot] : OtherFlow(flow);
}

void ReleaseOrder::End(FlowId flow, Clock last) {
  Flow* const known = Find(flow);
  if (known != nullptr) known->given = value(last) | Flow::kOver;
}

bool ReleaseOrder::Append(Flow& flow, const UnitCommand& command) {
  if (waiting() >= kMaxWaiting) return false;
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
  return true;
}

// Takes out the first command that may go; commands of one clock stay in order.
// One that ends its clock once more is left out.
bool ReleaseOrder::TakeNext(Flow& flow, UnitCommand& next) {
  while (TakeFirst(flow, next)) {
    if (!Ends(next)) return true;
    if (value(next.meta.clock) > flow.ended) {
      flow.ended = value(next.meta.clock);
      return true;
    }
    repeated_ = next;
  }
  return false;
}

bool ReleaseOrder::TakeFirst(Flow& flow, UnitCommand& next) {
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
    return true;
  }
  return false;
}

}  // namespace snf
