// SPDX-License-Identifier: Apache-2.0
// Random schedules of a controller and its heir: packets come, units run them
// late, flows begin and end, messages take their time, the connection to the
// heir breaks. Whenever the controller dies, the heir has each flow as of a
// moment ago.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>
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
constexpr Nanos kLongestWay = Milliseconds(15);
// A sweep begins every 20 ms; a flow that it passed just now waits for the
// next.
constexpr Nanos kBound{2 * FlowSweep::kPeriod.ns + kLongestAnswer.ns +
                       kLongestWay.ns};
// Without flows that are never shown, the second sweep has all.
constexpr Nanos kWholeBound{2 * FlowSweep::kPeriod.ns + kBound.ns};
// A sweep that asks may be late by its pauses.
constexpr Nanos kWholeBoundOfUnshown{(FlowSweep::kMostAwaited + 4) *
                                     (FlowSweep::kPeriod.ns + kTick.ns)};
constexpr uint32_t kSelf = 1;
constexpr uint16_t kKeys = 12;

FlowKey Key(uint16_t number) {
  FlowKey key{};
  key.form = FlowKeyForm::kIpv4;
  key.source_port = be16{number};
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

// What the schedules met.
struct Met {
  uint64_t kept = 0;    // flows that the heir had when the controller died
  uint64_t newest = 0;  // of these, as of their newest clock
  uint64_t gone = 0;    // flows that had ended, and the heir had not
  uint64_t rested = 0;  // flows that the heir had after a rest
  uint64_t wholes = 0;
  uint64_t outlived = 0;     // copies that a whole round has left
  uint64_t wholes_amid = 0;  // while some flow was never sent
  uint64_t stale = 0;        // messages of rounds that were over
};

// Carries messages in their order, which a connection may lose; what an older
// connection carried may come later than what a newer one carries, and is
// dropped then (StateLink).
class Way {
 public:
  void Connect(uint64_t round, bool loses) {
    if (loses && !rounds_.empty()) rounds_.rbegin()->second.clear();
    round_ = round;
  }
  void Send(Instant due, std::function<void()> deliver) {
    std::deque<Message>& queue = rounds_[round_];
    if (!queue.empty()) due = std::max(due, queue.back().due);
    queue.push_back({due, std::move(deliver)});
  }
  void Deliver(Instant now, Met& met) {
    for (auto& [round, queue] : rounds_) {
      for (; !queue.empty() && queue.front().due <= now; queue.pop_front()) {
        if (round < newest_) {
          ++met.stale;
          continue;
        }
        newest_ = round;
        queue.front().deliver();
      }
    }
  }

 private:
  struct Message {
    Instant due;
    std::function<void()> deliver;
  };
  std::map<uint64_t, std::deque<Message>> rounds_;
  uint64_t round_ = 0;
  uint64_t newest_ = 0;  // of which a message came
};

// A flow at its unit.
struct Run {
  FlowKey key;
  Clock given{};
  Clock applied{};
  std::map<Instant, Clock> history{};  // of `applied`
  std::optional<Instant> ended{};
  bool is_unshown = false;
};

class World {
 public:
  // If it has unshown flows, units do not show one flow of eight.
  World(uint64_t seed, bool has_unshown, Met& met)
      : rng_(seed),
        has_unshown_(has_unshown),
        ends_often_(rng_.Chance(32'768)),
        met_(met),
        controller_(Options(), *FindPlacementPolicy("snf")) {
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
            answers_.push_back({now_ + Delay(kLongestAnswer), flow});
          },
          [&](const FlowSweep::Ended& flow) {
            Send([this, flow] { heir_.OnEnd(kSelf, flow.key, flow.flow); });
          });
      if (is_whole) SendWhole();
      way_.Deliver(now_, met_);
      const Nanos bound = has_unshown_ ? kWholeBoundOfUnshown : kWholeBound;
      ASSERT_TRUE(whole_ != Instant::max() || now_ - connected_ < bound);
    }
  }

  // The controller dies: looks at what the heir has.
  void Check() {
    if (whole_ == Instant::max() || now_ - whole_ < kBound) return;
    const Instant before = now_ + Nanos{-kBound.ns};
    for (const auto& [id, run] : runs_) {
      const StandbyFlow* const copy = heir_.Find(run.key, false, now_);
      const bool is_same = copy != nullptr && copy->flow.name.flow == id;
      if (run.ended.has_value()) {
        if (*run.ended > before) continue;
        EXPECT_FALSE(is_same);
        ++met_.gone;
        continue;
      }
      const auto since = run.history.upper_bound(before);
      if (run.is_unshown || since == run.history.begin()) continue;
      ASSERT_TRUE(is_same);
      EXPECT_GE(copy->flow.last, std::prev(since)->second);
      EXPECT_LE(copy->flow.last, run.applied);
      EXPECT_EQ(copy->state.applied, copy->flow.last);
      ++met_.kept;
      met_.newest += copy->flow.last == run.applied ? 1 : 0;
    }
  }
  // Nothing happens any more: the heir has just the flows that there are.
  void CheckWhole() {
    size_t flows = 0;
    for (const auto& [id, run] : runs_) {
      if (run.ended.has_value() || run.is_unshown) continue;
      ++flows;
      const StandbyFlow* const copy = heir_.Find(run.key, false, now_);
      ASSERT_NE(copy, nullptr);
      EXPECT_EQ(copy->flow.last, run.given);
    }
    EXPECT_EQ(heir_.size(), flows);
    met_.rested += flows;
  }

  void Connect() {
    way_.Connect(++round_, rng_.Chance(32'768));
    connected_ = now_;
    whole_ = Instant::max();
    sweep_.Begin();
  }

 private:
  struct Asked {
    Instant due;
    FlowId flow;
  };

  Nanos Delay(Nanos most) { return Nanos{rng_.Uniform(0, most.ns)}; }
  void Send(std::function<void()> deliver) {
    way_.Send(now_ + Delay(kLongestWay), std::move(deliver));
  }
  void SendWhole() {
    met_.wholes_amid += std::ranges::any_of(runs_, [](const auto& run) {
      return !run.second.ended.has_value() && run.second.applied == Clock{};
    });
    Send([this, round = round_] {
      const std::vector<FlowId> kept = KeptOfLive();
      heir_.OnWhole(kSelf, round);
      EXPECT_EQ(KeptOfLive(), kept) << "just what has ended is gone";
      met_.outlived += kept.size();
      if (round != round_) return;
      whole_ = now_;
      ++met_.wholes;
    });
  }

  // Flows that go on, and that the heir has.
  std::vector<FlowId> KeptOfLive() {
    std::vector<FlowId> kept;
    for (const auto& [id, run] : runs_) {
      if (run.ended.has_value() || run.is_unshown) continue;
      const StandbyFlow* const copy = heir_.Find(run.key, false, now_);
      if (copy != nullptr && copy->flow.name.flow == id) kept.push_back(id);
    }
    return kept;
  }

  void Happen() {
    if (rng_.Chance(20'000)) {
      const bool is_new = ends_often_ && rng_.Chance(20'000);
      const auto of_keys = static_cast<uint16_t>(rng_.Below(kKeys));
      Packet(Key(is_new ? next_key_++ : of_keys));
    }
    if (rng_.Chance(ends_often_ ? 15'000 : 1'500)) End();
    if (!has_unshown_ && rng_.Chance(60)) Connect();
  }

  void Packet(const FlowKey& key) {
    const Arrival arrival = {.key = key, .time = now_, .original_length = 100};
    out_.clear();
    ASSERT_EQ(controller_.on_packets(now_, {&arrival, 1}, out_), 1u);
    for (const ControllerCommand& command : out_.commands()) {
      if (command.kind != ControllerCommand::Kind::kEnqueue) continue;
      const auto [run, is_new] = runs_.try_emplace(command.meta.flow);
      if (is_new) run->second.is_unshown = has_unshown_ && rng_.Chance(8'192);
      run->second.key = key;
      run->second.given = command.meta.clock;
    }
    controller_.on_drained(now_,
                           {.unit = UnitId{0}, .packets = 1, .bytes = 100});
  }

  void End() {
    for (auto& [id, run] : runs_) {
      if (run.ended.has_value() || run.applied != run.given ||
          run.is_unshown || !rng_.Chance(20'000)) {
        continue;
      }
      out_.clear();
      if (controller_.DeleteFlow(now_, id, out_)) run.ended = now_;
      return;
    }
  }

  void RunPackets() {
    for (auto& [id, run] : runs_) {
      if (run.ended.has_value() || run.applied == run.given ||
          rng_.Chance(20'000)) {
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
      if (run.applied == Clock{} || run.is_unshown) return true;
      const auto flow = sweep_.OnState(controller_, state);
      if (!flow.has_value()) return true;
      Send([this, round = round_, flow = *flow, state] {
        heir_.Put(kSelf, round, now_, {.flow = flow, .state = state});
      });
      return true;
    });
  }

  Rng rng_;
  const bool has_unshown_;
  const bool ends_often_;
  Met& met_;
  Instant now_{1'000'000'000};
  ControllerOut out_;
  Controller controller_;
  FlowSweep sweep_;
  StandbyFlows heir_{{}};
  Way way_;
  uint64_t round_ = 0;
  Instant connected_ = Instant::min();
  Instant whole_ = Instant::max();  // when this round became whole
  uint16_t next_key_ = kKeys;
  std::map<FlowId, Run> runs_;
  std::vector<Asked> answers_;
};

TEST(FlowSweepRandom, TheHeirHasEachFlowAsOfAMomentAgo) {
  const TestSeeds seeds(300, 20'000);
  Met met;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    seeds.Note(seed);
    Rng rng(seed);
    World dies(seed, false, met);
    dies.Go(Milliseconds(rng.Uniform(100, 600)), true);
    dies.Check();
    World rests(seed, false, met);
    rests.Go(Milliseconds(300), true);
    rests.Go(Milliseconds(200), false);
    rests.CheckWhole();
    World hides(seed, true, met);
    hides.Go(Milliseconds(rng.Uniform(100, 300)), true);
    hides.Connect();
    hides.Go(Nanos{kWholeBoundOfUnshown.ns + kBound.ns}, true);
    hides.Check();
    if (testing::Test::HasFatalFailure()) return;
  }
  std::printf("%zu seeds: %llu kept, %llu newest, %llu gone, %llu rested\n",
              static_cast<size_t>(seeds.count()),
              static_cast<unsigned long long>(met.kept),
              static_cast<unsigned long long>(met.newest),
              static_cast<unsigned long long>(met.gone),
              static_cast<unsigned long long>(met.rested));
  std::printf("%llu wholes, %llu outlived, %llu amid new flows, %llu stale\n",
              static_cast<unsigned long long>(met.wholes),
              static_cast<unsigned long long>(met.outlived),
              static_cast<unsigned long long>(met.wholes_amid),
              static_cast<unsigned long long>(met.stale));
  // The schedules are not idle.
  if (seeds.is_part) return;
  EXPECT_GT(met.kept, 2 * seeds.count());
  EXPECT_GT(met.kept, met.newest);
  EXPECT_GT(met.gone, 4 * seeds.count());
  EXPECT_GT(met.rested, 2 * seeds.count());
  EXPECT_GT(met.wholes, 3 * seeds.count());
  EXPECT_GT(met.outlived, seeds.count());
  EXPECT_GT(met.wholes_amid, 0u);
  EXPECT_GT(met.stale, seeds.count() / 4);
}

}  // namespace
}  // namespace snf
