// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/held_homes.h"

#include <utility>

#include "base/messages/controller_counts.h"

namespace snf {

MemberSet HeldHomes::HomesOf(uint32_t member, MemberSet live) {
  MemberSet homes = 0;
  for (uint32_t home = 0; home < kMostAtPorts; ++home) {
    if (OwnerOf(home, live) == member) homes |= SetOf(home);
  }
  return homes;
}

MemberSet HeldHomes::here() const {
  MemberSet here = held_;
  for (const Move& move : moves_) here |= move.homes;
  return here & ~SetOf(self_);
}

HeldHomes::Change HeldHomes::Follow(const GroupMember::View& view) {
  const GatewayTable& table = *view.table;
  const MemberSet live = table.live();
  MemberSet stays = 0;  // the same processes as before
  for (const Gateway& member : table.members) {
    const Gateway* const before = table_.Find(member.number);
    const bool is_same =
        before != nullptr && before->incarnation == member.incarnation;
    if (is_same) stays |= SetOf(member.number);
  }
  Change change = {.gone = ~stays};
  const bool was_in = view.is_in && joined_ != 0 && joined_ == view.joined;
  if (!was_in) {
    for (const Move& move : moves_) change.stay |= move.homes;
    moves_.clear();
    held_ = 0;
  } else {
    std::erase_if(moves_, [&](const Move& move) {
      const bool goes_on =
          Has(stays, move.to) && (move.homes & ~HomesOf(move.to, live)) == 0;
      if (!goes_on) change.stay |= move.homes;
      return !goes_on;
    });
    const MemberSet were_here =
        held_ | change.stay | (HomesOf(self_, stays) & ~here());
    for (const Gateway& member : table.members) {
      const MemberSet homes = were_here & HomesOf(member.number, live);
      if (member.number == self_ || homes == 0) continue;
      change.moves.push_back({.to = member.number, .homes = homes});
      moves_.push_back(change.moves.back());
    }
  }
  held_ = view.is_in ? HomesOf(self_, live) & ~SetOf(self_) : 0;
  table_ = table;
  joined_ = view.is_in ? view.joined : 0;
  return change;
}

}  // namespace snf
