// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_UNIT_RANKS_H_
#define SNF_CONTROLLER_CORE_UNIT_RANKS_H_

#include <cstdint>

#include "base/ids.h"
#include "base/lazy_array.h"

namespace snf {

// A set of units that finds its members by rank: the member with so many of
// lower id. A binary indexed tree of counts (Fenwick, "A New Data Structure for
// Cumulative Frequency Tables", 1994): node i counts the members among the
// lowbit(i) ids below i, so to find a rank is to go down by halves.
//
// Worked example: of {2, 5, 6} rank 0 is unit 2 and rank 2 is unit 6.
//
// All of it O(log max_units); less than 4 bytes a unit. A value; owner-thread
// only; nothing is allocated after construction.
class UnitRanks {
 public:
  explicit UnitRanks(uint32_t max_units);

  uint32_t size() const { return size_; }
  // A unit that is not a member; one that is.
  void Insert(UnitId unit);
  void Erase(UnitId unit);
  // The member of that rank, for rank < size(). Budget: ≤ 20 ns.
  UnitId At(uint32_t rank) const;

 private:
  uint32_t nodes_;  // a power of two ≥ max_units; the last id needs no node
  uint32_t size_ = 0;
  LazyArray<uint16_t> counts_;  // [i]: of ids i - lowbit(i) … i - 1
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_UNIT_RANKS_H_
