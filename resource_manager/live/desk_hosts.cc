// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/live/desk_hosts.h"

namespace snf {
namespace {

using State = UnitStock::State;

constexpr Nanos kNoteAgain = Seconds(1);

}  // namespace

void DeskHosts::Restore(const MemberFile::Site& site) {
  if (site.unit < sites_.size()) sites_.Restore(site.unit, site.of);
}

void DeskHosts::Close(Instant now, ResourceManager& core, ManagerOut& out) {
  for (uint32_t u = 0; u < sites_.size(); ++u) {
    core.SetPlaced(now, GlobalUnitId{u}, false, out);
  }
}

// If notes were lost, the hosts of used units are unknown: these are to be
// left.
void DeskHosts::TakeIn(const ResourceManager& core) {
  if (!joined_.has_value()) return;
  const bool is_first = !std::exchange(is_known_, true);
  for (uint32_t u = 0; is_first && u < sites_.size(); ++u) {
    const State state = core.state(GlobalUnitId{u});
    const bool is_used = state != State::kCold && state != State::kAbsent;
    if (is_used && sites_.Of(u) == nullptr) sites_.Withdraw(u);
  }
  sites_.Set(*std::exchange(joined_, std::nullopt));
  is_noted_ = false;
}

void DeskHosts::Place(Instant now, ResourceManager& core, ManagerOut& out) {
  TakeIn(core);
  if (!is_known_) return;
  Say(now, false, core, out);
  const auto is_unused = [&core](uint32_t unit) {
    return core.state(GlobalUnitId{unit}) == State::kAbsent;
  };
  if (sites_.Free(is_unused)) is_noted_ = false;
  if (!is_noted_ && now >= next_note_) {
    is_noted_ = calls_.note().ok();
    next_note_ = now + (is_noted_ ? Nanos{} : kNoteAgain);
    if (is_noted_) calls_.tell();
  }
  if (is_noted_) Say(now, true, core, out);
}

// Tells the core which units have a place, or which have none.
void DeskHosts::Say(Instant now, bool are_placed, ResourceManager& core,
                    ManagerOut& out) {
  for (uint32_t u = 0; u < sites_.size(); ++u) {
    if (sites_.is_placed(u) != are_placed) continue;
    core.SetPlaced(now, GlobalUnitId{u}, are_placed, out);
  }
  calls_.execute();
}

std::optional<proto::ToMember> DeskHosts::word() const {
  if (!is_known_ || !is_noted_) return std::nullopt;
  proto::ToMember word;
  proto::UnitHosts& hosts = *word.mutable_unit_hosts();
  for (const MemberFile::Site& site : sites()) {
    proto::UnitHost& unit = *hosts.add_unit();
    unit.set_unit(site.unit);
    unit.set_host(site.of.host);
    unit.set_address(site.of.address);
  }
  return word;
}

std::vector<MemberFile::Site> DeskHosts::sites() const {
  std::vector<MemberFile::Site> sites;
  for (uint32_t u = 0; u < sites_.size(); ++u) {
    if (HostOf(u).empty()) continue;
    sites.push_back({.unit = u, .of = *sites_.Of(u)});
  }
  return sites;
}

uint32_t DeskHosts::placed() const {
  uint32_t placed = 0;
  for (uint32_t u = 0; u < sites_.size(); ++u) placed += sites_.is_placed(u);
  return placed;
}

std::string DeskHosts::HostOf(uint32_t unit) const {
  const UnitSites::Site* const site = sites_.Of(unit);
  return site == nullptr ? "" : site->host;
}

}  // namespace snf
