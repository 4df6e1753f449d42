// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_EXPLAIN_EXPLAIN_STORY_H_
#define SNF_PLATFORM_REPORT_EXPLAIN_EXPLAIN_STORY_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "base/ids.h"
#include "base/packet/flow_key.h"
#include "base/time.h"
#include "controller/core/controller.h"
#include "controller/units/unit_pool.h"
#include "nlohmann/json_fwd.hpp"
#include "platform/report/explain/packet_fates.h"
#include "platform/run/run.h"

namespace snf {

// A unit as the policy saw it; loads and scores in quanta (LoadMeter).
struct CandidateUnit {
  UnitId unit = kNoUnit;
  uint32_t load = 0;
  int64_t score = -1;      // -1 without room
  bool has_state = false;  // the flow's last unit, or a landed replica
};

// A flowlet's state on its way to the flowlet's unit.
struct StateTransfer {
  Instant asked;  // when the pull was sent
  UnitId from = kNoUnit;
  Clock need{};
  Instant came = Instant::max();
};

// State pushed while the flow idled in a flowlet or behind it. Each time it
// goes to several units at once.
struct StatePushes {
  uint64_t times = 0;
  Instant last;               // of the last time: when,
  Clock clock{};              // the state as of which clock,
  std::vector<UnitId> units;  // and where to
};

// The state's leaving a unit that is to stop, by a null packet (U8).
struct HandOver {
  Instant time;
  Clock clock{};
  UnitId from = kNoUnit;
  UnitId to = kNoUnit;
};

// One flowlet, or, with FlowletCause::kLate, the rest of one.
struct FlowletStory {
  // No more candidates than this are kept; of a larger pool the unit chosen,
  // those with the state, the fullest with room and the least loaded.
  static constexpr uint32_t kMaxCandidates = 8;
  // Packets, the first ones, whose median latency is reported.
  static constexpr uint32_t kMaxLatencies = 256;

  uint32_t life = 0;
  Decision decision;         // of a new life, `gap` is the silence before
  uint32_t cause_bytes = 0;  // length of the packet that began it
  std::vector<CandidateUnit> candidates;  // by id
  uint32_t placeable_units = 0;
  uint32_t units_with_room = 0;
  uint32_t starting_units = 0;    // not yet placeable
  bool unit_starting = false;     // the unit chosen was not ready yet
  UnitPool::State owner_state{};  // where there is an owner

  PacketFates packets;
  Clock first{};  // 0 while none was enqueued
  Clock last{};
  bool moved = false;
  bool seamless = false;  // moved, and the state was already at the unit
  Instant there_since = Instant::max();  // if seamless, and it was seen to come
  std::optional<StateTransfer> state;
  StatePushes pushes;
  std::optional<HandOver> hand_over;  // behind the flowlet
  std::vector<int64_t> latencies_ns;
};

// A packet that was dropped, by a unit or, with clock 0, before it had one.
struct DropStory {
  Instant time;
  uint32_t life = 0;
  Clock clock{};
  std::string reason;
};

// The story of one flow. Plain data: Explainer collects it, FormatStory writes
// it.
struct FlowStory {
  FlowKey key;
  std::string_view policy;  // with static lifetime
  bool per_packet = false;  // every packet is a flowlet
  bool by_score = false;    // the candidates' scores decide
  Instant capture_start;
  Instant first_packet;
  Instant last_packet;
  PacketFates packets;
  Histogram latency_ns;
  uint32_t lives = 0;
  uint64_t flowlets = 0;
  uint64_t moved = 0;
  uint64_t seamless = 0;
  uint64_t pulls = 0;   // moves for which state was asked
  uint64_t pushes = 0;  // a unit each
  uint64_t hand_overs = 0;
  uint64_t overcommitted = 0;
  uint64_t late = 0;  // placed again, since their unit had been parked
  static constexpr size_t kMaxDrops = 12;
  std::vector<DropStory> drops;            // the first ones
  std::vector<uint64_t> flowlets_on_unit;  // by UnitId

  std::vector<FlowletStory> first_flowlets;
  // Flowlets in between that moved, if few of the first did; and the one that
  // was asked for (Explainer::Keep).
  std::vector<FlowletStory> moved_flowlets;
  // Sums over all other flowlets in between.
  uint64_t between = 0;
  PacketFates between_packets;
  uint64_t between_moved = 0;
  uint64_t between_overcommitted = 0;
  std::deque<FlowletStory> last_flowlets;
};

// The story as an object. Times are in ns since the run's first packet.
nlohmann::ordered_json JsonOf(const FlowStory& story);

// Returns the story as text of at most 80 columns, unless a single name is
// longer.
std::string FormatStory(const FlowStory& story, const RunOptions& options);
// Its part that explains the words.
std::string FormatLegend(const FlowStory& story, const RunOptions& options);

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_EXPLAIN_EXPLAIN_STORY_H_
