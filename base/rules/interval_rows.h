// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_RULES_INTERVAL_ROWS_H_
#define SNF_BASE_RULES_INTERVAL_ROWS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace snf {

// A set of intervals of one field's values, each with the number of a bit. Find
// tells, for a value, the bits that have an interval with the value in it. The
// borders of all intervals cut the values into segments, and each segment has a
// row of its bits.
//
// Worked example: [0, 9] of bit 0, [4, 5] and [5, 7] of bit 1 make the segments
// 0-3 {0}, 4-7 {0, 1}, 8-9 {0}, and from 10 on {}.
//
// Value is an unsigned integer. Call Add for all intervals, then Finish once,
// then Find, which bisects. A value; any number of threads may Find.
template <typename Value>
class IntervalRows {
 public:
  void Add(Value first, Value last, uint32_t bit) {
    borders_.push_back({first, bit, true});
    if (last == static_cast<Value>(~Value{0})) return;
    borders_.push_back({static_cast<Value>(last + 1), bit, false});
  }

  // Builds the rows. The numbers of all bits are below 64 × row_words.
  void Finish(size_t row_words) {
    row_words_ = row_words;
    std::ranges::sort(borders_, {}, &Border::at);
    std::vector<int64_t> depth(64 * row_words);
    std::vector<uint64_t> row(row_words);
    starts_ = {0};
    rows_ = row;
    for (size_t i = 0; i < borders_.size();) {
      const Value at = borders_[i].at;
      for (; i < borders_.size() && borders_[i].at == at; ++i) {
        const uint32_t bit = borders_[i].bit;
        depth[bit] += borders_[i].begins ? 1 : -1;
        const uint64_t mask = uint64_t{1} << bit % 64;
        row[bit / 64] =
            depth[bit] > 0 ? row[bit / 64] | mask : row[bit / 64] & ~mask;
      }
      SetRow(at, row);
    }
    borders_ = {};
  }

  // Returns the row of the value's segment, row_words long. It is valid as long
  // as this object.
  const uint64_t* Find(Value value) const {
    const Value* at = starts_.data();
    for (size_t left = starts_.size(); left > 1;) {
      const size_t half = left / 2;
      at = at[half] <= value ? at + half : at;
      left -= half;
    }
    return &rows_[static_cast<size_t>(at - starts_.data()) * row_words_];
  }

 private:
  struct Border {
    Value at;
    uint32_t bit;
    bool begins;
  };

  // Sets the row of all values from `at` on; `at` is greater than in every call
  // before, or 0.
  void SetRow(Value at, const std::vector<uint64_t>& row) {
    const auto last = std::span(rows_).last(row_words_);
    if (std::ranges::equal(last, row)) return;
    if (at == 0) {
      std::ranges::copy(row, last.begin());
      return;
    }
    starts_.push_back(at);
    rows_.insert(rows_.end(), row.begin(), row.end());
  }

  std::vector<Border> borders_;  // until Finish
  size_t row_words_ = 0;
  std::vector<Value> starts_;
  std::vector<uint64_t> rows_;
};

}  // namespace snf

#endif  // SNF_BASE_RULES_INTERVAL_ROWS_H_
