// SPDX-License-Identifier: Apache-2.0
// Random schedules: a controller that places flows at random, channels in
// order, messages between units in any order, service whenever it comes.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"
#include "runtime/core/test_unit.h"
#include "runtime/core/unit.h"

namespace snf {
namespace {

struct Totals {
  uint64_t packets = 0;
  uint64_t moves = 0;
  uint64_t pulls = 0;
  uint64_t chains = 0;  // pulls that met a unit which itself waited for a State
  uint64_t repeated_states = 0;
  uint32_t held_max = 0;
  uint64_t emitted = 0;
  uint64_t timers = 0;
  uint64_t timers_moved = 0;  // ran elsewhere than they were set
  uint64_t flows_ended = 0;
  uint64_t stopped_early = 0;
};

// What a packet asks of the NF; the first byte of the packet.
enum class Action : uint8_t {
  kForward,
  kDrop,
  kConsume,
  kEmit,
  kSetTimer,
  kCancelTimer,
  kCount
};

struct Wish {
  Action action;
  uint64_t clock;
  int64_t timer_ns;
};

// A flow as the test knows it.
struct Flow {
  FlowId id{};
  uint64_t clock = 0;  // of its newest packet
  uint64_t processed = 0;
  UnitId owner = kNoUnit;
  UnitId serving = kNoUnit;
  Instant timer = Instant::max();
  UnitId timer_set_at = kNoUnit;
  bool is_over = false;   // the controller said so
  bool end_seen = false;  // its owner has heard
};
using Flows = std::map<FlowId, Flow>;

// Checks that each flow's packets and timers come to it as the test expects.
class CheckingNf final : public NetworkFunction {
 public:
  CheckingNf(UnitId unit, Flows& flows, Totals& totals)
      : unit_(unit), flows_(flows), totals_(totals) {}

  Verdict process_packet(Packet& packet, FlowState& state) override {
    Flow& flow = flows_.at(state.id());
    Wish wish;
    std::memcpy(&wish, packet.bytes().data(), sizeof wish);
    EXPECT_EQ(wish.clock, flow.processed + 1) << "out of order or again";
    EXPECT_EQ(flow.serving, unit_);
    EXPECT_EQ(state.timer(), flow.timer) << "the timer was lost on the way";
    flow.processed = wish.clock;
    switch (wish.action) {
      case Action::kDrop:
        return Verdict::drop(0);
      case Action::kConsume:
        return Verdict::consume();
      case Action::kEmit:
        EXPECT_TRUE(state.emit(packet.bytes()));
        break;
      case Action::kSetTimer:
        state.set_timer(Nanos{wish.timer_ns});
        flow.timer_set_at = unit_;
        break;
      case Action::kCancelTimer:
        state.cancel_timer();
        break;
      default:
        break;
    }
    flow.timer = state.timer();
    return Verdict::forward();
  }

  void on_timer(FlowState& state) override {
    Flow& flow = flows_.at(state.id());
    EXPECT_NE(flow.timer, Instant::max()) << "ran, but was not set";
    state.set_timer(Nanos{0});
    EXPECT_EQ(state.timer(), flow.timer) << "ran for another time";
    state.cancel_timer();
    flow.timer = Instant::max();
    ++totals_.timers;
    totals_.timers_moved += flow.timer_set_at != unit_ ? 1 : 0;
  }

  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::string_view kReasons[] = {"asked_to"};
    return kReasons;
  }

 private:
  UnitId unit_;
  Flows& flows_;
  Totals& totals_;
};

class Schedule {
 public:
  Schedule(uint64_t seed, Totals& totals)
      : rng_(seed),
        totals_(totals),
        pool_({.small = 1'024, .medium = 0, .large = 0}),
        packets_left_(static_cast<int>(rng_.Uniform(20, 300))),
        slots_(static_cast<uint32_t>(rng_.Uniform(1, 64))),
        stickiness_(static_cast<uint32_t>(rng_.Below(60'000))),
        is_slow_(rng_.Below(4) == 0) {
    const auto units = static_cast<uint16_t>(rng_.Uniform(1, 4));
    const auto flows = static_cast<uint32_t>(rng_.Uniform(1, 50));
    for (uint16_t u = 0; u < units; ++u) {
      const UnitId id{u};
      sites_.push_back({Unit(id, {.max_flows = flows,
                                  .queue_packets = slots_,
                                  .packets_elsewhere = (units - 1u) * slots_}),
                        std::make_unique<CheckingNf>(id, flows_, totals),
                        {},
                        0,
                        false,
                        false});
    }
    for (uint32_t slot = 0; slot < flows; ++slot) {
      present_.push_back(NewFlow(MakeFlowId(0, slot, 0)));
    }
  }

  void Run() {
    const bool one_stops = sites_.size() > 1 && rng_.Below(4) == 0;
    while (packets_left_ > 0 && !Failed()) {
      if (rng_.Below(3) == 0) RoutePacket();
      if (rng_.Below(80) == 0) EndFlowOf(present_[rng_.Below(present_.size())]);
      if (one_stops && packets_left_ < 50 && !sites_[0].stops) Stop(0);
      Step();
    }
    Settle();
    totals_.stopped_early += sites_[0].stops && sites_[0].stopped ? 1 : 0;
    RunOutTimers();
    for (FlowId& flow : present_) EndFlowOf(flow);
    Settle();
    for (size_t u = 0; u < sites_.size(); ++u) {
      if (!sites_[u].stops) Stop(u);
    }
    CheckEnd();
  }

 private:
  struct Item {
    PacketHandle packet;
    PacketMeta meta;
    EndFlow end;
  };
  struct Wire {
    UnitId to;
    bool is_pull;
    Pull pull;
    State state;
  };
  struct Site {
    Unit unit;
    std::unique_ptr<CheckingNf> nf;
    std::deque<Item> channel;
    uint32_t slots_used;
    bool stops;
    bool stopped;
  };

  static bool Failed() { return ::testing::Test::HasFailure(); }

  FlowId NewFlow(FlowId id) {
    flows_[id].id = id;
    return id;
  }

  // The controller: gives the next packet of a flow its clock and its unit.
  void RoutePacket() {
    Flow& flow = flows_.at(present_[rng_.Below(present_.size())]);
    UnitId to = flow.owner;
    const bool is_first =
        to == kNoUnit || !rng_.Chance(stickiness_) || sites_[value(to)].stops;
    if (is_first) to = UnitId{static_cast<uint16_t>(rng_.Below(sites_.size()))};
    Site& site = sites_[value(to)];
    if (site.stops || site.slots_used == slots_) return;
    --packets_left_;
    ++totals_.packets;
    ++site.slots_used;
    PacketMeta meta = Within(value(flow.id), ++flow.clock);
    if (flow.clock == 1) {
      meta = New(value(flow.id));
    } else if (is_first) {
      meta = First(value(flow.id), flow.clock, value(flow.owner));
      totals_.moves += flow.owner != to ? 1 : 0;
    }
    flow.owner = to;
    site.channel.push_back({MakePacket(flow.clock), meta, {}});
  }

  PacketHandle MakePacket(uint64_t clock) {
    Wish wish;
    std::memset(&wish, 0, sizeof wish);
    wish.action =
        static_cast<Action>(rng_.Below(static_cast<uint64_t>(Action::kCount)));
    wish.clock = clock;
    wish.timer_ns = static_cast<int64_t>(rng_.Next() >> (24 + rng_.Below(30)));
    const PacketHandle packet = pool_.Allocate(sizeof wish);
    std::memcpy(pool_.room(packet).data(), &wish, sizeof wish);
    pool_.info(packet).length = sizeof wish;
    return packet;
  }

  // The flow is over; its place goes to a new one.
  void EndFlowOf(FlowId& id) {
    Flow& flow = flows_.at(id);
    if (flow.owner == kNoUnit) return;
    flow.is_over = true;
    ++totals_.flows_ended;
    sites_[value(flow.owner)].channel.push_back(
        {kNoPacket, {}, {flow.id, Clock{flow.clock}}});
    id = NewFlow(MakeFlowId(0, slot_of(id), generation_of(id) + 1));
  }

  void Stop(size_t u) {
    sites_[u].stops = true;
    sites_[u].unit.on_stop(out_);
    Execute(sites_[u]);
  }

  // One thing that may happen, happens.
  void Step() {
    now_ = now_ + Nanos{rng_.Uniform(0, 100'000)};
    Site& site = sites_[rng_.Below(sites_.size())];
    switch (rng_.Below(5)) {
      case 0:
        if (!site.channel.empty()) Deliver(site);
        break;
      case 1:
        if (!wires_.empty()) DeliverWire(rng_.Below(wires_.size()));
        break;
      case 2:
        if (site.unit.next_wakeup() <= now_) RunTimers(site);
        break;
      default:
        if (is_slow_ && rng_.Below(64) != 0) break;
        site.unit.busy() ? Finish(site) : Begin(site);
    }
  }

  void Deliver(Site& site) {
    const Item item = site.channel.front();
    site.channel.pop_front();
    if (item.packet != kNoPacket) {
      site.unit.on_packet(item.packet, item.meta);
      return;
    }
    flows_.at(item.end.flow).end_seen = true;
    site.unit.on_end_flow(item.end, out_);
    ForgetTimerIfOver(item.end.flow);
    Execute(site);
  }

  void ForgetTimerIfOver(FlowId id) {
    Flow& flow = flows_.at(id);
    if (flow.end_seen && flow.processed == flow.clock) {
      flow.timer = Instant::max();
    }
  }

  void DeliverWire(size_t i) {
    std::swap(wires_[i], wires_.back());
    const Wire wire = wires_.back();
    wires_.pop_back();
    Site& site = sites_[value(wire.to)];
    if (wire.is_pull) {
      totals_.chains += waiting_.count({wire.to, wire.pull.flow});
      site.unit.on_pull(wire.pull, out_);
    } else {
      waiting_.erase({wire.to, wire.state.flow});
      site.unit.on_state(wire.state, out_);
    }
    Execute(site);
  }

  void Begin(Site& site) {
    const Unit::Next next = site.unit.begin(out_);
    totals_.held_max = std::max(totals_.held_max, site.unit.held_packets());
    Execute(site);
    if (next != Unit::Next::kService) return;
    const PacketMeta& meta = site.unit.in_service();
    Flow& flow = flows_.at(meta.flow);
    ASSERT_EQ(flow.serving, kNoUnit) << "two units at one flow";
    ASSERT_EQ(value(meta.clock), flow.processed + 1);
    flow.serving = site.unit.id();
  }

  void Finish(Site& site) {
    const FlowId flow = site.unit.in_service().flow;
    site.unit.finish(now_, {*site.nf, pool_}, out_);
    flows_.at(flow).serving = kNoUnit;
    ForgetTimerIfOver(flow);
    Execute(site);
  }

  void RunTimers(Site& site) {
    site.unit.on_timers(now_, {*site.nf, pool_}, out_);
    Execute(site);
  }

  void Execute(Site& site) {
    using Kind = UnitCommand::Kind;
    for (const UnitCommand& command : out_.commands()) {
      switch (command.kind) {
        case Kind::kDrop:
          FAIL() << "dropped as " << ToString(command.reason);
        case Kind::kRelease:
        case Kind::kNfDrop:
        case Kind::kConsume:
          --site.slots_used;
          pool_.Free(command.packet);
          break;
        case Kind::kEmit:
          ++totals_.emitted;
          pool_.Free(command.packet);
          break;
        case Kind::kSendPull:
          SendPull(command);
          break;
        case Kind::kSendState:
          wires_.push_back({command.unit, false, {}, command.state});
          // A repeated State is harmless, whenever it comes.
          if (rng_.Below(8) == 0) {
            ++totals_.repeated_states;
            wires_.push_back(wires_.back());
          }
          break;
        case Kind::kStopped:
          ASSERT_TRUE(site.stops && !site.stopped);
          site.stopped = true;
          break;
      }
    }
    out_.clear();
  }

  void SendPull(const UnitCommand& command) {
    const Pull& pull = command.pull;
    ASSERT_NE(command.unit, pull.requester) << "pulls from itself";
    ASSERT_TRUE(pulled_.insert({pull.flow, pull.need}).second) << "pulls twice";
    waiting_.insert({pull.requester, pull.flow});
    wires_.push_back({command.unit, true, pull, {}});
    ++totals_.pulls;
  }

  // Until nothing is on its way or waits, as it must come to (I7).
  void Settle() {
    const auto is_quiet = [this] {
      return wires_.empty() && std::ranges::all_of(sites_, [](const Site& s) {
               return s.channel.empty() && s.slots_used == 0;
             });
    };
    for (int step = 0; !is_quiet() && !Failed(); ++step) {
      ASSERT_LT(step, 200'000) << "stuck";
      Step();
    }
    for (const Site& site : sites_) {
      ASSERT_EQ(site.unit.held_packets(), 0u);
      ASSERT_FALSE(site.unit.busy());
    }
  }

  void RunOutTimers() {
    for (Site& site : sites_) {
      while (site.unit.next_wakeup() != Instant::max()) {
        now_ = std::max(now_, site.unit.next_wakeup());
        RunTimers(site);
      }
    }
    for (const auto& [id, flow] : flows_) {
      ASSERT_EQ(flow.timer, Instant::max()) << "a timer never ran";
    }
  }

  void CheckEnd() {
    for (const auto& [id, flow] : flows_) {
      ASSERT_EQ(flow.processed, flow.clock);
    }
    for (const Site& site : sites_) {
      ASSERT_EQ(site.unit.flows(), 0u);
      ASSERT_TRUE(site.stopped);
    }
    ASSERT_EQ(pool_.in_use(), 0u);
  }

  Rng rng_;
  Totals& totals_;
  BufferPool pool_;
  int packets_left_;
  uint32_t slots_;       // of each channel
  uint32_t stickiness_;  // of 65,536, that a packet stays in its flowlet
  bool is_slow_;         // service is rare, so that queues are long
  Instant now_;
  Flows flows_;
  std::vector<FlowId> present_;  // flows that are not over
  std::vector<Site> sites_;
  std::vector<Wire> wires_;
  std::set<std::pair<FlowId, Clock>> pulled_;
  std::set<std::pair<UnitId, FlowId>> waiting_;  // for a State
  UnitOut out_;
};

TEST(UnitSchedules, ProcessEachClockOnceInOrderAtOneUnitAtATime) {
  const bool is_long = std::getenv("SNF_LONG_TESTS") != nullptr;
  const uint64_t schedules = is_long ? 100'000 : 3'000;
  Totals totals;
  for (uint64_t seed = 1; seed <= schedules; ++seed) {
    Schedule(seed, totals).Run();
    if (HasFailure()) {
      std::cout << "seed " << seed << "\n";
      return;
    }
  }
  std::cout << "seeds 1-" << schedules << ": " << totals.packets << " packets, "
            << totals.moves << " moves, " << totals.pulls << " pulls, "
            << totals.chains << " chains, " << totals.repeated_states
            << " repeated states, held at most " << totals.held_max << ", "
            << totals.emitted << " emitted, " << totals.timers << " timers ("
            << totals.timers_moved << " moved), " << totals.flows_ended
            << " flows ended, " << totals.stopped_early
            << " units stopped early\n";
  EXPECT_GT(totals.packets, 300'000u);
  EXPECT_GT(totals.moves, 80'000u);
  EXPECT_GT(totals.pulls, 80'000u);
  EXPECT_GT(totals.chains, 10'000u);
  EXPECT_GT(totals.repeated_states, 10'000u);
  EXPECT_GT(totals.held_max, 40u);
  EXPECT_GT(totals.emitted, 30'000u);
  EXPECT_GT(totals.timers, 20'000u);
  EXPECT_GT(totals.timers_moved, 3'000u);
  EXPECT_GT(totals.flows_ended, 10'000u);
  EXPECT_GT(totals.stopped_early, 20u);
}

}  // namespace
}  // namespace snf
