// SPDX-License-Identifier: Apache-2.0
#include "platform/explain/explain_group.h"

namespace snf {

ExplainerGroup::ExplainerGroup(std::span<const FlowKey> keys,
                               const RunOptions& options,
                               const PlacementPolicy& policy) {
  for (const FlowKey& key : keys) flows_.emplace_back(key, options, policy);
}

void ExplainerGroup::on_decision(const Decision& decision,
                                 const UnitPool& units) {
  for (Explainer& each : flows_) each.on_decision(decision, units);
}

void ExplainerGroup::on_arrival(Instant now, const FlowKey& key,
                                uint32_t original_length) {
  for (Explainer& each : flows_) each.on_arrival(now, key, original_length);
}

void ExplainerGroup::on_enqueue(Instant now, UnitId unit,
                                const PacketMeta& meta) {
  for (Explainer& each : flows_) each.on_enqueue(now, unit, meta);
}

void ExplainerGroup::on_service_begin(Instant now, UnitId unit,
                                      const PacketMeta& meta, Nanos wait) {
  for (Explainer& each : flows_) each.on_service_begin(now, unit, meta, wait);
}

void ExplainerGroup::on_state_sent(Instant now, UnitId sender, UnitId receiver,
                                   const State& state) {
  for (Explainer& each : flows_)
    each.on_state_sent(now, sender, receiver, state);
}

void ExplainerGroup::on_pull(Instant now, UnitId asked, const Pull& pull) {
  for (Explainer& each : flows_) each.on_pull(now, asked, pull);
}

void ExplainerGroup::on_state(Instant now, UnitId receiver,
                              const State& state) {
  for (Explainer& each : flows_) each.on_state(now, receiver, state);
}

void ExplainerGroup::on_takeover(Instant now, UnitId told,
                                 const Takeover& takeover) {
  for (Explainer& each : flows_) each.on_takeover(now, told, takeover);
}

void ExplainerGroup::on_released(Instant now, const PacketMeta& meta) {
  for (Explainer& each : flows_) each.on_released(now, meta);
}

void ExplainerGroup::on_consumed(Instant now, const PacketMeta& meta) {
  for (Explainer& each : flows_) each.on_consumed(now, meta);
}

void ExplainerGroup::on_dropped(Instant now, FlowId flow, Clock clock,
                                std::string_view reason) {
  for (Explainer& each : flows_) each.on_dropped(now, flow, clock, reason);
}

}  // namespace snf
