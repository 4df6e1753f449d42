// SPDX-License-Identifier: Apache-2.0
#include "controller/units/unit_index.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace snf {
namespace {

constexpr uint32_t kWordBits = 64;

constexpr uint32_t WordsFor(uint32_t bits) {
  return (bits + kWordBits - 1) / kWordBits;
}

constexpr uint64_t Bit(uint32_t i) { return uint64_t{1} << (i % kWordBits); }

constexpr uint32_t LowestBit(uint64_t word) {
  return static_cast<uint32_t>(std::countr_zero(word));
}
constexpr uint32_t HighestBit(uint64_t word) {
  return kWordBits - 1 - static_cast<uint32_t>(std::countl_zero(word));
}

}  // namespace

UnitIndex::UnitIndex(uint32_t max_units)
    : summary_words_(WordsFor(WordsFor(max_units))),
      loads_(max_units),
      summary_(size_t{kRows} * summary_words_),
      bits_(size_t{kRows} * WordsFor(max_units)) {
  SNF_CHECK(max_units >= 1 && max_units <= kMaxUnits);
}

uint32_t UnitIndex::RowOf(uint32_t load) {
  constexpr uint32_t kQuantaPerRow = 16;
  if (load <= kFullLoad) return load;
  const uint32_t beyond =
      (load - kFullLoad + kQuantaPerRow - 1) / kQuantaPerRow;
  return std::min(kFullLoad + beyond, kRows - 1);
}

void UnitIndex::SetBit(uint32_t row, UnitId unit) {
  const uint32_t word = value(unit) / kWordBits;
  bits_[size_t{word} * kRows + row] |= Bit(value(unit));
  summary_[size_t{row} * summary_words_ + word / kWordBits] |= Bit(word);
  rows_used_[row / kWordBits] |= Bit(row);
  rows_summary_ |= uint32_t{1} << (row / kWordBits);
}

void UnitIndex::ClearBit(uint32_t row, UnitId unit) {
  const uint32_t word = value(unit) / kWordBits;
  uint64_t& bits = bits_[size_t{word} * kRows + row];
  bits &= ~Bit(value(unit));
  if (bits != 0) return;
  uint64_t* summary = &summary_[size_t{row} * summary_words_];
  summary[word / kWordBits] &= ~Bit(word);
  if (!std::all_of(summary, summary + summary_words_,
                   [](uint64_t w) { return w == 0; })) {
    return;
  }
  rows_used_[row / kWordBits] &= ~Bit(row);
  if (rows_used_[row / kWordBits] == 0) {
    rows_summary_ &= ~(uint32_t{1} << (row / kWordBits));
  }
}

void UnitIndex::Insert(UnitId unit, uint32_t load) {
  SNF_CHECK(!contains(unit));
  SetBit(RowOf(load), unit);
  loads_[value(unit)] = load + 1;
  total_load_ += load;
  ++size_;
}

void UnitIndex::Erase(UnitId unit) {
  SNF_CHECK(contains(unit));
  ClearBit(RowOf(load(unit)), unit);
  total_load_ -= load(unit);
  loads_[value(unit)] = 0;
  --size_;
}

void UnitIndex::Update(UnitId unit, uint32_t load) {
  const uint32_t old_load = this->load(unit);
  if (load == old_load) return;
  loads_[value(unit)] = load + 1;
  total_load_ += load;
  total_load_ -= old_load;
  const uint32_t row = RowOf(load);
  const uint32_t old_row = RowOf(old_load);
  if (row == old_row) return;
  ClearBit(old_row, unit);
  SetBit(row, unit);
}

UnitId UnitIndex::FullestAtMost(uint32_t limit) const {
  // A row beyond a full unit holds several loads, so the limit ends at a full
  // unit.
  const uint32_t row = std::min(limit, kFullLoad);
  const uint32_t word = row / kWordBits;
  const uint64_t up_to = ~uint64_t{0} >> (kWordBits - 1 - row % kWordBits);
  if (const uint64_t here = rows_used_[word] & up_to; here != 0) {
    return LowestIn(word * kWordBits + HighestBit(here));
  }
  const uint32_t below = rows_summary_ & ((uint32_t{1} << word) - 1);
  if (below == 0) return kNoUnit;
  const uint32_t lower = HighestBit(below);
  return LowestIn(lower * kWordBits + HighestBit(rows_used_[lower]));
}

UnitId UnitIndex::FullestIn(uint32_t first, uint32_t end,
                            uint32_t limit) const {
  // Loads here are greater by 1, and 0 is that of a unit not in the index.
  const uint32_t most = std::min(limit, kFullLoad) + 1;
  uint32_t best = 0;
  for (uint32_t i = first; i < end; ++i) {
    best = std::max(best, loads_[i] <= most ? loads_[i] : 0);
  }
  if (best == 0) return kNoUnit;
  while (loads_[first] != best) ++first;
  return UnitId{static_cast<uint16_t>(first)};
}

UnitId UnitIndex::LeastLoaded() const {
  if (rows_summary_ == 0) return kNoUnit;
  const uint32_t word = LowestBit(rows_summary_);
  return LowestIn(word * kWordBits + LowestBit(rows_used_[word]));
}

UnitId UnitIndex::LowestIn(uint32_t row) const {
  const uint64_t* summary = &summary_[size_t{row} * summary_words_];
  uint32_t i = 0;
  while (summary[i] == 0) ++i;
  const uint32_t word = i * kWordBits + LowestBit(summary[i]);
  const uint32_t id =
      word * kWordBits + LowestBit(bits_[size_t{word} * kRows + row]);
  return UnitId{static_cast<uint16_t>(id)};
}

}  // namespace snf
