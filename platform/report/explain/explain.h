// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_EXPLAIN_EXPLAIN_H_
#define SNF_PLATFORM_REPORT_EXPLAIN_EXPLAIN_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/packet/flow_key.h"
#include "base/time.h"
#include "controller/core/packet_cost.h"
#include "platform/report/explain/explain_story.h"
#include "platform/run/run.h"
#include "platform/run/run_events.h"

namespace snf {

// Theory of operation. Follows one flow through a run and tells its story:
// every flowlet, why it began, what the policy saw, and what its packets met
// (`--explain`). It knows the flow by its key at on_arrival, where what follows
// before the next arrival belongs to that packet, and by its FlowIds later. A
// flow that was forgotten and came back has a new id; an id is kept while
// packets are under way under it, which bounds them.
//
// Example, abridged, of a flowlet that moved:
//
//   flowlet 3  +1.520 ms  gap of 1.2 ms > 500 µs; moves from unit 0 to 1
//     demand   20.0 Mbit/s = 20.0 %; room on 1 of 2 units
//     units     0: 95.0+25.0 no room   >1: 40.0
//     state    asked of unit 0 as of clock 10 at +1.522 ms; came 42.0 µs later
//     packets  10 with 12,300 bytes; clocks 11 to 20
//     latency  p50 120 µs, max 1.20 ms; longest wait 1.10 ms (clock 15)
//
// Bounds: the first kFirstFlowlets and the last kLastFlowlets are kept one by
// one, and some in between, until kMovedFlowlets of the kept ones have moved;
// all others are only summed up. Other flows cost a comparison an event; a
// decision of this one a pass over all units. Owner-thread only.
class Explainer final : public RunObserver {
 public:
  static constexpr size_t kMaxExplainers = 16;  // that a run may have
  static constexpr size_t kFirstFlowlets = 20;
  static constexpr size_t kMovedFlowlets = 3;
  static constexpr size_t kLastFlowlets = 10;
  static constexpr size_t kLastPulls = 64;  // known again when repeated

  // `key` as the classifier makes it for options.flow.kind. The policy has
  // static lifetime.
  Explainer(const FlowKey& key, const RunOptions& options,
            const PlacementPolicy& policy);

  // Tells the flowlet of this packet in full, even where other flowlets are
  // summed up.
  void Keep(FlowId flow, Clock clock) {
    keep_flow_ = flow;
    keep_clock_ = clock;
  }

  // The story so far; complete once the run is finished.
  std::string Story() const { return FormatStory(story_, options_); }
  const FlowStory& story() const { return story_; }
  // FlowIds that events are looked up for at present.
  size_t lives_followed() const { return lives_.size(); }

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
  void on_release(const ReleasedPacket& packet) override;
  void on_consumed(Instant now, const PacketMeta& meta) override;
  void on_drop(const ReleasedPacket& packet, std::string_view reason) override;

 private:
  struct Life {
    FlowId id = kNoFlow;
    uint32_t number = 0;
    uint64_t under_way = 0;  // packets enqueued and not yet seen to leave
  };

  // The last state of the flow that was pushed to a unit.
  struct Replica {
    FlowId flow = kNoFlow;
    Clock applied{};
    Instant came;
  };

  Life* FindLife(FlowId flow);
  void Left(Life* life);
  void on_hand_over(Instant now, UnitId unit, const PacketMeta& meta);
  // The flowlets kept, oldest first.
  size_t kept() const {
    return story_.first_flowlets.size() + story_.moved_flowlets.size() +
           story_.last_flowlets.size();
  }
  FlowletStory& Kept(size_t i);
  // Returns the flowlet of a clock; null if it is not kept.
  FlowletStory* FindFlowlet(FlowId flow, Clock clock);
  PacketFates& FatesOf(FlowletStory* flowlet);
  // Returns true for the same pull, sent again. Else notes it.
  bool IsRepeated(const Pull& pull);
  FlowletStory& Append();
  bool IsToBeKept(const FlowletStory& flowlet) const;
  void TellDrop(Instant now, uint32_t life, Clock clock,
                std::string_view reason);
  // Keeps the oldest of the last flowlets for its move, or adds it up.
  void MakeRoom();

  RunOptions options_;
  PacketCost cost_;
  FlowStory story_;
  std::vector<Life> lives_;        // the last one is the present one
  std::vector<Replica> replicas_;  // by unit
  std::deque<Pull> pulls_;         // the last kLastPulls, each once
  FlowId keep_flow_ = kNoFlow;
  Clock keep_clock_{};
  bool capture_started_ = false;
  // State of the last on_arrival:
  bool is_ours_ = false;
  uint32_t length_ = 0;
  Nanos silence_;  // since the flow's packet before
};

// Adds to `flowlet` the units that the policy could choose from: how many there
// are, and of FlowletStory::kMaxCandidates or fewer all, else the most telling
// ones. O(units); call it from on_decision, while loads are as the policy saw
// them.
void DescribeCandidates(const Decision& decision, const UnitPool& units,
                        FlowletStory& flowlet);

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_EXPLAIN_EXPLAIN_H_
