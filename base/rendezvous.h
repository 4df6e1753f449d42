// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_RENDEZVOUS_H_
#define SNF_BASE_RENDEZVOUS_H_

#include <bit>
#include <cstdint>
#include <optional>

#include "base/keyed_hash.h"

namespace snf {

// A set of at most 32 members by their numbers: bit i is member i.
using MemberSet = uint32_t;

inline constexpr MemberSet SetOf(uint32_t member) {
  return MemberSet{1} << member;
}
inline constexpr bool Has(MemberSet set, uint32_t member) {
  return (set & SetOf(member)) != 0;
}
// Returns the set of members 0 … count - 1; count ≤ 32.
inline constexpr MemberSet FirstOf(uint32_t count) {
  return count >= 32 ? ~MemberSet{0} : SetOf(count) - 1;
}

// Returns the member of the set with the highest weight for a key; none of an
// empty set. A weight is a hash of key and member (Thaler and Ravishankar,
// "Using Name-Based Mappings to Increase Hit Rates", 1998). So if a member
// leaves, only keys of that member get another owner, and if the member comes
// back, the same keys return.
//
// Worked example: of {0, 1, 2} a key has the owner 1. Without 1 the owner is 2;
// a key of 0 or 2 keeps its owner.
inline std::optional<uint32_t> RendezvousOwner(uint64_t key, MemberSet among) {
  std::optional<uint32_t> owner;
  uint64_t most = 0;
  for (MemberSet left = among; left != 0; left &= left - 1) {
    const auto member = static_cast<uint32_t>(std::countr_zero(left));
    // Odd constants of splitmix64 keep small numbers apart.
    const uint64_t salt = (member + 1) * 0x9e37'79b9'7f4a'7c15u;
    const uint64_t weight = Fold((key + 1) * 0xd6e8'feb8'6659'fd93u ^ salt,
                                 0xbf58'476d'1ce4'e5b9u ^ salt);
    if (owner.has_value() && weight <= most) continue;
    most = weight;
    owner = member;
  }
  return owner;
}

// Returns the next member of the set behind this one by number, after the last
// the first; none if there is no other member. If a member leaves, the members
// before and behind it are neighbours: so both have the same next member.
inline constexpr std::optional<uint32_t> NextMember(uint32_t member,
                                                    MemberSet among) {
  const MemberSet others = among & ~SetOf(member);
  if (others == 0) return std::nullopt;
  const MemberSet behind = others & ~(FirstOf(member + 1));
  return static_cast<uint32_t>(std::countr_zero(behind != 0 ? behind : others));
}

// Returns the member that owns the key once its owner has left; none if there
// is no other member.
inline std::optional<uint32_t> RendezvousSecond(uint64_t key, MemberSet among) {
  const std::optional<uint32_t> owner = RendezvousOwner(key, among);
  if (!owner.has_value()) return std::nullopt;
  return RendezvousOwner(key, among & ~SetOf(*owner));
}

}  // namespace snf

#endif  // SNF_BASE_RENDEZVOUS_H_
