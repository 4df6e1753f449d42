// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_EXPLAIN_EXPLAIN_GROUP_H_
#define SNF_PLATFORM_EXPLAIN_EXPLAIN_GROUP_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/packet/flow_key.h"
#include "platform/explain/explain.h"
#include "platform/run/run.h"

namespace snf {

// Several flows' stories of one run: hands on what it sees to an Explainer for
// each. An event costs what it costs one, times their number. Owner-thread
// only.
class ExplainerGroup final : public RunObserver {
 public:
  static constexpr size_t kMaxFlows = 16;

  // As Explainer.
  ExplainerGroup(std::span<const FlowKey> keys, const RunOptions& options,
                 const PlacementPolicy& policy);

  std::vector<Explainer>& flows() { return flows_; }

  void on_decision(const Decision& decision, const UnitPool& pool) override;
  void OnArrival(Instant now, const FlowKey& key,
                 uint32_t original_length) override;
  void OnEnqueue(Instant now, UnitId unit, const PacketMeta& meta) override;
  void OnServiceBegin(Instant now, UnitId unit, const PacketMeta& meta,
                      Nanos wait) override;
  void OnStateSent(Instant now, UnitId sender, UnitId receiver,
                   const State& state) override;
  void OnPull(Instant now, UnitId asked, const Pull& pull) override;
  void OnState(Instant now, UnitId receiver, const State& state) override;
  void OnTook(Instant now, UnitId told, const Took& took) override;
  void OnReleased(Instant now, const PacketMeta& meta) override;
  void OnConsumed(Instant now, const PacketMeta& meta) override;
  void OnDropped(Instant now, FlowId flow, Clock clock,
                 std::string_view reason) override;

 private:
  std::vector<Explainer> flows_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_EXPLAIN_EXPLAIN_GROUP_H_
