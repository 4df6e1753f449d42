// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_cluster/cluster_moves.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace snf {

size_t ClusterMoves::from(const ClusterMember& member) const {
  size_t count = std::ranges::count(to_scan_, &member);
  for (const auto& [flow, move] : moves_) {
    count += move.from == &member ? 1 : 0;
  }
  return count;
}

void ClusterMoves::Scan(ClusterMember& member) {
  if (std::ranges::find(to_scan_, &member) != to_scan_.end()) return;
  to_scan_.push_back(&member);
  if (member.driver().is_controller_up()) ScanNow(member);
}

// Finds the flows that are to move. Packets of them wait from now on.
void ClusterMoves::ScanNow(ClusterMember& member) {
  std::erase(to_scan_, &member);
  const Controller& controller = member.driver().controller();
  const FlowTable& flows = controller.flows();
  for (uint32_t slot = 0; slot < flows.used(); ++slot) {
    const FlowHot& hot = flows.hot(slot);
    const bool is_live = flows.cold(slot).owner != kNoUnit &&
                         (hot.flags & FlowHot::kEnding) == 0 &&
                         hot.key != FlowKey{};
    if (!is_live || &host_.OwnerOf(hot.key) == &member) continue;
    const FlowId flow =
        MakeFlowId(value(member.id()), slot, flows.numbers(slot).generation);
    if (!holds(hot.key)) Begin(member, flow, hot.key);
  }
}

void ClusterMoves::Begin(ClusterMember& from, FlowId flow, const FlowKey& key) {
  by_key_.emplace(key, flow);
  Move& move = moves_[flow];
  move.key = key;
  move.from = &from;
  // A timer that is set again and again would never let it settle.
  from.driver().moves().HoldTimers(flow);
}

// Flows that were given are given again, before anything else happens to them.
void ClusterMoves::on_rebuilt(Instant now, ClusterMember& member) {
  for (const auto& [flow, move] : moves_) {
    if (move.from != &member || move.phase == Phase::kSettling) continue;
    if (member.driver().moves().Has(flow)) {
      member.driver().moves().Give(now, flow, true);
    }
  }
  to_scan_.push_back(&member);
}

void ClusterMoves::Wait(const FlowKey& flow, bool by_alias, const FlowKey& key,
                        PacketHandle packet) {
  ++figures_.packets_waited;
  moves_.at(by_key_.at(flow)).waiting.push_back({key, by_alias, packet});
}

void ClusterMoves::on_advanced(FlowId flow, Clock clock) {
  const auto taken = by_taken_.find(flow);
  if (taken == by_taken_.end()) return;
  Move& move = moves_.at(taken->second);
  move.is_there |= clock == move.moved.flow.last + 1;
}

void ClusterMoves::Advance(Instant now) {
  for (ClusterMember* const member : std::vector(to_scan_)) {
    if (member->driver().is_controller_up()) ScanNow(*member);
  }
  for (auto at = moves_.begin(); at != moves_.end();) {
    const auto move = at++;
    bool is_over = false;
    switch (move->second.phase) {
      case Phase::kSettling:
        is_over = Settle(now, *move);
        break;
      case Phase::kGiven:
        is_over = Take(now, *move);
        break;
      case Phase::kTaken:
        is_over = Finish(now, *move);
        break;
    }
    if (is_over) End(now, move);
  }
}

// Each returns true once there is nothing more to do.
bool ClusterMoves::Settle(Instant now, Moves::value_type& entry) {
  auto& [flow, move] = entry;
  VirtualDriver& from = move.from->driver();
  if (!from.is_controller_up()) return false;
  ClusterMember& to = host_.OwnerOf(move.key);
  // The table has changed back, or the flow is over.
  if (&to == move.from || !from.moves().Has(flow)) return true;
  auto moved = from.moves().Read(flow);
  const Clock last = moved.has_value() ? moved->flow.last : Clock{};
  // What its unit said of it has come only if it rested since.
  if (std::exchange(move.settled, last) != last || last == Clock{}) {
    return false;
  }
  move.moved = std::move(*moved);
  move.phase = Phase::kGiven;
  move.given = now;
  from.moves().Give(now, flow, false);
  return false;
}

bool ClusterMoves::Take(Instant now, Moves::value_type& entry) {
  auto& [flow, move] = entry;
  ClusterMember& to = host_.OwnerOf(move.key);
  if (!to.driver().is_controller_up()) return false;
  const auto id = to.driver().moves().Take(now, move.moved);
  if (id.has_value()) {
    move.phase = Phase::kTaken;
    move.to = &to;
    move.taken = *id;
    move.is_there = false;
    move.successions = to.successions();
    by_taken_.insert_or_assign(*id, flow);
    // Should that controller fail, the flow has the id that it had.
    move.moved.flow.name.flow = *id;
    const FlowKey& alias = move.moved.flow.name.alias;
    if (alias != FlowKey{}) host_.on_alias(to.id(), alias);
    return false;
  }
  if (now - move.given < kPatience || !move.from->driver().is_controller_up()) {
    return false;
  }
  ++figures_.flows_not_taken;
  move.from->driver().moves().Forget(now, flow);
  return true;
}

bool ClusterMoves::Finish(Instant now, Moves::value_type& entry) {
  auto& [flow, move] = entry;
  VirtualDriver& to = move.to->driver();
  if (!to.is_controller_up()) return false;
  if (!move.is_there && move.successions != move.to->successions() &&
      !to.moves().Has(move.taken) && !to.moves().AwaitsEnd(move.taken)) {
    // Its controller has failed, and had not sent it.
    by_taken_.erase(move.taken);
    move.phase = Phase::kGiven;
    return false;
  }
  if (!move.is_there || !move.from->driver().is_controller_up()) return false;
  ++figures_.flows_moved;
  move.from->driver().moves().Forget(now, flow);
  return true;
}

// Packets that waited go to where the flow is; it may have to move on.
void ClusterMoves::End(Instant now, Moves::iterator at) {
  const FlowId at_flow = at->first;
  Move move = std::move(at->second);
  moves_.erase(at);
  by_key_.erase(move.key);
  by_taken_.erase(move.taken);
  move.from->driver().moves().ReleaseTimers(at_flow);
  ClusterMember& owner = host_.OwnerOf(move.key);
  if (move.phase == Phase::kTaken && &owner != move.to) {
    Begin(*move.to, move.taken, move.key);
    moves_.at(move.taken).waiting = std::move(move.waiting);
    return;
  }
  for (const Waiting& packet : move.waiting) {
    owner.driver().TakeWaiting(now, packet.key, packet.by_alias, packet.packet);
  }
}

}  // namespace snf
