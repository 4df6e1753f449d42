// SPDX-License-Identifier: Apache-2.0
// The world of a random schedule is here. It has a controller that places flows
// at random, moves and ends them, and empties units; channels in order;
// messages between units that come in any order, and twice.
#ifndef SNF_RUNTIME_CORE_TEST_NETWORK_H_
#define SNF_RUNTIME_CORE_TEST_NETWORK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"
#include "runtime/core/test_inputs.h"
#include "runtime/core/test_wires.h"
#include "runtime/core/unit.h"
#include "runtime/core/unit_limits.h"
#include "runtime/ring/buffer_pool.h"

namespace snf {

// The network of a schedule. Flow has id, clock, processed, owner, serving and
// is_over.
template <typename Flow, typename Nf>
class TestNetwork {
 public:
  virtual ~TestNetwork() = default;

 protected:
  using Item = NetworkItem;
  struct Site {
    Unit unit;
    std::unique_ptr<Nf> nf;
    std::deque<Item> channel{};
    uint32_t slots_used = 0;
    bool stops = false;
    bool stopped = false;
  };

  TestNetwork(uint64_t seed, NetworkTotals& totals,
              const BufferPool::Options& buffers)
      : rng_(seed), buffers_(buffers), network_totals_(totals) {}

  // Returns a packet, whose bytes ask something of the NF.
  virtual PacketHandle MakePacket(uint64_t clock) = 0;
  // Does one thing that may happen.
  virtual void Step() = 0;
  virtual void Execute(Site& site) = 0;
  virtual void on_begin(Site&, Flow&) {}
  virtual void on_end_seen(Flow&) {}
  virtual void DeliverAnswer(Site&, const Item&) { FAIL(); }
  // Returns true if nothing is on its way, nor waits for anything but a timer
  // or its service.
  virtual bool IsQuiet() const {
    return wires_.empty() && asked_.empty() &&
           std::ranges::all_of(sites_, [&](const Site& site) {
             return site.channel.empty() && !site.unit.busy() &&
                    !MustEmpty(site);
           });
  }

  static bool Failed() { return ::testing::Test::HasFailure(); }

  FlowId NewFlow(FlowId id) {
    flows_[id].id = id;
    return id;
  }
  UnitId AnyUnit() {
    return UnitId{static_cast<uint16_t>(rng_.Below(sites_.size()))};
  }
  FlowId AnyFlow() { return present_[rng_.Below(present_.size())]; }

  // Gives the next packet of a flow its clock and its unit.
  void RoutePacket() {
    Flow& flow = flows_.at(AnyFlow());
    UnitId to = flow.owner;
    const bool is_first =
        to == kNoUnit || !rng_.Chance(stickiness_) || sites_[value(to)].stops;
    if (is_first) to = AnyUnit();
    const bool is_tombstone = rng_.Below(16) == 0;
    if (!Route(flow, to, is_first,
               is_tombstone ? PacketMeta::kTombstone : uint8_t{0})) {
      return;
    }
    --packets_left_;
    ++network_totals_.packets;
  }
  bool Route(Flow& flow, UnitId to, bool is_first, uint8_t flags) {
    Site& site = sites_[value(to)];
    if (site.stops || site.slots_used == slots_) return false;
    ++site.slots_used;
    Item item = {.meta = Within(value(flow.id), ++flow.clock)};
    if (flow.clock == 1) {
      item.meta = New(value(flow.id));
    } else if (is_first) {
      item.meta = First(value(flow.id), flow.clock, value(flow.owner));
      network_totals_.moves += flow.owner != to ? 1 : 0;
    }
    if (is_first) {
      item.replicas = {.flow = flow.id, .count = 3};
      for (size_t i = 0; i < 3; ++i) item.replicas.units.at(i) = AnyUnit();
    }
    item.meta.flags |= flags;
    item.meta.arrival = now_;
    if (flags == 0) item.packet = MakePacket(flow.clock);
    flow.owner = to;
    site.channel.push_back(item);
    return true;
  }

  // Answers the first request of a timer packet, unless the flow went on.
  void AnswerTimer() {
    if (asked_.empty()) return;
    const TimerDue due = asked_.front();
    asked_.pop_front();
    Flow& flow = flows_.at(due.flow);
    if (flow.is_over || flow.owner != due.unit ||
        flow.clock != value(due.applied)) {
      return;
    }
    const bool moves = sites_[value(due.unit)].stops || rng_.Below(4) == 0;
    Route(flow, moves ? AnyUnit() : due.unit, moves,
          PacketMeta::kNull | PacketMeta::kTimer);
  }

  // Ends the flow; its place goes to a new one.
  void EndFlowOf(FlowId id) {
    Flow& flow = flows_.at(id);
    if (flow.owner == kNoUnit || flow.is_over) return;
    flow.is_over = true;
    ++network_totals_.flows_ended;
    sites_[value(flow.owner)].channel.push_back(
        {.kind = Item::Kind::kEnd, .end = {flow.id, Clock{flow.clock}}});
    *std::ranges::find(present_, id) =
        NewFlow(MakeFlowId(0, slot_of(id), generation_of(id) + 1));
  }

  void StopOrStart(Site& site) {
    if (site.stopped) {
      site.stops = site.stopped = false;
      site.unit.on_start();
      ++network_totals_.starts;
    } else if (!site.stops &&
               std::ranges::count(sites_, false, &Site::stops) > 1) {
      Stop(site);
    }
  }
  void Stop(Site& site) {
    site.stops = true;
    site.channel.push_back({.kind = Item::Kind::kStop});
  }
  void on_stopped(Site& site) {
    ASSERT_TRUE(site.stops && !site.stopped);
    ASSERT_EQ(site.unit.flows(), 0u);
    ASSERT_EQ(site.slots_used, 0u);
    site.stopped = true;
    ++network_totals_.stops;
  }
  // Moves one flow from a unit that is to stop (U8).
  void Empty(const Site& site) {
    for (const FlowId id : present_) {
      Flow& flow = flows_.at(id);
      if (flow.owner != site.unit.id()) continue;
      Route(flow, AnyUnit(), true, PacketMeta::kNull);
      return;
    }
  }
  bool MustEmpty(const Site& site) const {
    return site.stops && std::ranges::any_of(present_, [&](FlowId id) {
             return flows_.at(id).owner == site.unit.id();
           });
  }

  NfContext NfContextOf(Site& site) { return {*site.nf, buffers_}; }

  void Deliver(Site& site) {
    const Item item = site.channel.front();
    site.channel.pop_front();
    if (item.kind == Item::Kind::kPacket) {
      if (item.replicas.count > 0) site.unit.on_replicas(item.replicas);
      site.unit.on_packet(item.packet, item.meta);
    } else if (item.kind == Item::Kind::kEnd) {
      site.unit.on_end_flow(now_, item.end, NfContextOf(site), out_);
      on_end_seen(flows_.at(item.end.flow));
    } else if (item.kind == Item::Kind::kStop) {
      site.unit.on_stop(out_);
    } else {
      DeliverAnswer(site, item);
    }
    ASSERT_LE(out_.commands().size(), kMaxUnitCommandsPerCall);
    Execute(site);
  }

  void Send(const Site& site, const UnitCommand& command) {
    ASSERT_NE(command.unit, site.unit.id()) << "to itself";
    NetworkWire wire = {command, {}};
    if (command.kind == UnitCommand::Kind::kSendState) {
      const auto record = site.unit.bytes_of(command.state);
      wire.record.assign(record.begin(), record.end());
    }
    wires_.push_back(wire);
    if (rng_.Below(8) != 0) return;
    ++network_totals_.doubled;
    wires_.push_back(wire);
  }
  NetworkWire TakeAnyWire() {
    std::swap(wires_[rng_.Below(wires_.size())], wires_.back());
    NetworkWire wire = std::move(wires_.back());
    wires_.pop_back();
    return wire;
  }

  // Returns false if there is nothing to do.
  bool Begin(Site& site) {
    const bool serves = site.unit.begin(now_, out_);
    Execute(site);
    if (!serves) return site.unit.has_more();
    const PacketMeta& meta = site.unit.in_service();
    Flow& flow = flows_.at(meta.flow);
    EXPECT_EQ(flow.serving, kNoUnit) << "two units at one flow";
    EXPECT_EQ(value(meta.clock), flow.processed + 1);
    flow.serving = site.unit.id();
    on_begin(site, flow);
    return true;
  }
  void RunTimers(Site& site) {
    site.unit.on_timers(now_, out_);
    Execute(site);
  }

  // Goes on until nothing is on its way or waits, as it must come to (I7),
  // whatever time that takes.
  void RunOut() {
    for (int step = 0; !Failed(); ++step) {
      ASSERT_LT(step, kMaxSteps) << "stuck";
      if (IsQuiet() && !LetTimePass()) break;
      Step();
    }
    for (const Site& site : sites_) {
      ASSERT_EQ(site.slots_used, 0u);
      ASSERT_EQ(site.unit.held_packets(), 0u);
      ASSERT_EQ(site.stopped, site.stops);
    }
  }
  // Ends all flows and stops all units.
  void EndAll() {
    RunOut();
    for (const FlowId flow : std::vector(present_)) EndFlowOf(flow);
    for (Site& site : sites_) {
      if (!site.stops) Stop(site);
    }
    RunOut();
    for (const Site& site : sites_) {
      ASSERT_TRUE(site.stopped);
      ASSERT_EQ(site.unit.counters().takeovers_said_once, 0u);
    }
    ASSERT_EQ(buffers_.in_use(), 0u);
  }

  static constexpr int kMaxSteps = 500'000;

  Rng rng_;
  BufferPool buffers_;
  int packets_left_ = 0;
  uint32_t slots_ = 0;       // are those of each channel
  uint32_t stickiness_ = 0;  // packets of 65,536 stay in their flowlet
  Instant now_;
  std::map<FlowId, Flow> flows_;
  std::vector<FlowId> present_;  // has the flows that are not over
  std::vector<Site> sites_;
  std::vector<NetworkWire> wires_;
  std::deque<TimerDue> asked_;  // has what goes to the controller
  UnitOut out_;

 private:
  // Serves what can be, and lets the next timer run; returns false if there is
  // neither.
  bool LetTimePass() {
    Instant next = Instant::max();
    for (Site& site : sites_) {
      if (Begin(site)) return true;
      next = std::min(next, site.unit.next_wakeup());
    }
    if (next == Instant::max()) return !IsQuiet();
    now_ = std::max(now_, next);
    for (Site& site : sites_) RunTimers(site);
    return true;
  }

  NetworkTotals& network_totals_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_TEST_NETWORK_H_
