// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_UNITS_UNIT_SET_H_
#define SNF_CONTROLLER_UNITS_UNIT_SET_H_

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/ids.h"
#include "base/lazy_array.h"

namespace snf {

// A set of units, one bit each. A value; owner-thread only; nothing is
// allocated after construction.
class UnitSet {
 public:
  explicit UnitSet(uint32_t max_units)
      : words_((size_t{max_units} + 63) / 64) {}

  uint32_t size() const { return size_; }
  bool Has(UnitId unit) const {
    return (words_[value(unit) / 64] & Bit(unit)) != 0;
  }
  // Adds the unit. Returns false if it is already a member.
  bool Insert(UnitId unit) {
    if (Has(unit)) return false;
    words_[value(unit) / 64] |= Bit(unit);
    ++size_;
    return true;
  }
  // Removes the unit. Returns false if it was not a member.
  bool Erase(UnitId unit) {
    if (!Has(unit)) return false;
    words_[value(unit) / 64] &= ~Bit(unit);
    --size_;
    return true;
  }
  void Clear() {
    if (size_ > 0) std::ranges::fill(words_.span(), 0);
    size_ = 0;
  }
  // Returns the member of the lowest id ≥ `id` that is not in `without`, a set
  // of as many units, or kNoUnit if there is none. O(max_units / 64).
  UnitId NextFrom(uint32_t id, const UnitSet* without = nullptr) const {
    uint64_t mask = ~uint64_t{0} << id % 64;
    for (size_t w = id / 64; w < words_.size(); ++w, mask = ~uint64_t{0}) {
      const uint64_t found =
          words_[w] & mask & ~(without == nullptr ? 0 : without->words_[w]);
      if (found == 0) continue;
      return UnitId{static_cast<uint16_t>(
          w * 64 + static_cast<size_t>(std::countr_zero(found)))};
    }
    return kNoUnit;
  }

 private:
  static uint64_t Bit(UnitId unit) { return uint64_t{1} << value(unit) % 64; }

  LazyArray<uint64_t> words_;
  uint32_t size_ = 0;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_UNITS_UNIT_SET_H_
