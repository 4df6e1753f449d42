// SPDX-License-Identifier: Apache-2.0
#include "platform/explain/explain_group.h"

namespace snf {

ExplainerGroup::ExplainerGroup(std::span<const FlowKey> keys,
                               const RunOptions& options,
                               const PlacementPolicy& policy) {
  for (const FlowKey& key : keys) flows_.emplace_back(key, options, policy);
}

void ExplainerGroup::on_decision(const Decision& decision,
                                 const UnitPool& pool) {
  for (Explainer& each : flows_) each.on_decision(decision, pool);
}

void ExplainerGroup::OnArrival(Instant now, const FlowKey& key,
                               uint32_t original_length) {
  for (Explainer& each : flows_) each.OnArrival(now, key, original_length);
}

void ExplainerGroup::OnEnqueue(Instant now, UnitId unit,
                               const PacketMeta& meta) {
  for (Explainer& each : flows_) each.OnEnqueue(now, unit, meta);
}

void ExplainerGroup::OnServiceBegin(Instant now, UnitId unit,
                                    const PacketMeta& meta, Nanos wait) {
  for (Explainer& each : flows_) each.OnServiceBegin(now, unit, meta, wait);
}

void ExplainerGroup::OnStateSent(Instant now, UnitId sender, UnitId receiver,
                                 const State& state) {
  for (Explainer& each : flows_) each.OnStateSent(now, sender, receiver, state);
}

void ExplainerGroup::OnPull(Instant now, UnitId asked, const Pull& pull) {
  for (Explainer& each : flows_) each.OnPull(now, asked, pull);
}

void ExplainerGroup::OnState(Instant now, UnitId receiver, const State& state) {
  for (Explainer& each : flows_) each.OnState(now, receiver, state);
}

void ExplainerGroup::OnTook(Instant now, UnitId told, const Took& took) {
  for (Explainer& each : flows_) each.OnTook(now, told, took);
}

void ExplainerGroup::OnReleased(Instant now, const PacketMeta& meta) {
  for (Explainer& each : flows_) each.OnReleased(now, meta);
}

void ExplainerGroup::OnConsumed(Instant now, const PacketMeta& meta) {
  for (Explainer& each : flows_) each.OnConsumed(now, meta);
}

void ExplainerGroup::OnDropped(Instant now, FlowId flow, Clock clock,
                               std::string_view reason) {
  for (Explainer& each : flows_) each.OnDropped(now, flow, clock, reason);
}

}  // namespace snf
