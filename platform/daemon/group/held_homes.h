// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_GROUP_HELD_HOMES_H_
#define SNF_PLATFORM_DAEMON_GROUP_HELD_HOMES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/rendezvous.h"
#include "platform/daemon/group/group_member.h"
#include "resource_manager/core/gateway_group.h"

namespace snf {

// Theory of operation. Says whose flows a member of a group has besides its
// own, and to whom these go once the table changes (proto/protocol.md G1, H7).
// The flows of a member, its home, are that member's if it lives, else the
// next live member's.
//
// Worked example: 0, 1 and 2 live, and 1 is killed: 2 has the home 1. 1 joins
// again: of 2, Follow returns a move of the home 1 to 1. If 1 is killed before
// the move has ended, Follow returns that the home 1 stays.
//
// A new process in the place of a member that stayed in the table counts as a
// member that has come back: its heir has its homes for no time, but copies of
// its flows.
//
// A value without clock and IO.
class HeldHomes {
 public:
  struct Move {
    uint32_t to = 0;
    MemberSet homes = 0;
    friend bool operator==(const Move&, const Move&) = default;
  };
  struct Change {
    MemberSet stay = 0;         // homes of moves that do not go on
    std::vector<Move> moves{};  // that begin
    // Members whose copies are of this or an earlier time: they send no more.
    MemberSet gone = 0;
  };

  explicit HeldHomes(uint32_t self) : self_(self) {}

  // Goes by this table from now on.
  Change Follow(const GroupMember::View& view);
  // A move has ended.
  void OnMoved(const Move& move) { std::erase(moves_, move); }
  // Returns the homes, without the own one, whose flows are here.
  MemberSet here() const;

 private:
  static std::optional<uint32_t> OwnerOf(uint32_t home, MemberSet live) {
    return Has(live, home) ? std::optional(home) : NextMember(home, live);
  }
  // Returns the homes that a member has, of these that live.
  static MemberSet HomesOf(uint32_t member, MemberSet live);

  const uint32_t self_;
  GatewayTable table_{};
  uint64_t joined_ = 0;  // 0: was not in the table
  MemberSet held_ = 0;
  std::vector<Move> moves_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_GROUP_HELD_HOMES_H_
