// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PREFIX_LENGTHS_H_
#define SNF_BASE_PREFIX_LENGTHS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace snf {

// Tells of which lengths there is a prefix, among those of one field in all
// rules, that has a value (rule_table.h). The borders of the prefixes cut the
// values into intervals; of each it is kept which lengths, by class, cover it.
// A length is a class of its own, but from the 64th on all share one.
//
// Worked example: 4 bits and the prefixes 01xx, 1xxx and 011x have the classes
// 0 (length 1), 1 (2) and 2 (3), and the intervals 0-3 {}, 4-5 {1}, 6-7 {1, 2},
// 8-15 {0}.
//
// Value is an unsigned integer. Add all, Finish once, then Find: it bisects.
template <typename Value>
class PrefixLengths {
 public:
  static constexpr size_t kBits = 8 * sizeof(Value);
  static constexpr size_t kMaxClasses = 64;
  static constexpr Value kMax = static_cast<Value>(~Value{0});

  void Add(Value value, size_t length) { added_[length].push_back(value); }

  void Finish() {
    struct Border {
      Value at;
      uint32_t length_class;
      bool begins;
    };
    std::vector<Border> borders;
    for (size_t length = 0; length <= kBits; ++length) {
      std::vector<Value>& values = added_[length];
      if (values.empty()) continue;
      class_of_[length] =
          static_cast<uint8_t>(std::min<size_t>(classes_++, kMaxClasses - 1));
      std::ranges::sort(values);
      const auto [first, last] = std::ranges::unique(values);
      values.erase(first, last);
      for (const Value value : values) {
        borders.push_back({value, class_of_[length], true});
        const auto last_one = static_cast<Value>(value | HostBits(length));
        if (last_one == kMax) continue;
        borders.push_back(
            {static_cast<Value>(last_one + 1), class_of_[length], false});
      }
    }
    classes_ = std::min(classes_, kMaxClasses);
    std::ranges::stable_sort(borders, {}, &Border::at);
    std::array<uint32_t, kMaxClasses> depth{};
    uint64_t covering = 0;
    starts_.push_back(0);
    classes_at_.push_back(0);
    for (const Border& border : borders) {
      uint32_t& deep = depth[border.length_class];
      deep = border.begins ? deep + 1 : deep - 1;
      const uint64_t bit = uint64_t{1} << border.length_class;
      covering = deep > 0 ? covering | bit : covering & ~bit;
      if (border.at != starts_.back()) {
        starts_.push_back(border.at);
        classes_at_.push_back(0);
      }
      classes_at_.back() = covering;
    }
    for (std::vector<Value>& values : added_) values = {};
  }

  size_t classes() const { return classes_; }
  size_t class_of(size_t length) const { return class_of_[length]; }

  // A bit for each class that has a prefix of `value`.
  uint64_t Find(Value value) const {
    size_t at = 0;
    for (size_t left = starts_.size(); left > 1;) {
      const size_t half = left / 2;
      at = starts_[at + half] <= value ? at + half : at;
      left -= half;
    }
    return classes_at_[at];
  }

 private:
  static Value HostBits(size_t length) {
    return length == kBits ? Value{0} : static_cast<Value>(kMax >> length);
  }

  std::array<std::vector<Value>, kBits + 1> added_;  // until Finish
  std::array<uint8_t, kBits + 1> class_of_{};
  size_t classes_ = 0;
  std::vector<Value> starts_;
  std::vector<uint64_t> classes_at_;
};

}  // namespace snf

#endif  // SNF_BASE_PREFIX_LENGTHS_H_
