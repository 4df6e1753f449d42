// SPDX-License-Identifier: Apache-2.0
#include "controller/core/test_driver.h"

#include <set>

namespace snf {

TestDriver::TestDriver(const ControllerOptions& options,
                       const PlacementPolicy& policy)
    : options_(options), controller_(options, policy) {
  units_.resize(options.max_units);
  for (uint32_t i = 0; i < options.max_units; ++i) {
    if (!options.leased && i < options.warm_units) {
      units_[i].state = UnitState::kWarm;
    }
  }
}

Commands TestDriver::Send(Instant now, std::span<const Arrival> arrivals,
                          size_t burst) {
  now_ = std::max(now_, now);
  Commands all;
  while (!arrivals.empty()) {
    const size_t count = std::min(burst, arrivals.size());
    batch_.clear();
    for (const Arrival& arrival : arrivals.first(count)) {
      batch_.push_back(arrival);
      if (expect_each > 0 && batch_.size() % expect_each == 0) {
        controller_.Expect(batch_);
      }
    }
    arrivals = arrivals.subspan(count);
    std::span<const Arrival> some = batch_;
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

Commands TestDriver::Packet(Instant at, uint32_t flow, uint32_t length) {
  const Arrival arrival = {.key = Flow(flow),
                           .time = at,
                           .original_length = length,
                           .packet = PacketHandle{next_packet_++}};
  const Commands commands = Send(at, {&arrival, 1});
  EXPECT_LE(commands.size(), kMaxControllerCommandsPerStep);
  return commands;
}

Commands TestDriver::Timers(Instant now) {
  now_ = std::max(now_, now);
  Commands all;
  do {
    ++timer_calls;
    controller_.on_timers(now, out_);
  } while (Execute(all) > 0 && controller_.next_wakeup() <= now);
  return all;
}

Commands TestDriver::RunTimers(Instant until) {
  Commands all;
  while (controller_.next_wakeup() <= until) {
    const Commands some = Timers(std::max(now_, controller_.next_wakeup()));
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

Commands TestDriver::Lease(Instant now, UnitId unit, uint32_t share) {
  Commands all;
  EXPECT_TRUE(controller_.on_lease(now, unit, share, out_));
  Execute(all);
  Model(unit).state = UnitState::kActive;
  Model(unit).revoked = false;
  return all;
}

Commands TestDriver::Revoke(Instant now, UnitId unit, bool at_once) {
  Commands all;
  EXPECT_TRUE(controller_.on_revoke(now, unit, at_once, out_));
  Model(unit).revoked = true;
  Execute(all);
  return all;
}

void TestDriver::Ready(Instant now, UnitId unit) {
  EXPECT_EQ(Model(unit).state, UnitState::kStarting);
  Model(unit).state = UnitState::kActive;
  controller_.on_unit_ready(now, unit);
}

void TestDriver::Stopped(UnitId unit) {
  EXPECT_EQ(Model(unit).state, UnitState::kStopping);
  EXPECT_EQ(Model(unit).owned, 0u);
  Model(unit).state = UnitState::kStopped;
  controller_.on_unit_stopped(unit);
}

uint32_t TestDriver::Drain(Instant now, UnitId unit, size_t packets) {
  auto& queue = Model(unit).queue;
  DrainReport report = {.unit = unit};
  for (; report.packets < packets && !queue.empty(); queue.pop_front()) {
    const PacketMeta& meta = queue.front();
    ++report.packets;
    report.bytes += controller_.CostOf(meta.original_length);
    if (meta.source_kind == StateSource::kUnit && meta.source != unit) {
      takeovers_.push_back({meta.flow, meta.clock, unit});
    }
  }
  if (report.packets > 0) controller_.on_drained(now, report);
  return report.packets;
}

void TestDriver::DeliverTakeover(size_t i) {
  const Takeover& takeover = takeovers_.at(i);
  controller_.on_takeover(takeover);
  const auto flow = flows_.find(value(takeover.flow));
  if (flow == flows_.end()) return;
  std::erase_if(flow->second.owners, [&](const OwnerHistory::Run& run) {
    return run.last < takeover.clock;
  });
}

void TestDriver::ExpectStatesAgree() const {
  uint32_t placeable = 0;
  for (uint32_t i = 0; i < units_.size(); ++i) {
    const UnitState state = units().state(Id(i));
    EXPECT_EQ(state, units_[i].state) << i;
    EXPECT_EQ(units().owned_flows(Id(i)), units_[i].owned) << i;
    const bool is_placeable = units().placeable(Id(i));
    if (is_placeable) {
      EXPECT_EQ(units().Ranked(placeable), Id(i));
      ++placeable;
    }
    if (state != UnitState::kStarting) {
      EXPECT_EQ(is_placeable || units().closing(Id(i)),
                state == UnitState::kActive && !units_[i].revoked)
          << i;
    }
    EXPECT_FALSE(is_placeable && units().closing(Id(i))) << i;
  }
  EXPECT_EQ(placeable, units().placeable_units());
}

void TestDriver::ExpectOwnersAgree() const {
  const OwnerHistory& owners = controller_.owners();
  ASSERT_EQ(owners.forgotten(), 0u);
  size_t runs = 0;
  for (const auto& [id, flow] : flows_) {
    const uint32_t slot = slot_of(FlowId{id});
    runs += flow.owners.size();
    ASSERT_EQ(owners.runs(slot), flow.owners.size()) << slot;
    for (uint32_t i = 0; i < flow.owners.size(); ++i) {
      EXPECT_EQ(owners.run(slot, i).last, flow.owners[i].last) << slot;
      EXPECT_EQ(owners.run(slot, i).unit, flow.owners[i].unit) << slot;
    }
  }
  EXPECT_EQ(owners.size(), runs);
}

size_t TestDriver::Execute(Commands& all) {
  const auto commands = out_.commands();
  const size_t count = commands.size();
  for (const ControllerCommand& command : commands) {
    Execute(command);
    all.push_back(command);
  }
  EXPECT_FALSE(replicas_.has_value()) << "replicas without their packet";
  out_.clear();
  return count;
}

void TestDriver::Execute(const ControllerCommand& command) {
  EXPECT_TRUE(!replicas_.has_value() || command.kind == Kind::kEnqueue);
  switch (command.kind) {
    case Kind::kReplicas:
      return on_replicas(command);
    case Kind::kEnqueue:
      return on_enqueue(command);
    case Kind::kDrop:
      EXPECT_NE(command.packet, kNoPacket);
      ++dropped;
      return;
    case Kind::kStartUnit:
      return on_start_unit(command);
    case Kind::kParkUnit:
      EXPECT_EQ(Model(command.unit).state, UnitState::kActive);
      EXPECT_TRUE(Model(command.unit).queue.empty());
      Model(command.unit).state = UnitState::kWarm;
      ++parked;
      return;
    case Kind::kStopUnit:
      return on_stop_unit(command.unit);
    case Kind::kEndFlow:
      return on_end_flow(command);
    case Kind::kAliasAck:
    case Kind::kPieces:
    case Kind::kReclaim:
    case Kind::kName:
      EXPECT_NE(Model(command.unit).state, UnitState::kStopped);
      return;
    case Kind::kSeal:
    case Kind::kDoneQuery:
    case Kind::kRedirect:
    case Kind::kForsake:
    case Kind::kForget:
      ADD_FAILURE() << "no unit has failed";
      return;
    case Kind::kAskState:
    case Kind::kTakeState:
      ADD_FAILURE() << "the controller has no heir, and is none";
      return;
  }
}

void TestDriver::on_start_unit(const ControllerCommand& command) {
  if (options_.leased) {  // a lease begins, or a stop is withdrawn
    EXPECT_EQ(Model(command.unit).state,
              command.warm ? UnitState::kStopping : UnitState::kStopped);
    ++(command.warm ? warm : cold);
    return;
  }
  EXPECT_EQ(Model(command.unit).state,
            command.warm ? UnitState::kWarm : UnitState::kStopped);
  EXPECT_GT(command.incarnation, incarnation_);
  incarnation_ = command.incarnation;
  Model(command.unit).state = UnitState::kStarting;
  ++(command.warm ? warm : cold);
}

// Expects different units in use, other than the unit itself, and as many as
// were asked for or as there are.
void TestDriver::on_replicas(const ControllerCommand& command) {
  const auto units = command.replicas.span();
  size_t others = 0;
  for (uint32_t i = 0; i < units_.size(); ++i) {
    const bool active = units_[i].state == UnitState::kActive;
    others += active && Id(i) != command.unit ? 1 : 0;
  }
  // Placed by waits, some of them may have been closing; and kLikely names as
  // many as are worth it.
  if (!controller_.units().by_wait() &&
      options_.replica_choice != ReplicaChoice::kLikely) {
    EXPECT_GE(units.size(), std::min<size_t>(options_.replicas, others));
  }
  EXPECT_LE(units.size(), options_.replicas);
  EXPECT_EQ(std::set(units.begin(), units.end()).size(), units.size());
  for (const UnitId unit : units) {
    EXPECT_NE(unit, command.unit);
    EXPECT_TRUE(Model(unit).state == UnitState::kActive ||
                Model(unit).state == UnitState::kStarting);
  }
  replicas_ = command;
  ++replica_sets;
}

void TestDriver::on_stop_unit(UnitId unit) {
  EXPECT_EQ(Model(unit).state,
            options_.leased ? UnitState::kActive : UnitState::kWarm);
  EXPECT_EQ(Model(unit).revoked, options_.leased);
  Model(unit).state = UnitState::kStopping;
  ++stopped;
  // Leases end whether or not there is another unit.
  if (Model(unit).owned == 0 || options_.leased) return;
  EXPECT_TRUE(std::ranges::any_of(units_, [](const UnitModel& model) {
    return model.state == UnitState::kActive ||
           model.state == UnitState::kStarting;
  })) << "nowhere to go for the flows of a unit that is to stop";
}

void TestDriver::on_end_flow(const ControllerCommand& command) {
  FlowModel& flow = flows_.at(value(command.end.flow));
  EXPECT_EQ(value(command.end.last), flow.clock);
  EXPECT_EQ(command.unit, flow.owner);
  SetOwner(flow, kNoUnit);
  flows_.erase(value(command.end.flow));
  ++ended;
}

void TestDriver::on_enqueue(const ControllerCommand& command) {
  UnitModel& unit = Model(command.unit);
  const PacketMeta& meta = command.meta;
  const bool starting = unit.state == UnitState::kStarting;
  EXPECT_TRUE(starting || unit.state == UnitState::kActive)
      << value(command.unit) << " gets clock " << value(meta.clock)
      << " of flow " << slot_of(meta.flow) << " flags " << int{meta.flags};
  unit.queue.push_back(meta);
  EXPECT_LE(unit.queue.size(), starting ? options_.start_buffer_packets
                                        : options_.unit_queue_packets);
  most_queued = std::max(most_queued, unit.queue.size());
  EXPECT_EQ(meta.channel_number, ++unit.channel_number);

  FlowModel& flow = flows_[value(meta.flow)];
  EXPECT_EQ(value(meta.clock), ++flow.clock);
  EXPECT_EQ(meta.has_payload(), command.packet != kNoPacket);
  if (meta.has_payload()) {
    ++enqueued;
    CheckPacket(command.unit, meta, flow);
  } else {
    ++null_packets;
    CheckNullPacket(command.unit, meta, flow);
  }
  flow.flowlet = meta.flowlet;
  if (flow.owner != command.unit) {
    if (flow.owner != kNoUnit) {
      flow.owners.push_back(
          {.first = {}, .last = Clock{flow.clock - 1}, .unit = flow.owner});
    }
    SetOwner(flow, command.unit);
  }
  replicas_.reset();
}

void TestDriver::CheckPacket(UnitId unit, const PacketMeta& meta,
                             FlowModel& flow) {
  EXPECT_EQ((meta.flags & PacketMeta::kNewFlow) != 0, flow.clock == 1);
  if ((meta.flags & PacketMeta::kFirstOfFlowlet) == 0) {
    EXPECT_EQ(meta.flowlet, flow.flowlet);
    EXPECT_EQ(unit, flow.owner);
    EXPECT_EQ(meta.flags, 0);
    EXPECT_EQ(meta.source_kind, StateSource::kNone);
    EXPECT_FALSE(flow.moved_by_null);
    EXPECT_FALSE(replicas_.has_value());
    return;
  }
  resent_first += meta.flowlet == flow.flowlet ? 1 : 0;
  EXPECT_GE(meta.flowlet, flow.flowlet);
  EXPECT_EQ(meta.source_kind,
            flow.owner == kNoUnit ? StateSource::kNone : StateSource::kUnit);
  EXPECT_EQ(meta.source, flow.owner);
  const bool has_moved = flow.owner != kNoUnit && flow.owner != unit;
  EXPECT_EQ((meta.flags & PacketMeta::kMoved) != 0, has_moved);
  moved += has_moved ? 1 : 0;
  moved_off_leaving +=
      has_moved && Model(flow.owner).state == UnitState::kStopping ? 1 : 0;
  flow.moved_by_null = false;
  if (replicas_.has_value()) {
    EXPECT_EQ(replicas_->unit, unit);
    EXPECT_EQ(replicas_->replicas.flow, meta.flow);
    EXPECT_TRUE(flow.has_replicas || replicas_->replicas.count > 0);
    flow.has_replicas = replicas_->replicas.count > 0;
  } else {
    EXPECT_FALSE(flow.has_replicas);
  }
}

void TestDriver::CheckNullPacket(UnitId unit, const PacketMeta& meta,
                                 FlowModel& flow) {
  const bool is_timer = (meta.flags & PacketMeta::kTimer) != 0;
  timer_packets += is_timer ? 1 : 0;
  EXPECT_EQ(meta.original_length, 0u);
  EXPECT_FALSE(replicas_.has_value());
  if (is_timer && unit == flow.owner) {
    EXPECT_EQ(meta.flags, PacketMeta::kNull | PacketMeta::kTimer);
    EXPECT_EQ(meta.source_kind, StateSource::kNone);
    return;
  }
  EXPECT_EQ(meta.flags & ~PacketMeta::kTimer,
            PacketMeta::kNull | PacketMeta::kFirstOfFlowlet);
  EXPECT_EQ(meta.source_kind, StateSource::kUnit);
  EXPECT_EQ(meta.source, flow.owner);
  EXPECT_NE(unit, flow.owner);
  EXPECT_GE(meta.flowlet, flow.flowlet);
  EXPECT_TRUE(Model(flow.owner).state == UnitState::kStopping ||
              (is_timer && Model(flow.owner).state == UnitState::kWarm));
  flow.moved_by_null = true;
  flow.has_replicas = false;
}

void TestDriver::SetOwner(FlowModel& flow, UnitId owner) {
  if (flow.owner != kNoUnit) {
    UnitModel& unit = Model(flow.owner);
    --unit.owned;
    evacuated += unit.owned == 0 && unit.state == UnitState::kStopping ? 1 : 0;
  }
  if (owner != kNoUnit) ++Model(owner).owned;
  flow.owner = owner;
}

}  // namespace snf
