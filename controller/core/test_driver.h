// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_TEST_DRIVER_H_
#define SNF_CONTROLLER_CORE_TEST_DRIVER_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "base/ip_address.h"
#include "controller/core/controller.h"
#include "gtest/gtest.h"

namespace snf {

using Commands = std::vector<ControllerCommand>;
using Kind = ControllerCommand::Kind;
using UnitState = UnitPool::State;

inline FlowKey Flow(uint32_t number) {
  FlowKey key;
  key.source = IpAddress::FromIpv4(be32(0x0a00'0000 + number));
  key.destination = IpAddress::FromIpv4(be32(0xc000'0209));
  key.source_port = be16(5000);
  key.destination_port = be16(53);
  key.form = FlowKeyForm::kIpv4;
  return key;
}

inline Commands Only(Kind kind, const Commands& commands) {
  Commands found;
  for (const ControllerCommand& command : commands) {
    if (command.kind == kind) found.push_back(command);
  }
  return found;
}

// Plays driver and units for a controller, and expects of every command what
// must hold of it always: that the unit is in a state for it, that its channel
// has room, that channel numbers and clocks count 1, 2, 3 …, and that a flow
// ends where and with what it last was. For tests only.
class TestDriver {
 public:
  explicit TestDriver(
      const ControllerOptions& options,
      const PlacementPolicy& policy = *FindPlacementPolicy("snf"))
      : options_(options), controller_(options, policy) {
    units_.resize(options.max_units);
    for (uint32_t i = 0; i < options.max_units; ++i) {
      if (i < options.warm_units) units_[i].state = UnitState::kWarm;
    }
  }

  Controller& controller() { return controller_; }
  const UnitPool& pool() const { return controller_.pool(); }
  const ControllerCounters& counters() const { return controller_.counters(); }

  // Hands over packets, `burst` at a time, and resumes where `out` was full.
  Commands Send(Instant now, std::span<const Arrival> arrivals,
                size_t burst = 32) {
    Commands all;
    while (!arrivals.empty()) {
      auto some = arrivals.first(std::min(burst, arrivals.size()));
      arrivals = arrivals.subspan(some.size());
      while (!some.empty()) {
        const size_t done = controller_.on_packets(now, some, out_);
        EXPECT_GT(done, 0u);
        if (done == 0) return all;
        some = some.subspan(done);
        full_outs += some.empty() ? 0 : 1;
        Execute(all);
      }
    }
    return all;
  }
  // One packet, at its own time.
  Commands Packet(Instant at, uint32_t flow, uint32_t length = 1000) {
    const Arrival arrival = {.key = Flow(flow),
                             .time = at,
                             .original_length = length,
                             .packet = PacketHandle{next_packet_++}};
    return Send(at, {&arrival, 1});
  }

  // One call at `now`, however late that is.
  Commands Timers(Instant now) {
    Commands all;
    do {
      ++timer_calls;
      controller_.on_timers(now, out_);
    } while (Execute(all) > 0 && controller_.next_wakeup() <= now);
    return all;
  }
  // Calls at each wake-up up to `until`.
  Commands RunTimers(Instant until) {
    Commands all;
    while (controller_.next_wakeup() <= until) {
      const Commands some = Timers(controller_.next_wakeup());
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }

  void Ready(Instant now, UnitId unit) {
    EXPECT_EQ(Model(unit).state, UnitState::kStarting);
    Model(unit).state = UnitState::kActive;
    controller_.on_unit_ready(now, unit);
  }
  void Stopped(UnitId unit) {
    EXPECT_EQ(Model(unit).state, UnitState::kStopping);
    Model(unit).state = UnitState::kStopped;
    controller_.on_unit_stopped(unit);
  }
  // The first `packets` of the unit's queue leave it; how many there were.
  uint32_t Drain(Instant now, UnitId unit, size_t packets = SIZE_MAX) {
    auto& queue = Model(unit).queue;
    DrainReport report = {.unit = unit};
    for (; report.packets < packets && !queue.empty(); queue.pop_front()) {
      ++report.packets;
      report.bytes += queue.front();
    }
    if (report.packets > 0) controller_.on_drained(now, report);
    return report.packets;
  }
  void DrainAll(Instant now) {
    for (uint32_t i = 0; i < units_.size(); ++i) Drain(now, Id(i));
  }
  void ReadyAll(Instant now) {
    for (uint32_t i = 0; i < units_.size(); ++i) {
      if (units_[i].state == UnitState::kStarting) Ready(now, Id(i));
    }
  }

  size_t queued(UnitId unit) const { return units_[value(unit)].queue.size(); }
  UnitState state(UnitId unit) const { return units_[value(unit)].state; }
  static UnitId Id(uint32_t i) { return UnitId{static_cast<uint16_t>(i)}; }

  // Of the controller's view and the model's, which must be the same.
  void ExpectStatesAgree() const {
    uint32_t placeable = 0;
    for (uint32_t i = 0; i < units_.size(); ++i) {
      const UnitState state = pool().state(Id(i));
      EXPECT_EQ(state, units_[i].state) << i;
      const bool is_placeable = pool().placeable(Id(i));
      placeable += is_placeable ? 1 : 0;
      if (state != UnitState::kStarting) {
        EXPECT_EQ(is_placeable, state == UnitState::kActive) << i;
      }
    }
    EXPECT_EQ(placeable, pool().placeable_units());
  }

  // Totals over the run.
  uint64_t enqueued = 0, dropped = 0, ended = 0, cold = 0, warm = 0, parked = 0,
           stopped = 0, moved = 0, resent_first = 0, timer_calls = 0,
           full_outs = 0;
  size_t most_queued = 0;

 private:
  struct UnitModel {
    UnitState state = UnitState::kStopped;
    std::deque<uint32_t> queue;
    uint64_t channel_number = 0;
  };
  struct FlowModel {
    uint64_t clock = 0;
    uint32_t flowlet = 0;
    UnitId owner = kNoUnit;
  };
  UnitModel& Model(UnitId unit) { return units_.at(value(unit)); }

  size_t Execute(Commands& all) {
    const auto commands = out_.commands();
    const size_t count = commands.size();
    for (const ControllerCommand& command : commands) {
      Execute(command);
      all.push_back(command);
    }
    out_.clear();
    return count;
  }

  void Execute(const ControllerCommand& command) {
    switch (command.kind) {
      case Kind::kEnqueue:
        return OnEnqueue(command);
      case Kind::kDrop:
        ++dropped;
        return;
      case Kind::kStartUnit:
        EXPECT_EQ(Model(command.unit).state,
                  command.warm ? UnitState::kWarm : UnitState::kStopped);
        Model(command.unit).state = UnitState::kStarting;
        ++(command.warm ? warm : cold);
        return;
      case Kind::kParkUnit:
        EXPECT_EQ(Model(command.unit).state, UnitState::kActive);
        EXPECT_TRUE(Model(command.unit).queue.empty());
        Model(command.unit).state = UnitState::kWarm;
        ++parked;
        return;
      case Kind::kStopUnit:
        EXPECT_EQ(Model(command.unit).state, UnitState::kWarm);
        for (const auto& [id, flow] : flows_)
          EXPECT_NE(flow.owner, command.unit);
        Model(command.unit).state = UnitState::kStopping;
        ++stopped;
        return;
      case Kind::kEndFlow: {
        const FlowModel& flow = flows_.at(value(command.end.flow));
        EXPECT_EQ(value(command.end.last), flow.clock);
        EXPECT_EQ(command.unit, flow.owner);
        flows_.erase(value(command.end.flow));
        ++ended;
        return;
      }
    }
  }

  void OnEnqueue(const ControllerCommand& command) {
    UnitModel& unit = Model(command.unit);
    const bool starting = unit.state == UnitState::kStarting;
    EXPECT_TRUE(starting || unit.state == UnitState::kActive);
    unit.queue.push_back(command.meta.original_length);
    EXPECT_LE(unit.queue.size(), options_.unit_queue_packets);
    if (starting) {
      EXPECT_LE(unit.queue.size(), options_.start_buffer_packets);
    }
    most_queued = std::max(most_queued, unit.queue.size());
    EXPECT_EQ(command.meta.channel_number, ++unit.channel_number);
    ++enqueued;
    CheckMeta(command.unit, command.meta);
  }

  void CheckMeta(UnitId unit, const PacketMeta& meta) {
    FlowModel& flow = flows_[value(meta.flow)];
    EXPECT_EQ(value(meta.clock), ++flow.clock);
    EXPECT_EQ((meta.flags & PacketMeta::kNewFlow) != 0, flow.clock == 1);
    const bool first = (meta.flags & PacketMeta::kFirstOfFlowlet) != 0;
    if (first) {
      resent_first += meta.flowlet == flow.flowlet ? 1 : 0;
      EXPECT_GE(meta.flowlet, flow.flowlet);
      EXPECT_EQ(meta.source_kind, flow.owner == kNoUnit ? StateSource::kNone
                                                        : StateSource::kUnit);
      EXPECT_EQ(meta.source, flow.owner);
      const bool has_moved = flow.owner != kNoUnit && flow.owner != unit;
      EXPECT_EQ((meta.flags & PacketMeta::kMoved) != 0, has_moved);
      moved += has_moved ? 1 : 0;
    } else {
      EXPECT_EQ(meta.flowlet, flow.flowlet);
      EXPECT_EQ(unit, flow.owner);
      EXPECT_EQ(meta.flags, 0);
      EXPECT_EQ(meta.source_kind, StateSource::kNone);
    }
    flow.owner = unit;
    flow.flowlet = meta.flowlet;
  }

  ControllerOptions options_;
  Controller controller_;
  ControllerOut out_;
  uint32_t next_packet_ = 0;
  std::vector<UnitModel> units_;
  std::map<uint64_t, FlowModel> flows_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_TEST_DRIVER_H_
