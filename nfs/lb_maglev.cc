// SPDX-License-Identifier: Apache-2.0
#include "nfs/lb_maglev.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace snf {

bool MaglevTable::IsSize(uint32_t size) {
  if (size < kMinSize || size > kMaxSize || size % 2 == 0) return false;
  for (uint32_t factor = 3; factor * factor <= size; factor += 2) {
    if (size % factor == 0) return false;
  }
  return true;
}

MaglevTable::MaglevTable(std::vector<Member> members, uint32_t size) {
  SNF_CHECK(IsSize(size) && members.size() < size);
  if (members.empty()) return;
  std::ranges::sort(members, {}, [](const Member& m) {
    return std::tuple(m.offset_hash, m.skip_hash, m.value);
  });
  struct Turn {
    uint32_t at;  // the next slot of its permutation
    uint32_t skip;
  };
  std::vector<Turn> turns;
  uint32_t most = 0;
  for (const Member& member : members) {
    turns.push_back({static_cast<uint32_t>(member.offset_hash % size),
                     static_cast<uint32_t>(member.skip_hash % (size - 1) + 1)});
    most = std::max(most, member.weight);
  }
  SNF_CHECK(most > 0 && most <= kMaxWeight);
  constexpr uint16_t kFree = 0xffff;
  slots_.assign(size, kFree);
  uint32_t left = size;
  for (uint64_t round = 0;; ++round) {
    for (size_t i = 0; i < members.size(); ++i) {
      const uint64_t weight = members[i].weight;
      if ((round + 1) * weight / most == round * weight / most) continue;
      Turn& turn = turns[i];
      while (slots_[turn.at] != kFree) turn.at = (turn.at + turn.skip) % size;
      slots_[turn.at] = members[i].value;
      if (--left == 0) return;
    }
  }
}

}  // namespace snf
