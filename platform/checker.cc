// SPDX-License-Identifier: Apache-2.0
#include "platform/checker.h"

#include <fmt/format.h>

namespace snf {

Checker::Flow& Checker::Of(FlowId id) {
  const size_t slot = slot_of(id);
  if (slot >= flows_.size()) flows_.resize(slot + slot / 2 + 64);
  return flows_[slot];
}

void Checker::OnEnqueue(Instant now, const PacketMeta& meta) {
  Flow& flow = Of(meta.flow);
  if (flow.id != meta.flow) {
    CheckAllProcessed(now, flow);
    flow = {.id = meta.flow};
  }
  if (value(meta.clock) != flow.given + 1) {
    Violation(now, meta.flow,
              fmt::format("clock {} was given after clock {}",
                          value(meta.clock), flow.given));
  }
  flow.given = value(meta.clock);
}

void Checker::OnServiceBegin(Instant now, UnitId unit,
                             const PacketMeta& meta) {
  Flow& flow = Of(meta.flow);
  if (flow.in_service != kNoUnit) {
    Violation(now, meta.flow,
              fmt::format("unit {} began clock {} while unit {} was at work",
                          value(unit), value(meta.clock),
                          value(flow.in_service)));
  }
  if (value(meta.clock) != flow.processed + 1) {
    Violation(now, meta.flow,
              fmt::format("unit {} processed clock {} after clock {}",
                          value(unit), value(meta.clock), flow.processed));
  }
  flow.in_service = unit;
}

void Checker::OnServiceEnd(Instant now, UnitId unit, const PacketMeta& meta) {
  Flow& flow = Of(meta.flow);
  if (flow.in_service != unit) {
    Violation(now, meta.flow,
              fmt::format("unit {} ended clock {}, which it had not begun",
                          value(unit), value(meta.clock)));
  }
  flow.in_service = kNoUnit;
  flow.processed = value(meta.clock);
}

void Checker::OnRelease(Instant now, const PacketMeta& meta) {
  Flow& flow = Of(meta.flow);
  if (flow.id != meta.flow) return;  // its slot has a new user already
  if (value(meta.clock) <= flow.released) {
    Violation(now, meta.flow,
              fmt::format("clock {} was released after clock {}",
                          value(meta.clock), flow.released));
  }
  flow.released = value(meta.clock);
}

void Checker::OnEnd(Instant now) {
  for (const Flow& flow : flows_) CheckAllProcessed(now, flow);
}

void Checker::CheckAllProcessed(Instant now, const Flow& flow) {
  if (flow.id == kNoFlow || flow.processed == flow.given) return;
  Violation(now, flow.id,
            fmt::format("clock {} was given but only {} processed", flow.given,
                        flow.processed));
}

void Checker::Violation(Instant now, FlowId flow, const std::string& what) {
  ++violations_;
  if (messages_.size() == kMaxMessages) return;
  messages_.push_back(fmt::format("at {} ns, flow slot {} generation {}: {}",
                                  now.ns, slot_of(flow), generation_of(flow),
                                  what));
}

}  // namespace snf
