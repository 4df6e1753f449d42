// SPDX-License-Identifier: Apache-2.0
// Random schedules of a controller and its heir: packets come, units run them
// late, flows end, the connection to the heir breaks. Whenever the controller
// dies, the heir has each flow as of a moment ago.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "controller/core/placement.h"
#include "controller/hand_over/flow_sweep.h"
#include "controller/hand_over/standby_flows.h"

namespace snf {
namespace {

constexpr Nanos kTick = Microseconds(500);
constexpr Nanos kLongestAnswer = Milliseconds(5);
// A sweep begins every 20 ms; a flow that it passed just now waits for the
// next.
constexpr Nanos kBound{2 * FlowSweep::kPeriod.ns + kLongestAnswer.ns};
constexpr uint32_t kSelf = 1;
constexpr uint8_t kKeys = 12;

FlowKey Key(uint8_t number) {
  FlowKey key{};
  key.form = FlowKeyForm::kIpv4;
  key.source.bytes[15] = std::byte{number};
  return key;
}

ControllerOptions Options() {
  ControllerOptions options;
  options.controller_id = kSelf;
  options.leased = true;
  options.max_units = 1;
  options.max_flows = 8;  // slots have several flows, one after the other
  options.replicas = 0;
  return options;
}

// A flow at its unit.
struct Run {
  FlowKey key;
  Clock given{};
  Clock applied{};
  std::map<Instant, Clock> history{};  // of `applied`
  bool has_ended = false;
};

class World {
 public:
  explicit World(uint64_t seed)
      : rng_(seed), controller_(Options(), *FindPlacementPolicy("snf")) {
    EXPECT_TRUE(controller_.on_lease(now_, UnitId{0}, 1'024, out_));
    out_.clear();
    Connect();
  }

  void Go(Nanos time, bool has_traffic) {
    for (const Instant end = now_ + time; now_ < end; now_ = now_ + kTick) {
      if (has_traffic) Happen();
      RunPackets();
      Answer();
      const bool is_whole = sweep_.Turn(
          now_, controller_, 64,
          [&](FlowId flow) {
            answers_.push_back({now_ + Delay(), flow});
          },
          [&](const FlowSweep::Ended& flow) {
            heir_.OnEnd(kSelf, flow.key, flow.flow);
          });
      if (is_whole) {
        heir_.OnWhole(kSelf, round_);
        whole_ = now_;
      }
    }
  }

  // The controller dies: looks at what the heir has.
  void Check() {
    if (now_ - whole_since() < kBound) return;  // not all was sent once
    size_t flows = 0;
    for (auto& [id, run] : runs_) {
      if (run.has_ended) continue;
      const auto before = run.history.upper_bound(now_ + Nanos{-kBound.ns});
      if (before == run.history.begin()) continue;
      const StandbyFlow* const taken = heir_.Find(run.key, false, now_);
      ASSERT_NE(taken, nullptr);
      EXPECT_EQ(taken->flow.name.flow, id);
      EXPECT_GE(taken->flow.last, std::prev(before)->second);
      EXPECT_LE(taken->flow.last, run.applied);
      EXPECT_EQ(taken->state.applied, taken->flow.last);
      ++flows;
    }
    checked_ += flows;
  }
  // Nothing happens any more: the heir has just the flows that there are.
  void CheckWhole() {
    size_t flows = 0;
    for (const auto& [id, run] : runs_) {
      if (run.has_ended) continue;
      ++flows;
      const StandbyFlow* const taken = heir_.Find(run.key, false, now_);
      ASSERT_NE(taken, nullptr);
      EXPECT_EQ(taken->flow.last, run.given);
    }
    EXPECT_EQ(heir_.size(), flows);
    checked_ += flows;
  }
  uint64_t checked() const { return checked_; }

 private:
  struct Asked {
    Instant due;
    FlowId flow;
  };

  Nanos Delay() { return Nanos{rng_.Uniform(0, kLongestAnswer.ns)}; }
  Instant whole_since() const { return whole_; }

  void Connect() {
    ++round_;
    whole_ = Instant::max();
    sweep_.Begin();
  }

  void Happen() {
    if (rng_.Chance(20'000))
      Packet(Key(static_cast<uint8_t>(rng_.Below(kKeys))));
    if (rng_.Chance(1'500)) End();
    if (rng_.Chance(60)) Connect();
  }

  void Packet(const FlowKey& key) {
    const Arrival arrival = {.key = key, .time = now_, .original_length = 100};
    out_.clear();
    ASSERT_EQ(controller_.on_packets(now_, {&arrival, 1}, out_), 1u);
    for (const ControllerCommand& command : out_.commands()) {
      if (command.kind != ControllerCommand::Kind::kEnqueue) continue;
      Run& run = runs_[command.meta.flow];
      run.key = key;
      run.given = command.meta.clock;
    }
    controller_.on_drained(now_,
                           {.unit = UnitId{0}, .packets = 1, .bytes = 100});
  }

  void End() {
    for (auto& [id, run] : runs_) {
      if (run.has_ended || run.applied != run.given || !rng_.Chance(20'000)) {
        continue;
      }
      out_.clear();
      run.has_ended = controller_.DeleteFlow(now_, id, out_);
      return;
    }
  }

  void RunPackets() {
    for (auto& [id, run] : runs_) {
      if (run.has_ended || run.applied == run.given || rng_.Chance(20'000)) {
        continue;
      }
      run.applied = run.applied + 1;
      run.history[now_] = run.applied;
    }
  }

  void Answer() {
    std::erase_if(answers_, [&](const Asked& asked) {
      if (asked.due > now_) return false;
      const Run& run = runs_[asked.flow];
      const State state = {.flow = asked.flow, .applied = run.applied};
      if (run.applied == Clock{}) return true;
      const auto flow = sweep_.OnState(controller_, state);
      if (flow.has_value()) {
        heir_.Put(kSelf, round_, now_, {.flow = *flow, .state = state});
      }
      return true;
    });
  }

  Rng rng_;
  Instant now_{1'000'000'000};
  ControllerOut out_;
  Controller controller_;
  FlowSweep sweep_;
  StandbyFlows heir_{{}};
  uint64_t round_ = 0;
  Instant whole_ = Instant::max();  // when this round became whole
  std::map<FlowId, Run> runs_;
  std::vector<Asked> answers_;
  uint64_t checked_ = 0;
};

TEST(FlowSweepRandom, TheHeirHasEachFlowAsOfAMomentAgo) {
  const TestSeeds seeds(300, 20'000);
  uint64_t checked = 0;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    seeds.Note(seed);
    Rng rng(seed);
    World dies(seed);
    dies.Go(Milliseconds(rng.Uniform(50, 600)), true);
    dies.Check();
    World rests(seed);
    rests.Go(Milliseconds(300), true);
    rests.Go(Milliseconds(200), false);
    rests.CheckWhole();
    checked += dies.checked() + rests.checked();
    if (testing::Test::HasFatalFailure()) return;
  }
  // The schedules are not idle.
  if (!seeds.is_part) {
    EXPECT_GT(checked, 3 * seeds.count());
  }
}

}  // namespace
}  // namespace snf
