// SPDX-License-Identifier: Apache-2.0
#include "controller/rebuild/rebuild.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace snf {
namespace {

// An honest unit reports clock 0 of a flow of which it has run no packet.
bool IsFlowClock(Clock clock) { return clock <= kMaxRestoredClock; }
bool IsPacketClock(Clock clock) {
  return clock != Clock{} && IsFlowClock(clock);
}

}  // namespace

// --- What is reported. ---

void Rebuild::on_name(const FlowName& name) {
  if (slot_of(name.flow) >= max_flows_) {
    ++counters_.reports_refused;
    return;
  }
  Flow& flow = flows_[name.flow];
  FlowName older = name;
  if (flow.name.flow == kNoFlow || name.version > flow.name.version) {
    std::swap(older, flow.name);
  }
  if (older.flow != kNoFlow) flow.older.push_back(older);
}

void Rebuild::on_flow(const FlowReport& report) {
  if (slot_of(report.flow) >= max_flows_ || value(report.unit) >= max_units_ ||
      !IsFlowClock(report.clock)) {
    ++counters_.reports_refused;
    return;
  }
  using Kind = FlowReport::Kind;
  Flow& flow = flows_[report.flow];
  flow.flowlet = std::max(flow.flowlet, report.flowlet);
  if (report.is_released && report.kind != Kind::kEnd) {
    flow.released = std::max(flow.released, report.clock);
  }
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
    case Kind::kOverAtLogger:
      flow.is_over = true;
      break;
    case Kind::kAtLogger:
      if (SNF_REBUILD_RULE(kSealed, false, true)) break;
      flow.points.push_back(
          {.clock = report.clock, .unit = report.unit, .at_logger = true});
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
      !IsPacketClock(meta.clock)) {
    ++counters_.reports_refused;
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
    ++counters_.reports_refused;
    return;
  }
  units_.push_back(report);
  has_sealed_ |= report.was_sealed;
}

void Rebuild::ForgetLogger(UnitId unit) {
  for (auto& [id, flow] : flows_) {
    std::erase_if(flow.points, [unit](const Point& point) {
      return point.at_logger && point.unit == unit;
    });
  }
}

// --- The controller. ---

void Rebuild::Begin(Controller& c, Instant now, const Controller& before) {
  c.counters_ = before.counters_;
  c.units_.Continue(before.units_, incarnation_);
  for (const UnitReport& unit : units_) {
    c.units_.Restore(now, unit);
    c.counters_.failures.failures += unit.has_failed ? 1 : 0;
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
  CountFlows(c);
}

// The counters are the previous controller's; its table may have had other
// flows.
void Rebuild::CountFlows(Controller& c) {
  ControllerCounters& counters = c.counters_;
  const uint64_t begun = counters.flows + counters.flows_inherited;
  const uint64_t known = counters.flows_ended + c.flows_.size();
  if (known > begun) {
    counters.flows_inherited += known - begun;
  } else {
    counters.flows_ended += begun - known;
  }
}

// Returns true if only copies are left of the flow, which no unit needs.
bool Rebuild::IsOver(const Flow& flow) const {
  if (flow.is_over) return true;
  if (flow.end != Clock{}) return false;
  Clock newest{};
  for (const Point& point : flow.points) newest = std::max(newest, point.clock);
  if (newest == Clock{}) return true;
  if (SNF_REBUILD_RULE(kOver, false, true)) return false;
  return newest < flow.over || (!has_sealed_ && newest <= flow.handed);
}

// Sorts the points by clock. If a unit has a flow itself, its logger's copy is
// older or the same, or has a clock that the unit ran after its report. The
// logger's copy counts only if a later clock was released.
void Rebuild::Sort(Flow& flow) {
  std::vector<Point>& points = flow.points;
  std::erase_if(points, [&](const Point& at_logger) {
    return at_logger.at_logger && at_logger.clock >= flow.released &&
           std::ranges::any_of(points, [&](const Point& point) {
             return !point.at_logger && point.unit == at_logger.unit &&
                    (!point.is_packet || point.clock == at_logger.clock);
           });
  });
  std::ranges::stable_sort(points, [](const Point& a, const Point& b) {
    if (a.clock != b.clock) return a.clock < b.clock;
    return a.at_logger && !b.at_logger;
  });
}

// Returns where that clock is, or was processed; null if no report says. The
// flow's points must be sorted.
const Rebuild::Point* Rebuild::PlaceOf(const Flow& flow, Clock clock) {
  const auto place =
      std::ranges::upper_bound(flow.points, clock, {}, &Point::clock);
  if (place == flow.points.begin() || (place - 1)->clock != clock) {
    return nullptr;
  }
  return &*(place - 1);
}

// Returns a unit that may get a tombstone or a null packet; kNoUnit if there is
// none.
UnitId Rebuild::AnyUnit(const Controller& c) {
  if (c.units_.placeable_units() > 0) return c.units_.LeastLoaded();
  UnitId stopped = kNoUnit;
  for (uint32_t i = 0; i < c.units_.max_units(); ++i) {
    const UnitId unit{static_cast<uint16_t>(i)};
    if (c.units_.barred(unit)) continue;
    if (c.units_.state(unit) != UnitPool::State::kStopped) return unit;
    if (stopped == kNoUnit) stopped = unit;
  }
  return stopped;
}

// Returns the point of a new clock, which must be higher than all clocks of
// this flow in missing_. `before` is the place of the previous clock, or null.
Rebuild::Point Rebuild::AddMissing(FlowId id, const Point* before, Clock clock,
                                   UnitId to, uint8_t flag) {
  PacketMeta meta;
  meta.flow = id;
  meta.clock = clock;
  meta.flags = static_cast<uint8_t>(PacketMeta::kFirstOfFlowlet | flag);
  if (clock == Clock{1}) {
    meta.flags |= PacketMeta::kNewFlow;
  } else if (before != nullptr) {
    meta.source = before->unit;
    meta.source_kind =
        before->at_logger ? StateSource::kLogger : StateSource::kUnit;
  } else {
    meta.source = to;
    meta.source_kind = StateSource::kUnit;
  }
  missing_.push_back({.slot = slot_of(id), .to = to, .meta = meta});
  return {.clock = clock, .unit = to};
}

// Returns the number of clocks without a point between `applied` and the
// newest.
uint64_t Rebuild::MissingOf(const Flow& flow) {
  uint64_t missing = 0;
  Clock before = flow.applied;
  for (const Point& point : flow.points) {
    if (point.clock <= before) continue;
    missing += value(point.clock) - value(before) - 1;
    before = point.clock;
  }
  return missing;
}

// Adds a point for each clock that no unit has, in order. Returns false if the
// limit of tombstones has no room for them.
bool Rebuild::FindMissing(const Controller& c, FlowId id, Flow& flow) {
  if (SNF_REBUILD_RULE(kTombstone, false, true)) return true;
  const uint64_t missing = MissingOf(flow);
  if (missing == 0) return true;
  if (missing > tombstones_left_) return false;
  tombstones_left_ -= missing;
  const Clock newest = flow.points.back().clock;
  std::vector<Point> added;
  added.reserve(missing);
  for (Clock clock = flow.applied + 1; clock < newest; clock = clock + 1) {
    if (PlaceOf(flow, clock) != nullptr) continue;
    const auto next =
        std::ranges::upper_bound(flow.points, clock, {}, &Point::clock);
    UnitId to = next->at_logger ? AnyUnit(c) : next->unit;
    const Clock last{value(clock) - 1};
    const Point* before = PlaceOf(flow, last);
    if (!added.empty() && added.back().clock == last) before = &added.back();
    if (before != nullptr && !before->at_logger) to = before->unit;
    added.push_back(AddMissing(id, before, clock, to, PacketMeta::kTombstone));
  }
  const auto middle = static_cast<ptrdiff_t>(flow.points.size());
  flow.points.insert(flow.points.end(), added.begin(), added.end());
  std::ranges::inplace_merge(flow.points, flow.points.begin() + middle, {},
                             &Point::clock);
  return true;
}

// If only a sealed logger has the flow, another unit gets it by a null packet.
void Rebuild::MoveFromLogger(const Controller& c, FlowId id, Flow& flow) {
  const Point newest = flow.points.back();
  if (!newest.at_logger || flow.end != Clock{}) return;
  if (SNF_REBUILD_RULE(kNull, false, true)) return;
  flow.points.push_back(
      AddMissing(id, &newest, newest.clock + 1, AnyUnit(c), PacketMeta::kNull));
}

// Finds packets that wait for state at another place than the clock before is.
void Rebuild::FindRedirects(FlowId id, const Flow& flow) {
  if (SNF_REBUILD_RULE(kRedirect, false, true)) return;
  for (const Point& point : flow.points) {
    const PacketMeta& meta = point.meta;
    if (!point.is_packet || point.clock <= flow.applied ||
        point.clock == Clock{1} ||
        (meta.flags & PacketMeta::kFirstOfFlowlet) == 0) {
      continue;
    }
    const Point* const place = PlaceOf(flow, Clock{value(point.clock) - 1});
    if (place == nullptr) continue;
    const StateSource kind =
        place->at_logger ? StateSource::kLogger : StateSource::kUnit;
    if (meta.source == place->unit && meta.source_kind == kind) continue;
    redirects_.push_back({.to = point.unit,
                          .redirect = {.flow = id,
                                       .clock = point.clock,
                                       .source = place->unit,
                                       .source_kind = kind}});
  }
}

void Rebuild::FindOld(FlowId id, const Flow& flow) {
  if (SNF_REBUILD_RULE(kForget, false, true)) return;
  for (const Point& point : flow.points) {
    if (point.is_packet || point.clock >= flow.released) continue;
    old_.push_back({.unit = point.unit,
                    .at_logger = point.at_logger,
                    .end = {id, point.clock + 1}});
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
  Sort(flow);
  flow.applied = std::max(flow.over, flow.handed);
  for (const Point& point : flow.points) {
    if (!point.is_packet) {
      flow.applied = std::max(flow.applied, point.clock);
    } else if (point.meta.source_kind == StateSource::kLogger) {
      flow.applied = std::max(flow.applied, Clock{value(point.clock) - 1});
    }
  }
  if (FindMissing(c, id, flow)) {
    MoveFromLogger(c, id, flow);
    FindRedirects(id, flow);
    FindOld(id, flow);
  } else {
    hopeless_.push_back(slot);
  }
  const Point& newest = flow.points.back();
  c.flows_.Restore(slot, generation_of(id));
  FlowHot& hot = c.flows_.hot(slot);
  hot.clock = SNF_REBUILD_RULE(kNext, newest.clock, newest.clock + 1);
  hot.last_packet = now;
  hot.unit = kNoUnit;
  c.flows_.numbers(slot).flowlet = flow.flowlet;
  FlowCold& cold = c.flows_.cold(slot);
  cold.owner = newest.unit;
  cold.demand_bps = c.flowlets_.FirstDemand();
  c.pieces_.on_flow_moved(newest.unit);
  if (SNF_REBUILD_RULE(kHistory, true, false)) RestoreHistory(c, slot, flow);
  ++counters_.flows;
  if (ends) {
    ++counters_.flows_ending;
    hot.flags = FlowHot::kEnding;
    return;
  }
  c.units_.AddOwned(newest.unit);
  named_.emplace_back(flow.name.version, id);
}

void Rebuild::RestoreHistory(Controller& c, uint32_t slot, const Flow& flow) {
  std::vector<OwnerHistory::Run> runs;
  for (const Point& point : flow.points) {
    const Clock last = runs.empty() ? Clock{} : runs.back().last;
    if (last >= point.clock) continue;
    if (!runs.empty() && runs.back().unit == point.unit &&
        runs.back().at_logger == point.at_logger) {
      runs.back().last = point.clock;
    } else {
      runs.push_back({.last = point.clock,
                      .unit = point.unit,
                      .at_logger = point.at_logger});
    }
  }
  for (size_t i = 0; i + 1 < runs.size(); ++i) {
    runs[i].is_superseded = runs[i].last < flow.released;
    c.owners_.Add(slot, runs[i]);
  }
}

// Returns true if no unit has that clock, or has had it.
bool Rebuild::IsLost(const Flow& flow, Clock clock) {
  if (SNF_REBUILD_RULE(kWithdraw, false, true)) return false;
  return clock > flow.applied &&
         std::ranges::none_of(flow.points, [&](const Point& point) {
           return point.is_packet && point.clock == clock;
         });
}

// If two flows have one key, or one alias, the flow that was named last keeps
// it. A flow that was over when it was moved has none.
void Rebuild::LinkFlows(Controller& c, Instant now) {
  std::ranges::sort(named_, std::greater<>());
  for (const auto& [version, id] : named_) {
    const uint32_t slot = slot_of(id);
    const FlowName& name = flows_.at(id).name;
    const bool is_over =
        name.key == FlowKey{} ||
        c.flows_.Find(name.key, c.flows_.HashOf(name.key)) != FlowTable::kNone;
    if (is_over) {
      ++(name.flow == kNoFlow ? counters_.flows_unnamed
                              : counters_.flows_superseded);
      // The flow ends: further words about it do not count.
      c.flows_.hot(slot).flags = FlowHot::kEnding;
      c.Disown(now, c.flows_.cold(slot).owner);
      unnamed_.push_back(slot);
      continue;
    }
    c.flows_.Link(slot, name.key);
    RestoreAlias(c, slot, id);
    if (name.idle_timeout.ns > 0) {
      c.idle_timeouts_.Set(slot, name.timeout_clock, name.idle_timeout);
    }
    c.flows_.hot(slot).last_packet = now;
    FlowEnds::ArmIdle(c, slot);
  }
}

// If the clock of its alias is lost, the flow keeps its previous alias.
void Rebuild::RestoreAlias(Controller& c, uint32_t slot, FlowId id) {
  const Flow& flow = flows_.at(id);
  const auto is_lost = [&](const FlowName& name) {
    return name.alias != FlowKey{} && IsLost(flow, name.alias_clock);
  };
  FlowName name = flow.name;
  if (is_lost(name)) {
    ++counters_.aliases_withdrawn;
    withdrawn_.push_back({.flow = id, .clock = name.alias_clock});
    name = {};
    for (const FlowName& older : flow.older) {
      if (older.version >= name.version && !is_lost(older)) name = older;
    }
  }
  if (name.alias == FlowKey{} || SNF_REBUILD_RULE(kAlias, false, true)) return;
  c.aliases_.Set(slot, {.key = name.alias,
                        .flow = id,
                        .clock = name.alias_clock,
                        .group = name.alias_group});
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

// Returns true if the clock still has to go to that unit: the unit may have
// failed meanwhile.
bool Rebuild::IsPlaced(const Controller& c, const Missing& missing) {
  const Clock clock = missing.meta.clock;
  if (c.IdOf(missing.slot) != missing.meta.flow) return false;
  UnitId unit = c.flows_.cold(missing.slot).owner;
  c.owners_.ForEach(missing.slot, [&](const OwnerHistory::Run& run) {
    if (clock < run.first || clock > run.last) return;
    unit = run.at_logger ? kNoUnit : run.unit;
  });
  return unit == missing.to;
}

bool Rebuild::Advance(Controller& c, Instant now, ControllerOut& out) {
  for (; given_up_ < hopeless_.size(); ++given_up_) {
    const Failover::MoveResult result =
        c.failover_.GiveUp(c, now, hopeless_[given_up_], out);
    if (result == Failover::MoveResult::kMore) return false;
  }
  for (; redirected_ < redirects_.size(); ++redirected_) {
    if (out.room() < kMaxControllerCommandsPerStep) return false;
    ++counters_.redirects;
    out.push(ControllerCommand::Of(redirects_[redirected_].to,
                                   redirects_[redirected_].redirect));
  }
  for (; forgotten_ < old_.size(); ++forgotten_) {
    if (out.room() < kMaxControllerCommandsPerStep) return false;
    const Old& old = old_[forgotten_];
    out.push(ControllerCommand::Forget(old.unit, old.at_logger, old.end));
  }
  for (; sent_ < missing_.size(); ++sent_) {
    if (out.room() < kMaxControllerCommandsPerStep) return false;
    Missing& missing = missing_[sent_];
    if (!IsPlaced(c, missing)) continue;
    if (!c.units_.placeable(missing.to)) {
      c.units_.Use(now, missing.to, out);
    }
    const bool is_null = (missing.meta.flags & PacketMeta::kNull) != 0;
    missing.meta.channel_number = c.units_.TakeRecoverySlot(now, missing.to, 0);
    if (missing.meta.channel_number == 0) {
      // All slots may be taken by packets that wait for this clock. If the flow
      // is given up, the clock of its null packet was never given.
      Clock& newest = c.flows_.hot(missing.slot).clock;
      const Clock with_null = newest;
      if (is_null) newest = Clock{value(newest) - 1};
      const Failover::MoveResult result =
          c.failover_.WaitForSlot(c, now, missing.slot, out);
      if (result == Failover::MoveResult::kMoved) continue;
      newest = with_null;
      return false;
    }
    c.failover_.waits_since_ = Instant::max();
    missing.meta.arrival = now;
    missing.meta.flowlet = c.flows_.numbers(missing.slot).flowlet;
    ++(is_null ? counters_.null_packets : counters_.tombstones);
    c.Name(missing.slot, missing.to, out);
    out.push(ControllerCommand::Enqueue(missing.to, kNoPacket, missing.meta));
  }
  for (; ended_ < unnamed_.size(); ++ended_) {
    if (out.room() < kMaxControllerCommandsPerStep) return false;
    const uint32_t slot = unnamed_[ended_];
    // The end may have come by itself.
    if (c.flows_.cold(slot).owner != kNoUnit)
      FlowEnds::EndAgain(c, now, slot, out);
  }
  return true;
}

}  // namespace snf
