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

  void on_decision(const Decision& decision, const UnitPool& units) override;
  void on_arrival(Instant now, const FlowKey& key,
                  uint32_t original_length) override;
  void on_enqueue(Instant now, UnitId unit, const PacketMeta& meta) override;
  void on_service_begin(Instant now, UnitId unit, const PacketMeta& meta,
                        Nanos wait) override;
  void on_state_sent(Instant now, UnitId sender, UnitId receiver,
                     const State& state) override;
  void on_pull(Instant now, UnitId asked, const Pull& pull) override;
  void on_state(Instant now, UnitId receiver, const State& state) override;
  void on_takeover(Instant now, UnitId told, const Takeover& takeover) override;
  void on_released(Instant now, const PacketMeta& meta) override;
  void on_consumed(Instant now, const PacketMeta& meta) override;
  void on_dropped(Instant now, FlowId flow, Clock clock,
                  std::string_view reason) override;

 private:
  std::vector<Explainer> flows_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_EXPLAIN_EXPLAIN_GROUP_H_
