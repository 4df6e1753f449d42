// SPDX-License-Identifier: Apache-2.0
#include "controller/rebuild/rebuild.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace snf {
namespace {

// More clocks than this cannot be missing of one flow.
constexpr uint64_t kMaxMissing = 1 << 20;

}  // namespace

// --- What is reported. ---

void Rebuild::on_name(const FlowName& name) {
  if (slot_of(name.flow) >= max_flows_) {
    ++figures_.refused;
    return;
  }
  FlowName& known = flows_[name.flow].name;
  if (known.flow == kNoFlow || name.version > known.version) known = name;
}

void Rebuild::on_flow(const FlowReport& report) {
  if (slot_of(report.flow) >= max_flows_ || value(report.unit) >= max_units_) {
    ++figures_.refused;
    return;
  }
  using Kind = FlowReport::Kind;
  Flow& flow = flows_[report.flow];
  flow.flowlet = std::max(flow.flowlet, report.flowlet);
  switch (report.kind) {
    case Kind::kRan:
      flow.points.push_back({.clock = report.clock, .unit = report.unit});
      break;
    case Kind::kHandedOver:
      flow.points.push_back({.clock = report.clock, .unit = report.unit});
      flow.handed = std::max(flow.handed, report.clock);
      break;
    case Kind::kTookOver:
      flow.over = std::max(flow.over, report.clock);
      break;
    case Kind::kEnd:
      flow.end = report.clock;
      flow.end_unit = report.unit;
      break;
  }
}

void Rebuild::on_packet(const PacketReport& report) {
  const PacketMeta& meta = report.meta;
  if (slot_of(meta.flow) >= max_flows_ || value(report.unit) >= max_units_ ||
      meta.clock == Clock{}) {
    ++figures_.refused;
    return;
  }
  Flow& flow = flows_[meta.flow];
  flow.flowlet = std::max(flow.flowlet, meta.flowlet);
  flow.points.push_back({.clock = meta.clock,
                         .unit = report.unit,
                         .is_packet = true,
                         .meta = meta});
}

void Rebuild::on_unit(const UnitReport& report) {
  if (value(report.unit) >= max_units_) {
    ++figures_.refused;
    return;
  }
  units_.push_back(report);
}

// --- The controller. ---

void Rebuild::Begin(Controller& c, Instant now, const Controller& before) {
  c.counters_ = before.counters_;
  c.units_.cold_starts_ = before.units_.cold_starts_;
  c.units_.warm_starts_ = before.units_.warm_starts_;
  c.units_.failed_starts_ = before.units_.failed_starts_;
  for (const UnitReport& unit : units_) {
    c.units_.Restore(now, unit);
    if (unit.was_sealed) c.failover_.on_sealed_before(unit.unit);
    if (unit.state != UnitReport::State::kStopped) {
      c.pieces_.RestoreHolder(unit.unit, unit.grants);
    }
  }
  RestorePieces(c);
  // By slot; of two flows in one, the newer one goes on.
  std::map<uint32_t, FlowId> in_slots;
  for (const auto& [id, flow] : flows_) {
    c.names_told_ = std::max(c.names_told_, flow.name.version);
    if (!IsOver(flow)) in_slots.insert_or_assign(slot_of(id), id);
  }
  for (const auto& [slot, id] : in_slots)
    RestoreFlow(c, now, id, flows_.at(id));
  LinkFlows(c, now);
}

// Nothing is left of the flow but copies that nobody needs.
bool Rebuild::IsOver(const Flow& flow) const {
  if (flow.end != Clock{}) return false;
  Clock newest{};
  for (const Point& point : flow.points) newest = std::max(newest, point.clock);
  if (newest == Clock{}) return true;
  if (SNF_REBUILD_RULE(kOver, false, true)) return false;
  return newest < flow.over || newest <= flow.handed;
}

// Sorts the flow's points, and adds one for each clock that nobody has.
void Rebuild::FindMissing(uint32_t slot, FlowId id, Flow& flow) {
  std::ranges::stable_sort(flow.points, {}, &Point::clock);
  Clock applied = std::max(flow.over, flow.handed);
  for (const Point& point : flow.points) {
    if (!point.is_packet) {
      applied = std::max(applied, point.clock);
    } else if (point.meta.source_kind == StateSource::kLogger) {
      applied = std::max(applied, Clock{value(point.clock) - 1});
    }
  }
  std::vector<Point> added;
  Clock above = flow.points.back().clock;
  const Point* next = &flow.points.back();
  UnitId to = kNoUnit;
  for (size_t i = flow.points.size(); i > 0 && above > applied + 1;) {
    const Clock below = i > 1 ? flow.points[i - 2].clock : applied;
    next = &flow.points[i - 1];
    --i;
    to = next->is_packet && next->meta.source_kind == StateSource::kUnit &&
                 (next->meta.flags & PacketMeta::kFirstOfFlowlet) != 0 &&
                 value(next->meta.source) < max_units_
             ? next->meta.source
             : next->unit;
    const Clock stop = std::max(below, applied);
    if (value(next->clock) - value(stop) > kMaxMissing) break;
    for (Clock clock{value(next->clock) - 1}; clock > stop;
         clock = Clock{value(clock) - 1}) {
      added.push_back({.clock = clock, .unit = to});
    }
    above = below;
  }
  if (SNF_REBUILD_RULE(kTombstone, false, true)) return;
  const size_t first = missing_.size();
  for (const Point& point : added) {
    flow.points.push_back(point);
    missing_.push_back({.slot = slot,
                        .to = point.unit,
                        .meta = {.flow = id,
                                 .clock = point.clock,
                                 .arrival = Instant{},
                                 .flags = PacketMeta::kFirstOfFlowlet |
                                          PacketMeta::kTombstone}});
  }
  // They go in the order of their clocks.
  std::reverse(missing_.begin() + static_cast<ptrdiff_t>(first),
               missing_.end());
  std::ranges::stable_sort(flow.points, {}, &Point::clock);
  for (size_t i = first; i < missing_.size(); ++i) {
    PacketMeta& meta = missing_[i].meta;
    if (meta.clock == Clock{1}) {
      meta.flags |= PacketMeta::kNewFlow;
      continue;
    }
    // The last point below has the clock before, or is nearest to it.
    const Point* source = nullptr;
    for (const Point& point : flow.points) {
      if (point.clock < meta.clock) source = &point;
    }
    meta.source = source != nullptr ? source->unit : missing_[i].to;
    meta.source_kind = StateSource::kUnit;
  }
}

void Rebuild::RestoreFlow(Controller& c, Instant now, FlowId id, Flow& flow) {
  const uint32_t slot = slot_of(id);
  const bool ends = SNF_REBUILD_RULE(kEnd, flow.end != Clock{}, false);
  if (flow.end != Clock{}) {
    const bool is_known = std::ranges::any_of(
        flow.points, [&](const Point& p) { return p.clock == flow.end; });
    if (!is_known) {
      flow.points.push_back({.clock = flow.end, .unit = flow.end_unit});
    }
  }
  FindMissing(slot, id, flow);
  const Point& newest = flow.points.back();
  c.flows_.Restore(slot, generation_of(id));
  FlowHot& hot = c.flows_.hot(slot);
  hot.clock = SNF_REBUILD_RULE(kNext, newest.clock, newest.clock + 1);
  hot.last_packet = now;
  hot.unit = kNoUnit;
  c.flows_.numbers(slot).flowlet = flow.flowlet;
  FlowCold& cold = c.flows_.cold(slot);
  cold.owner = newest.unit;
  cold.demand_bps = c.demand_.FirstDemand();
  c.pieces_.on_flow_moved(newest.unit);
  if (SNF_REBUILD_RULE(kHistory, true, false)) RestoreHistory(c, slot, flow);
  ++figures_.flows;
  if (ends) {
    ++figures_.flows_ending;
    hot.flags = FlowHot::kEnding;
    return;
  }
  c.units_.AddOwned(newest.unit);
  named_.emplace_back(flow.name.version, id);
}

void Rebuild::RestoreHistory(Controller& c, uint32_t slot, const Flow& flow) {
  struct Run {
    Clock last;
    UnitId unit;
    bool at_logger;
  };
  std::vector<Run> runs;
  const auto add = [&](const Run& run) {
    if (!runs.empty() && runs.back().last >= run.last) return;
    if (!runs.empty() && runs.back().unit == run.unit &&
        runs.back().at_logger == run.at_logger) {
      runs.back().last = run.last;
    } else {
      runs.push_back(run);
    }
  };
  for (const Point& point : flow.points) {
    if (point.is_packet && point.meta.source_kind == StateSource::kLogger &&
        point.clock > Clock{1}) {
      add({Clock{value(point.clock) - 1}, point.meta.source, true});
    }
    add({point.clock, point.unit, false});
  }
  for (size_t i = 0; i + 1 < runs.size(); ++i) {
    c.owners_.Add(slot, runs[i].last, runs[i].unit, runs[i].at_logger);
  }
}

// Of two flows with one key, or one alias, the one that was named last has it.
void Rebuild::LinkFlows(Controller& c, Instant now) {
  std::ranges::sort(named_, std::greater<>());
  for (const auto& [version, id] : named_) {
    const uint32_t slot = slot_of(id);
    const FlowName& name = flows_.at(id).name;
    const bool is_taken =
        name.flow == kNoFlow ||
        c.flows_.Find(name.key, c.flows_.HashOf(name.key)) != FlowTable::kNone;
    if (is_taken) {
      ++(name.flow == kNoFlow ? figures_.flows_unnamed
                              : figures_.flows_superseded);
      unnamed_.push_back(slot);
      continue;
    }
    c.flows_.Link(slot, name.key);
    if (name.alias != FlowKey{} && SNF_REBUILD_RULE(kAlias, true, false)) {
      c.aliases_.Set(slot, {.key = name.alias,
                            .flow = id,
                            .clock = name.alias_clock,
                            .group = name.alias_group});
    }
    if (name.idle_timeout.ns > 0) {
      c.idle_timeouts_.Set(slot, name.timeout_clock, name.idle_timeout);
    }
    c.flows_.hot(slot).last_packet = now;
    c.ArmIdle(slot);
  }
}

void Rebuild::RestorePieces(Controller& c) {
  PieceCounters& counters = c.counters_.pieces;
  counters.pieces_out = 0;
  if (SNF_REBUILD_RULE(kPieces, false, true)) return;
  for (const auto& [place, mask] : words_) {
    if (mask == 0) continue;
    counters.pieces_out += static_cast<uint64_t>(std::popcount(mask));
    c.pieces_.Restore({.word = place.second, .pool = place.first, .mask = mask},
                      counters);
  }
  if (SNF_REBUILD_RULE(kUnlogged, false, true)) return;
  for (const GrantReport& grant : grants_) c.pieces_.RestoreGrant(grant);
}

// --- What is left to do. ---

bool Rebuild::Advance(Controller& c, Instant now, ControllerOut& out) {
  for (; sent_ < missing_.size(); ++sent_) {
    if (out.room() < kMaxControllerCommandsPerStep) return false;
    Missing& missing = missing_[sent_];
    if (!c.units_.placeable(missing.to)) {
      c.units_.Use(now, missing.to, out);
    }
    missing.meta.channel_number = c.units_.TakeRecoverySlot(now, missing.to, 0);
    if (missing.meta.channel_number == 0) return false;
    missing.meta.arrival = now;
    missing.meta.flowlet = c.flows_.numbers(missing.slot).flowlet;
    ++figures_.tombstones;
    out.push(ControllerCommand::Enqueue(missing.to, kNoPacket, missing.meta));
  }
  for (; ended_ < unnamed_.size(); ++ended_) {
    if (out.room() < kMaxControllerCommandsPerStep) return false;
    const uint32_t slot = unnamed_[ended_];
    const UnitId owner = c.flows_.cold(slot).owner;
    out.push(ControllerCommand::End(owner,
                                    {c.IdOf(slot), c.flows_.hot(slot).clock}));
    c.Disown(now, owner);
    c.flows_.hot(slot).flags = FlowHot::kEnding;
  }
  return true;
}

}  // namespace snf
