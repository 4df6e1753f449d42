// SPDX-License-Identifier: Apache-2.0
#include "platform/checker.h"

#include <fmt/format.h>

namespace snf {

Checker::Flow& Checker::InSlot(FlowId id) {
  const size_t slot = slot_of(id);
  if (slot >= flows_.size()) flows_.resize(slot + slot / 2 + 64);
  return flows_[slot];
}

Checker::Flow* Checker::Find(Instant now, const PacketMeta& meta) {
  if (Flow& flow = InSlot(meta.flow); flow.id == meta.flow) return &flow;
  const auto ending = ending_.find(meta.flow);
  if (ending != ending_.end()) return &ending->second;
  Violation(now, meta.flow,
            fmt::format("clock {} came from nowhere", value(meta.clock)));
  return nullptr;
}

void Checker::OnEnqueue(Instant now, const PacketMeta& meta) {
  Flow& flow = InSlot(meta.flow);
  if (flow.id != meta.flow) {
    if (flow.left < flow.given) ending_.emplace(flow.id, flow);
    flow = {.id = meta.flow};
  }
  if (value(meta.clock) != flow.given + 1) {
    Violation(now, meta.flow,
              fmt::format("clock {} was given after clock {}",
                          value(meta.clock), flow.given));
  }
  flow.given = value(meta.clock);
}

void Checker::OnServiceBegin(Instant now, UnitId unit, const PacketMeta& meta) {
  Flow* const flow = Find(now, meta);
  if (flow == nullptr) return;
  if (flow->in_service != kNoUnit) {
    Violation(
        now, meta.flow,
        fmt::format("unit {} began clock {} while unit {} was at work",
                    value(unit), value(meta.clock), value(flow->in_service)));
  }
  if (value(meta.clock) != flow->processed + 1) {
    Violation(now, meta.flow,
              fmt::format("unit {} processed clock {} after clock {}",
                          value(unit), value(meta.clock), flow->processed));
  }
  flow->in_service = unit;
}

void Checker::OnServiceEnd(Instant now, UnitId unit, const PacketMeta& meta) {
  Flow* const flow = Find(now, meta);
  if (flow == nullptr) return;
  if (flow->in_service != unit) {
    Violation(now, meta.flow,
              fmt::format("unit {} ended clock {}, which it had not begun",
                          value(unit), value(meta.clock)));
  }
  flow->in_service = kNoUnit;
  flow->processed = value(meta.clock);
}

void Checker::OnRelease(Instant now, const PacketMeta& meta) {
  Flow* const flow = Find(now, meta);
  if (flow == nullptr) return;
  if (value(meta.clock) <= flow->released) {
    Violation(now, meta.flow,
              fmt::format("clock {} was released after clock {}",
                          value(meta.clock), flow->released));
  } else if (value(meta.clock) > flow->processed) {
    Violation(now, meta.flow,
              fmt::format("clock {} was released when clock {} was processed",
                          value(meta.clock), flow->processed));
  }
  flow->released = value(meta.clock);
  Left(*flow);
}

void Checker::OnTaken(Instant now, const PacketMeta& meta) {
  if (Flow* const flow = Find(now, meta); flow != nullptr) Left(*flow);
}

void Checker::Left(Flow& flow) {
  ++flow.left;
  if (flow.left == flow.given) ending_.erase(flow.id);
}

void Checker::OnEnd(Instant now) {
  for (const auto& [id, flow] : ending_) CheckAllLeft(now, flow);
  for (const Flow& flow : flows_) CheckAllLeft(now, flow);
}

void Checker::CheckAllLeft(Instant now, const Flow& flow) {
  if (flow.left == flow.given) return;
  Violation(now, flow.id,
            fmt::format("{} packets were given a clock, {} left; the last "
                        "clock processed is {}",
                        flow.given, flow.left, flow.processed));
}

void Checker::Violation(Instant now, FlowId flow, const std::string& what) {
  ++violations_;
  if (messages_.size() == kMaxMessages) return;
  messages_.push_back(fmt::format("at {} ns, flow slot {} generation {}: {}",
                                  now.ns, slot_of(flow), generation_of(flow),
                                  what));
}

}  // namespace snf
