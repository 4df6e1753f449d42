// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_UNITS_UNIT_INDEX_H_
#define SNF_CONTROLLER_UNITS_UNIT_INDEX_H_

#include <array>
#include <cstdint>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "controller/units/load_meter.h"

namespace snf {

// Theory of operation. An index, by load, of the units that may be given
// flowlets. There is a row for each load: one per quantum up to a full unit,
// one per 16 quanta beyond, so that overloaded units are still told apart. A
// row is a set of units kept as a two-level bitmap, and a two-level bitmap over
// the rows says which are not empty. The words of a unit's bit in neighbouring
// rows lie side by side, since loads change little by little. "The fullest unit
// with room" is then: the highest non-empty row at or below a limit, and in it
// the lowest id; "the least loaded" is the lowest non-empty row. Each is a
// handful of find-first-bit steps whatever the number of units, and so is a
// change of load.
//
// Worked example: units 0, 1, 2 with loads 900, 700, 700 and a demand of 200:
// the limit is 1024 - 200 = 824; the highest row at or below it is 700, its
// lowest id is 1.
//
// Memory: 2048 rows of max_units bits. A value; owner-thread only.
class UnitIndex {
 public:
  explicit UnitIndex(uint32_t max_units);

  bool contains(UnitId unit) const { return loads_[value(unit)] != 0; }
  uint32_t size() const { return size_; }
  uint64_t total_load() const { return total_load_; }
  // The load of a unit in the index.
  uint32_t load(UnitId unit) const { return loads_[value(unit)] - 1; }

  void Insert(UnitId unit, uint32_t load);
  void Erase(UnitId unit);
  void Prefetch(UnitId unit) const {
    if (contains(unit)) __builtin_prefetch(WordOf(RowOf(load(unit)), unit), 1);
  }
  // Changes the load of a unit in the index. Budget: ≤ 15 ns; ≤ 3 ns if the row
  // stays the same.
  void Update(UnitId unit, uint32_t load);

  // Returns the unit with the highest load ≤ limit, of equals the lowest id, or
  // kNoUnit if there is none. A limit beyond a full unit counts as a full unit.
  // Budget: ≤ 15 ns.
  UnitId FullestAtMost(uint32_t limit) const;

  // Does the same among the units from `first` to below `end`. Budget: ≤ 1 ns
  // a unit.
  UnitId FullestIn(uint32_t first, uint32_t end, uint32_t limit) const;

  // Returns the unit with the lowest load, of equals the lowest id, or kNoUnit
  // if the index is empty. Loads beyond a full unit count as equal within steps
  // of 16 quanta.
  UnitId LeastLoaded() const;

 private:
  static constexpr uint32_t kRows = 2048;
  static uint32_t RowOf(uint32_t load);
  const uint64_t* WordOf(uint32_t row, UnitId unit) const {
    return &bits_[size_t{value(unit)} / 64 * kRows + row];
  }
  void SetBit(uint32_t row, UnitId unit);
  void ClearBit(uint32_t row, UnitId unit);
  UnitId LowestIn(uint32_t row) const;

  uint32_t size_ = 0;
  uint64_t total_load_ = 0;
  uint32_t summary_words_;
  uint32_t rows_summary_ = 0;
  std::array<uint64_t, kRows / 64> rows_used_{};
  LazyArray<uint32_t> loads_;    // 1 + load of each unit; 0 = not in the index
  LazyArray<uint64_t> summary_;  // row-major: which words of a row are not 0
  LazyArray<uint64_t> bits_;     // word-major: the row's units
};

}  // namespace snf

#endif  // SNF_CONTROLLER_UNITS_UNIT_INDEX_H_
