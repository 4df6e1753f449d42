// SPDX-License-Identifier: Apache-2.0
// The hosts of a resource manager's units.
#include <string>
#include <utility>

#include "resource_manager/live/manager_desk.h"

namespace snf {
namespace {

constexpr Nanos kNoteAgain = Seconds(1);

}  // namespace

void ManagerDesk::on_letter(const Joined& joined) { hosts_ = joined.hosts; }

// Takes in the hosts that have joined since. Units that are used, and whose
// hosts are unknown because notes were lost, are to be left.
void ManagerDesk::TakeInHosts() {
  if (!hosts_.has_value()) return;
  const bool is_first = !std::exchange(has_hosts_, true);
  for (uint32_t u = 0; is_first && u < sites_.size(); ++u) {
    const UnitStock::State state = core().state(GlobalUnitId{u});
    const bool is_used =
        state != UnitStock::State::kCold && state != UnitStock::State::kAbsent;
    if (is_used && sites_.Of(u) == nullptr) sites_.Withdraw(u);
  }
  sites_.Set(*std::exchange(hosts_, std::nullopt));
  are_noted_ = false;
}

// Closes units whose hosts have left, and opens units on hosts that have room,
// once the notes have their hosts.
void ManagerDesk::PlaceUnits() {
  if (!options_.follows_hosts || core().recovering()) return;
  TakeInHosts();
  if (!has_hosts_) return;
  SayPlaces(false);
  const auto is_unused = [this](uint32_t unit) {
    return core().state(GlobalUnitId{unit}) == UnitStock::State::kAbsent;
  };
  if (sites_.Free(is_unused)) are_noted_ = false;
  if (!are_noted_ && now_ >= next_note_) {
    const absl::Status noted = Note();
    are_noted_ = noted.ok();
    next_note_ = now_ + (are_noted_ ? Nanos{} : kNoteAgain);
    if (!are_noted_) Tell(std::string(noted.message()));
    for (auto& [id, member] : members_) TellHosts(member);
  }
  if (are_noted_) SayPlaces(true);
}

// Tells the core which units have a place, or which have none.
void ManagerDesk::SayPlaces(bool are_placed) {
  for (uint32_t u = 0; u < sites_.size(); ++u) {
    if (sites_.is_placed(u) != are_placed) continue;
    core().SetPlaced(now_, GlobalUnitId{u}, are_placed, commands_);
  }
  SendCommands();
}

void ManagerDesk::TellHosts(Member& member) const {
  if (!has_hosts_ || !member.is_welcome || !are_noted_) return;
  proto::ToMember word;
  proto::UnitHosts& hosts = *word.mutable_unit_hosts();
  for (uint32_t u = 0; u < sites_.size(); ++u) {
    const UnitSites::Site* const site = sites_.Of(u);
    if (site == nullptr || site->host.empty()) continue;
    proto::UnitHost& unit = *hosts.add_unit();
    unit.set_unit(u);
    unit.set_host(site->host);
    unit.set_address(site->address);
  }
  member.stream->Send(word);
}

}  // namespace snf
