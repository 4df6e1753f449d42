// SPDX-License-Identifier: Apache-2.0
#include "controller/core/unit_ranks.h"

#include <bit>

#include "base/check.h"

namespace snf {

UnitRanks::UnitRanks(uint32_t max_units)
    : nodes_(std::bit_ceil(max_units)), counts_(nodes_) {
  SNF_CHECK(max_units >= 1 && max_units <= kMaxUnits);
}

void UnitRanks::Insert(UnitId unit) {
  for (uint32_t i = value(unit) + 1u; i < nodes_; i += i & -i) ++counts_[i];
  ++size_;
}

void UnitRanks::Erase(UnitId unit) {
  for (uint32_t i = value(unit) + 1u; i < nodes_; i += i & -i) --counts_[i];
  --size_;
}

UnitId UnitRanks::At(uint32_t rank) const {
  SNF_CHECK(rank < size_);
  uint32_t below = 0;  // ids that are known to be below the member
  for (uint32_t step = nodes_ / 2; step > 0; step /= 2) {
    // Without a branch, for which way it goes cannot be predicted: all ones
    // where the member is above the ids that this node counts.
    const uint32_t count = counts_[below + step];
    const uint32_t above = -uint32_t{count <= rank};
    rank -= count & above;
    below += step & above;
  }
  return UnitId{static_cast<uint16_t>(below)};
}

}  // namespace snf
