// SPDX-License-Identifier: Apache-2.0
// Every interleaving of a few packets of one flow over a few units: the units
// are values, so each choice is tried on a copy. A unit begins as soon as it
// may, as drivers do; the long form lets it begin at any later time.
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/core/test_unit.h"
#include "runtime/core/unit.h"

namespace snf {
namespace {

constexpr uint64_t kFlow = 1;

// What goes down a channel, in order: packets, and the end of the flow.
struct Item {
  PacketMeta meta;
  bool is_end = false;
};
// What goes from unit to unit, in any order.
struct Wire {
  size_t to;
  bool is_pull;
  Pull pull;
  State state;
};

struct Site {
  explicit Site(uint16_t id, uint32_t packets)
      : unit(UnitId{id}, {.max_flows = 1,
                          .queue_packets = packets,
                          .packets_elsewhere = 0}) {}
  Unit unit;
  std::deque<Item> channel;
  bool may_begin = false;  // something came in since begin() found nothing
  std::string inputs;      // all it was told, which is what it depends on
};

struct World {
  std::vector<Site> sites;
  std::vector<Wire> wires;
  uint64_t applied = 0;  // clocks that were processed, in order
  int serving = 0;
  std::set<uint64_t> needs;  // of pulls sent
};

class Explorer {
 public:
  struct Totals {
    uint64_t states = 0;
    uint64_t steps = 0;
    uint64_t ends = 0;
    uint64_t pulls = 0;
    uint64_t answers_that_waited = 0;
    uint32_t held_max = 0;
  };

  Explorer(std::vector<uint16_t> placement, size_t units, bool begins_late,
           Totals& totals)
      : placement_(std::move(placement)),
        units_(units),
        begins_late_(begins_late),
        totals_(totals),
        pool_({.small = 1, .medium = 0, .large = 0}),
        packet_(pool_.Allocate(1)) {}

  void Run() {
    World world;
    const auto packets = static_cast<uint32_t>(placement_.size());
    for (uint16_t u = 0; u < units_; ++u) world.sites.emplace_back(u, packets);
    for (size_t i = 0; i < placement_.size(); ++i) {
      const uint64_t clock = i + 1;
      PacketMeta meta = i == 0 ? New(kFlow) : Within(kFlow, clock);
      if (i > 0 && placement_[i] != placement_[i - 1]) {
        meta = First(kFlow, clock, placement_[i - 1]);
      }
      world.sites[placement_[i]].channel.push_back({.meta = meta});
    }
    world.sites[placement_.back()].channel.push_back(
        {.meta = {}, .is_end = true});
    Explore(world);
  }

 private:
  static bool Failed() { return ::testing::Test::HasFailure(); }

  void Explore(const World& world) {
    // Units depend on their own inputs only, so two ways to the same inputs of
    // each unit lead to the same state.
    std::string key;
    for (const Site& site : world.sites) key += site.inputs + '|';
    if (Failed() || !seen_.insert(key).second) return;
    ++totals_.states;
    bool is_end = true;
    for (size_t u = 0; u < world.sites.size(); ++u) {
      const Site& site = world.sites[u];
      if (!site.channel.empty())
        is_end = Try(world, [&](World& w) { Deliver(w, u); });
      if (site.unit.busy()) {
        is_end = Try(world, [&](World& w) { Finish(w, u); });
      } else if (site.may_begin) {
        is_end = Try(world, [&](World& w) { Begin(w, u); });
      }
    }
    for (size_t i = 0; i < world.wires.size(); ++i) {
      is_end = Try(world, [&](World& w) { DeliverWire(w, i); });
    }
    if (is_end) CheckEnd(world);
  }

  template <typename Step>
  bool Try(const World& world, Step step) {
    if (Failed()) return false;
    World next = world;
    step(next);
    for (size_t u = 0; u < next.sites.size() && !begins_late_; ++u) {
      const Site& site = next.sites[u];
      if (site.may_begin && !site.unit.busy()) Begin(next, u);
    }
    ++totals_.steps;
    Explore(next);
    return false;
  }

  void Deliver(World& world, size_t u) {
    Site& site = world.sites[u];
    const Item item = site.channel.front();
    site.channel.pop_front();
    if (item.is_end) {
      site.inputs += 'e';
      site.unit.on_end_flow({FlowId{kFlow}, Clock{placement_.size()}}, out_);
    } else {
      site.inputs += 'p';
      site.unit.on_packet(packet_, item.meta);
    }
    site.may_begin = true;
    Execute(world);
  }

  void DeliverWire(World& world, size_t i) {
    const Wire wire = world.wires[i];
    world.wires.erase(world.wires.begin() + static_cast<std::ptrdiff_t>(i));
    Site& site = world.sites[wire.to];
    if (wire.is_pull) {
      site.inputs += "?" + std::to_string(value(wire.pull.need));
      site.unit.on_pull(wire.pull, out_);
      totals_.answers_that_waited += out_.empty() ? 1 : 0;
    } else {
      site.inputs += "!" + std::to_string(value(wire.state.applied));
      site.unit.on_state(wire.state, out_);
    }
    site.may_begin = true;
    Execute(world);
  }

  void Begin(World& world, size_t u) {
    Site& site = world.sites[u];
    site.inputs += 'b';
    const Unit::Next next = site.unit.begin(out_);
    ASSERT_NE(next, Unit::Next::kAgain);
    if (next == Unit::Next::kService) {
      ASSERT_EQ(++world.serving, 1) << "two units at one flow";
      ASSERT_EQ(value(site.unit.in_service().clock), world.applied + 1);
    } else {
      site.may_begin = false;
    }
    totals_.held_max = std::max(totals_.held_max, site.unit.held_packets());
    Execute(world);
  }

  void Finish(World& world, size_t u) {
    Site& site = world.sites[u];
    site.inputs += 'f';
    site.may_begin = true;
    world.applied = value(site.unit.in_service().clock);
    --world.serving;
    site.unit.finish(Instant{}, {nf_, pool_}, out_);
    Execute(world);
  }

  void Execute(World& world) {
    using Kind = UnitCommand::Kind;
    for (const UnitCommand& command : out_.commands()) {
      if (command.kind == Kind::kSendPull) {
        ASSERT_TRUE(world.needs.insert(value(command.pull.need)).second);
        world.wires.push_back({value(command.unit), true, command.pull, {}});
        ++totals_.pulls;
      } else if (command.kind == Kind::kSendState) {
        world.wires.push_back({value(command.unit), false, {}, command.state});
      } else {
        ASSERT_EQ(command.kind, Kind::kRelease);
        ASSERT_EQ(value(command.meta.clock), world.applied);
      }
    }
    out_.clear();
  }

  void CheckEnd(const World& world) {
    ++totals_.ends;
    ASSERT_EQ(world.applied, placement_.size());
    for (const Site& site : world.sites) {
      ASSERT_EQ(site.unit.held_packets(), 0u);
      ASSERT_EQ(site.unit.flows(), 0u);
      Unit copy = site.unit;
      copy.on_stop(out_);
      ASSERT_EQ(out_.commands().size(), 1u) << "keeps something";
      out_.clear();
    }
  }

  std::vector<uint16_t> placement_;
  size_t units_;
  bool begins_late_;
  Totals& totals_;
  BufferPool pool_;
  PacketHandle packet_;  // all packets are this one
  ScriptedNf nf_;
  UnitOut out_;
  std::set<std::string> seen_;
};

void ExploreAll(size_t units, size_t packets, bool begins_late,
                Explorer::Totals& totals) {
  std::vector<uint16_t> placement(packets, 0);
  while (true) {
    Explorer(placement, units, begins_late, totals).Run();
    if (::testing::Test::HasFailure()) {
      std::cout << "placement";
      for (uint16_t unit : placement) std::cout << " " << unit;
      std::cout << "\n";
      return;
    }
    size_t i = 0;
    while (i < packets && ++placement[i] == units) placement[i++] = 0;
    if (i == packets) break;
  }
  std::cout << units << " units, " << packets << " packets: " << totals.states
            << " states, " << totals.steps << " steps, " << totals.ends
            << " ends, " << totals.pulls << " pulls, "
            << totals.answers_that_waited << " that waited, held at most "
            << totals.held_max << "\n";
}

TEST(UnitExplorer, FindsNoScheduleOfTwoUnitsAndFourPacketsThatGoesWrong) {
  Explorer::Totals totals;
  ExploreAll(2, 4, /*begins_late=*/false, totals);
  EXPECT_GT(totals.states, 10'000u);
  EXPECT_GT(totals.ends, 500u);
  EXPECT_GT(totals.pulls, 500u);
  EXPECT_GT(totals.answers_that_waited, 1'000u);
  EXPECT_GE(totals.held_max, 3u);
}

TEST(UnitExplorer, FindsNoScheduleOfThreeUnitsAndThreePacketsThatGoesWrong) {
  Explorer::Totals totals;
  ExploreAll(3, 3, /*begins_late=*/false, totals);
  EXPECT_GT(totals.states, 3'000u);
  EXPECT_GT(totals.answers_that_waited, 100u);
}

TEST(UnitExplorer, FindsNoScheduleWithLateBeginningsThatGoesWrong) {
  const bool is_long = std::getenv("SNF_LONG_TESTS") != nullptr;
  Explorer::Totals totals;
  ExploreAll(2, is_long ? 4 : 3, /*begins_late=*/true, totals);
  EXPECT_GT(totals.states, 10'000u);
  if (is_long) ExploreAll(3, 4, /*begins_late=*/false, totals);
}

}  // namespace
}  // namespace snf
