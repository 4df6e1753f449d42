// SPDX-License-Identifier: Apache-2.0
#include "platform/report/explain/explain.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/messages/drop_reason.h"
#include "controller/core/placement.h"
#include "runtime/core/unit.h"

namespace snf {
namespace {

// Returns true if the controller dropped the packet after it had placed its
// flowlet.
bool HasFlowlet(std::string_view reason) {
  return reason == ToString(DropReason::kUnitQueueFull) ||
         reason == ToString(DropReason::kStartBufferFull);
}

}  // namespace

void DescribeCandidates(const Decision& decision, const UnitPool& units,
                        FlowletStory& flowlet) {
  const PlacementRequest& request = decision.request;
  const bool all = units.placeable_units() <= FlowletStory::kMaxCandidates;
  UnitId fullest = kNoUnit;
  if (request.demand <= units.limit()) {
    fullest = units.FullestAtMost(units.limit() - request.demand);
  }
  const std::array<UnitId, 3> telling = {decision.placement.unit, fullest,
                                         units.LeastLoaded()};
  flowlet.placeable_units = units.placeable_units();
  flowlet.starting_units = units.starting_units();
  for (uint32_t i = 0; i < units.max_units(); ++i) {
    const UnitId unit{static_cast<uint16_t>(i)};
    if (!units.placeable(unit)) continue;
    const int64_t score = PlacementScore(request, unit, units);
    flowlet.units_with_room += score >= 0 ? 1 : 0;
    const bool has_state = HasState(request, unit, units);
    if (all || has_state || std::ranges::find(telling, unit) != telling.end()) {
      flowlet.candidates.push_back({.unit = unit,
                                    .load = units.load(unit),
                                    .score = score,
                                    .has_state = has_state});
    }
  }
}

Explainer::Explainer(const FlowKey& key, const RunOptions& options,
                     const PlacementPolicy& policy)
    : options_(options),
      cost_(options.controller),
      replicas_(options.controller.max_units) {
  story_.key = key;
  story_.policy = policy.name();
  story_.per_packet = policy.per_packet();
  story_.by_score = policy.by_score();
  story_.flowlets_on_unit.resize(options.controller.max_units);
}

void Explainer::on_arrival(Instant now, const FlowKey& key,
                           uint32_t original_length) {
  if (!capture_started_) {
    capture_started_ = true;
    story_.capture_start = now;
  }
  is_ours_ = key == story_.key;
  if (!is_ours_) return;
  if (story_.packets.arrived == 0) {
    story_.first_packet = story_.last_packet = now;
  }
  silence_ = now - story_.last_packet;
  length_ = original_length;
  story_.last_packet = now;
  ++story_.packets.arrived;
  story_.packets.bytes += original_length;
}

void Explainer::on_decision(const Decision& decision, const UnitPool& units) {
  if (!is_ours_) return;
  if (decision.cause == FlowletCause::kNewFlow) {
    ++story_.lives;
    std::erase_if(lives_, [](const Life& l) { return l.under_way == 0; });
    lives_.push_back({.id = decision.flow, .number = story_.lives});
  }
  const bool is_late = decision.cause == FlowletCause::kLate;
  const Placement& placement = decision.placement;
  ++(is_late ? story_.late : story_.flowlets);
  story_.overcommitted += placement.overcommitted ? 1 : 0;
  if (placement.unit != kNoUnit) {
    ++story_.flowlets_on_unit[value(placement.unit)];
  }

  FlowletStory& flowlet = Append();
  flowlet.life = story_.lives;
  flowlet.decision = decision;
  flowlet.decision.gap = silence_;
  flowlet.cause_bytes = cost_(length_);
  flowlet.unit_starting =
      placement.unit != kNoUnit &&
      units.state(placement.unit) == UnitPool::State::kStarting;
  if (decision.request.owner != kNoUnit) {
    flowlet.owner_state = units.state(decision.request.owner);
  }
  DescribeCandidates(decision, units, flowlet);
}

void Explainer::on_enqueue(Instant now, UnitId unit, const PacketMeta& meta) {
  if (!meta.has_payload()) {
    on_hand_over(now, unit, meta);
    return;
  }
  if (!is_ours_ || kept() == 0) return;
  if (Life* life = FindLife(meta.flow)) ++life->under_way;
  FlowletStory& flowlet = Kept(kept() - 1);
  ++story_.packets.enqueued;
  ++flowlet.packets.arrived;
  ++flowlet.packets.enqueued;
  flowlet.packets.bytes += meta.original_length;
  if (flowlet.first == Clock{}) flowlet.first = meta.clock;
  flowlet.last = meta.clock;
  if ((meta.flags & PacketMeta::kMoved) != 0) {
    flowlet.moved = true;
    ++story_.moved;
  }
}

void Explainer::on_hand_over(Instant now, UnitId unit, const PacketMeta& meta) {
  if (FindLife(meta.flow) == nullptr || kept() == 0) return;
  ++story_.hand_overs;
  Kept(kept() - 1).hand_over = {
      .time = now, .clock = meta.clock, .from = meta.source, .to = unit};
}

void Explainer::on_service_begin(Instant now, UnitId unit,
                                 const PacketMeta& meta, Nanos wait) {
  const Life* life = FindLife(meta.flow);
  if (life == nullptr || !meta.has_payload()) return;
  const Nanos in_all = now - (meta.arrival + options_.hop_delay);
  const PacketName packet = {
      .life = life->number, .flowlet = meta.flowlet, .clock = meta.clock};
  FlowletStory* flowlet = FindFlowlet(meta.flow, meta.clock);
  const bool was_held = wait != Unit::kNeverHeld;
  for (PacketFates* fates : {&story_.packets, &FatesOf(flowlet)}) {
    fates->Wait(in_all, packet);
    if (was_held) fates->Hold(wait, packet);
  }
  if ((meta.flags & PacketMeta::kMoved) == 0 || was_held) return;
  ++story_.seamless;
  if (flowlet == nullptr) return;
  flowlet->seamless = true;
  const Replica& replica = replicas_[value(unit)];
  if (replica.flow == meta.flow && replica.applied == meta.clock - 1) {
    flowlet->there_since = replica.came;
  }
}

void Explainer::on_state_sent(Instant now, UnitId /*sender*/, UnitId receiver,
                              const State& state) {
  if (!state.pushed || receiver == kNoUnit || FindLife(state.flow) == nullptr) {
    return;
  }
  ++story_.pushes;
  FlowletStory* flowlet = FindFlowlet(state.flow, state.applied);
  if (flowlet == nullptr) return;
  StatePushes& pushes = flowlet->pushes;
  if (pushes.times == 0 || pushes.clock != state.applied ||
      pushes.last != now) {
    ++pushes.times;
    pushes.last = now;
    pushes.clock = state.applied;
    pushes.units.clear();
  }
  pushes.units.push_back(receiver);
}

void Explainer::on_pull(Instant now, UnitId asked, const Pull& pull) {
  if (FindLife(pull.flow) == nullptr || IsRepeated(pull)) return;
  ++story_.pulls;
  FlowletStory* flowlet = FindFlowlet(pull.flow, pull.need + 1);
  if (flowlet == nullptr || flowlet->first != pull.need + 1 ||
      flowlet->state.has_value()) {
    return;
  }
  // The pull was sent one hop delay ago.
  flowlet->state = {.asked = {now.ns - options_.hop_delay.ns},
                    .from = asked,
                    .need = pull.need};
}

bool Explainer::IsRepeated(const Pull& pull) {
  const auto is_same = [&pull](const Pull& other) {
    return other.flow == pull.flow && other.need == pull.need &&
           other.requester == pull.requester;
  };
  if (std::ranges::any_of(pulls_, is_same)) return true;
  if (pulls_.size() == kLastPulls) pulls_.pop_front();
  pulls_.push_back(pull);
  return false;
}

void Explainer::on_state(Instant now, UnitId receiver, const State& state) {
  if (FindLife(state.flow) == nullptr) return;
  Replica& replica = replicas_[value(receiver)];
  // Without an older copy there, nothing is taken of a push of changes.
  const bool may_be_taken = !state.delta || replica.flow == state.flow;
  if (state.pushed && may_be_taken &&
      (replica.flow != state.flow || replica.applied < state.applied)) {
    replica = {.flow = state.flow, .applied = state.applied, .came = now};
  }
  FlowletStory* flowlet = FindFlowlet(state.flow, state.applied + 1);
  if (flowlet == nullptr || !flowlet->state.has_value() ||
      flowlet->decision.placement.unit != receiver) {
    return;
  }
  flowlet->state->came = std::min(flowlet->state->came, now);
}

void Explainer::on_release(const ReleasedPacket& packet) {
  const PacketRoute& route = packet.route;
  if (!route.has_clock()) return;
  Life* life = FindLife(route.flow);
  if (life == nullptr) return;
  const Nanos latency = route.latency;
  FlowletStory* flowlet = FindFlowlet(route.flow, route.clock);
  for (PacketFates* fates : {&story_.packets, &FatesOf(flowlet)}) {
    ++fates->released;
    fates->longest_latency = std::max(fates->longest_latency, latency);
  }
  story_.latency_ns.Record(latency.ns);
  if (flowlet != nullptr &&
      flowlet->latencies_ns.size() < FlowletStory::kMaxLatencies) {
    flowlet->latencies_ns.push_back(latency.ns);
  }
  Left(life);
}

void Explainer::on_consumed(Instant /*now*/, const PacketMeta& meta) {
  Life* life = FindLife(meta.flow);
  if (life == nullptr) return;
  ++story_.packets.consumed;
  ++FatesOf(FindFlowlet(meta.flow, meta.clock)).consumed;
  Left(life);
}

void Explainer::on_drop(const ReleasedPacket& packet, std::string_view reason) {
  const Instant now = packet.time;
  const FlowId flow = packet.route.flow;
  const Clock clock = packet.route.clock;
  if (flow == kNoFlow) {
    if (!is_ours_) return;
    story_.packets.Drop(reason, 1);
    TellDrop(now, story_.lives, clock, reason);
    if (!HasFlowlet(reason) || kept() == 0) return;
    PacketFates& fates = Kept(kept() - 1).packets;
    ++fates.arrived;
    fates.bytes += length_;
    fates.Drop(reason, 1);
    return;
  }
  Life* life = FindLife(flow);
  if (life == nullptr) return;
  TellDrop(now, life->number, clock, reason);
  for (PacketFates* fates :
       {&story_.packets, &FatesOf(FindFlowlet(flow, clock))}) {
    ++fates->dropped_at_unit;
    fates->Drop(reason, 1);
  }
  Left(life);
}

Explainer::Life* Explainer::FindLife(FlowId flow) {
  for (Life& life : lives_) {
    if (life.id == flow) return &life;
  }
  return nullptr;
}

void Explainer::Left(Life* life) {
  if (life->under_way > 0) --life->under_way;
  if (life->under_way == 0 && life != &lives_.back()) {
    lives_.erase(lives_.begin() + (life - lives_.data()));
  }
}

FlowletStory& Explainer::Kept(size_t i) {
  const size_t first = story_.first_flowlets.size();
  if (i < first) return story_.first_flowlets[i];
  const size_t moved = story_.moved_flowlets.size();
  return i < first + moved ? story_.moved_flowlets[i - first]
                           : story_.last_flowlets[i - first - moved];
}

FlowletStory* Explainer::FindFlowlet(FlowId flow, Clock clock) {
  for (size_t i = kept(); i-- > 0;) {
    FlowletStory& flowlet = Kept(i);
    if (flowlet.decision.flow == flow && flowlet.first != Clock{} &&
        flowlet.first <= clock && clock <= flowlet.last) {
      return &flowlet;
    }
  }
  return nullptr;
}

PacketFates& Explainer::FatesOf(FlowletStory* flowlet) {
  return flowlet != nullptr ? flowlet->packets : story_.between_packets;
}

FlowletStory& Explainer::Append() {
  if (story_.first_flowlets.size() < kFirstFlowlets) {
    return story_.first_flowlets.emplace_back();
  }
  if (story_.last_flowlets.size() == kLastFlowlets) MakeRoom();
  return story_.last_flowlets.emplace_back();
}

bool Explainer::IsToBeKept(const FlowletStory& flowlet) const {
  return flowlet.decision.flow == keep_flow_ && flowlet.first <= keep_clock_ &&
         keep_clock_ <= flowlet.last;
}

void Explainer::TellDrop(Instant now, uint32_t life, Clock clock,
                         std::string_view reason) {
  if (story_.drops.size() == FlowStory::kMaxDrops) return;
  story_.drops.push_back({.time = now,
                          .life = life,
                          .clock = clock,
                          .reason = std::string(reason)});
}

void Explainer::MakeRoom() {
  FlowletStory& oldest = story_.last_flowlets.front();
  const auto moved = static_cast<size_t>(std::ranges::count_if(
                         story_.first_flowlets, &FlowletStory::moved)) +
                     story_.moved_flowlets.size();
  if ((oldest.moved && moved < kMovedFlowlets) || IsToBeKept(oldest)) {
    story_.moved_flowlets.push_back(std::move(oldest));
  } else {
    ++story_.between;
    story_.between_packets.Add(oldest.packets);
    story_.between_moved += oldest.moved ? 1 : 0;
    story_.between_overcommitted +=
        oldest.decision.placement.overcommitted ? 1 : 0;
  }
  story_.last_flowlets.pop_front();
}

}  // namespace snf
