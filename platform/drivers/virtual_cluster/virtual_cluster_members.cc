// SPDX-License-Identifier: Apache-2.0
//
// Controllers and managers that fail, join and leave, and the pools of these
// controllers.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "platform/drivers/virtual_cluster/virtual_cluster.h"

namespace snf {

// --- Pools. ------------------------------------------------------------------

// Pieces of a controller come back to it from units of another.
void VirtualCluster::On(uint32_t, const PiecesHome& home) {
  const ControllerId owner = pools_.owner(home.pieces.pool, home.pieces.word);
  VirtualDriver& driver = members_[value(owner)]->driver();
  if (!driver.is_controller_up()) {
    events_.Push(now_ + Microseconds(10), {0, home});
    return;
  }
  driver.AddPieces(now_, home.pieces, true);
}

void VirtualCluster::on_lack(ControllerId of, const PieceRequest& request) {
  events_.Push(now_ + Nanos{2 * options_.hop_delay.ns},
               {0, Lack{of, members_[value(of)]->successions(), request}});
}

// The one with most to spare gives some words.
void VirtualCluster::On(uint32_t, const Lack& lack) {
  ClusterMember& asks = *members_[value(lack.controller)];
  // A successor hears of requests that are open.
  if (!asks.driver().is_controller_up() ||
      asks.successions() != lack.successions) {
    return;
  }
  const uint16_t pool = lack.request.pool;
  ClusterMember* donor = nullptr;
  uint32_t most = 0;
  for (const auto& each : members_) {
    if (each.get() == &asks || !each->driver().is_controller_up()) continue;
    const uint32_t words =
        pools_.WholeWords(each->driver().controller(), each->id(), pool);
    if (words <= most) continue;
    most = words;
    donor = each.get();
  }
  if (donor != nullptr && asks.driver().controller().lacks_pieces(pool)) {
    for (const PieceBlock& word :
         pools_.Split(donor->driver().controller(), donor->id(),
                      lack.controller, pool)) {
      ++figures_.words_given;
      donor->driver().RemovePieces(word);
      asks.driver().AddPieces(now_, word, false);
    }
  }
  asks.driver().AskForPieces(now_, lack.request);
}

// The pools of one that has left are another's. Returns false if none can take
// them now.
bool VirtualCluster::Bequeath(ClusterMember& member) {
  const auto heir = std::ranges::find_if(live_, [this](ControllerId id) {
    return members_[value(id)]->driver().is_controller_up();
  });
  if (heir == live_.end()) return false;
  VirtualDriver& to = members_[value(*heir)]->driver();
  const Controller& from = member.driver().controller();
  const auto pools = example_->pools();
  for (uint16_t p = 0; p < pools.size(); ++p) {
    for (uint32_t w = pools[p].first / 64; w < pools[p].words(); ++w) {
      if (pools_.owner(p, w) != member.id()) continue;
      PieceBlock free = {.word = w, .pool = p, .mask = from.free_pieces(p, w)};
      PieceBlock out = free;
      out.mask = pools_.MaskOf(p, w) & ~free.mask;
      to.InheritPieces(now_, free, out);
    }
  }
  pools_.Inherit(member.id(), *heir);
  return true;
}

// --- Controllers that come and go. -------------------------------------------

int VirtualCluster::Choose(int controller) {
  if (live_.empty()) return -1;
  if (controller == Kill::kAnyController) {
    return value(live_[rng_.Below(live_.size())]);
  }
  const bool is_live = std::ranges::any_of(
      live_,
      [controller](ControllerId id) { return int{value(id)} == controller; });
  return is_live ? controller : -1;
}

void VirtualCluster::On(uint32_t, const Death& death) {
  const int controller = Choose(death.controller);
  if (controller < 0 || is_ending_) {
    ++figures_.changes_in_vain;
    return;
  }
  members_[static_cast<size_t>(controller)]->driver().KillController(now_);
}

// Kills any manager, if controllers have managers of their own.
void VirtualCluster::KillManager() {
  const auto manager = static_cast<uint32_t>(rng_.Below(managers_.size()));
  if (is_ending_ || !managers_[manager].Kill(lease_now())) {
    ++figures_.changes_in_vain;
    return;
  }
  events_.Push(now_ + options_.faults.detection, {manager, NextManager{}});
}

void VirtualCluster::On(uint32_t manager, const NextManager&) {
  managers_[manager].Succeed(++manager_epochs_, commands_);
}

void VirtualCluster::On(uint32_t, const Change& change) {
  if (is_ending_) {
    ++figures_.changes_in_vain;
  } else if (change.what.joins) {
    Join(change);
  } else {
    Leave(Choose(change.what.controller));
  }
}

void VirtualCluster::Join(const Change& change) {
  const ControllerId id{static_cast<uint8_t>(members_.size())};
  if (!cluster_.shared) AddManager();
  if (!managers_[ManagerOf(id)].is_ready()) {
    // Growth waits for the next resource manager.
    events_.Push(now_ + Milliseconds(1), {0, change});
    return;
  }
  const auto life =
      managers_[ManagerOf(id)].core()->on_join(lease_now(), id, commands_);
  SNF_CHECK(life.has_value());
  joining_.push_back(id);
  AddMember(id, *life);
}

// It takes flows once it has a unit for them.
void VirtualCluster::EnterIfReady(ClusterMember& member) {
  if (member.driver().controller().units().placeable_units() == 0 ||
      std::erase(joining_, member.id()) == 0) {
    return;
  }
  ++figures_.joined;
  SNF_CHECK(dispatcher_.Join(member.id()));
  live_.push_back(member.id());
  TableChanged();
}

void VirtualCluster::Leave(int controller) {
  if (controller < 0 || live_.size() < 2) {
    ++figures_.changes_in_vain;
    return;
  }
  const ControllerId id{static_cast<uint8_t>(controller)};
  ++figures_.left;
  SNF_CHECK(dispatcher_.Leave(id) && std::erase(live_, id) == 1);
  TableChanged();
}

void VirtualCluster::TableChanged() {
  for (const auto& each : members_) moves_.Scan(*each);
  MoveLater();
}

void VirtualCluster::LeaveIfDone(ClusterMember& member) {
  const ControllerId id = member.id();
  const bool stays =
      std::ranges::count(live_, id) > 0 || std::ranges::count(joining_, id) > 0;
  if (stays || member.gives_up_units() || !member.driver().is_controller_up() ||
      moves_.from(member) > 0 ||
      member.driver().controller().flows().size() > 0) {
    return;
  }
  member.GiveUpUnits();
}

void VirtualCluster::MoveLater() {
  if (moves_on_ || moves_.empty()) return;
  moves_on_ = true;
  const Nanos later =
      std::max(Microseconds(10), Nanos{3 * options_.hop_delay.ns});
  events_.Push(now_ + later, {0, MoveOn{}});
}

void VirtualCluster::On(uint32_t, const MoveOn&) {
  moves_on_ = false;
  moves_.Advance(now_);
  MoveLater();
}

void VirtualCluster::on_rebuilt(ControllerId id) {
  moves_.on_rebuilt(now_, *members_[value(id)]);
  MoveLater();
}

std::optional<ControllerLife> VirtualCluster::NewLife(ControllerId id) {
  const uint32_t manager = ManagerOf(id);
  if (!managers_[manager].is_ready()) return std::nullopt;
  const auto life =
      managers_[manager].core()->LifeFor(lease_now(), id, commands_);
  SendCommands(manager);
  return life;
}

}  // namespace snf
