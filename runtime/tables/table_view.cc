// SPDX-License-Identifier: Apache-2.0
#include "runtime/tables/table_view.h"

#include <array>
#include <iterator>

namespace snf {

TableView::TableView(const TableShape& shape) : shape_(shape), totals_(shape) {}

void TableView::Merge(const Update& update, Own& own) const {
  if (own.sum.empty()) own.sum.resize(shape_.value_words());
  if (update.erases) {
    own.is_erased = true;
    std::ranges::fill(own.sum, 0);
  }
  shape_.MergeInto(own.sum.data(), update.delta.data());
}

void TableView::Add(uint64_t number, const uint64_t* key, bool erases,
                    const uint64_t* delta) {
  if (kept_ == kMaxOwn) return;
  ++kept_;
  Own& own = key == nullptr ? rest_ : own_[Key(key, key + shape_.key_words())];
  own.updates.push_back({.number = number,
                         .erases = erases,
                         .delta = {delta, delta + shape_.value_words()}});
  Merge(own.updates.back(), own);
}

void TableView::Forget(uint64_t number, Own& own) {
  if (own.updates.empty() || own.updates.front().number > number) return;
  while (!own.updates.empty() && own.updates.front().number <= number) {
    own.updates.pop_front();
    --kept_;
  }
  own.sum.clear();
  own.is_erased = false;
  for (const Update& update : own.updates) Merge(update, own);
}

void TableView::on_told(const uint64_t* key, uint64_t number) {
  if (key == nullptr) return Forget(number, rest_);
  const auto own = own_.find(KeyView(key, shape_.key_words()));
  if (own == own_.end()) return;
  Forget(number, own->second);
  if (own->second.updates.empty()) own_.erase(own);
}

void TableView::EndSweep(uint64_t number) {
  std::array<uint64_t, TableShape::kMaxValueBytes / 8> value{};
  for (auto own = own_.begin(); own != own_.end();) {
    if (!totals_.Read(own->first.data(), value.data())) {
      Forget(number, own->second);
    }
    own = own->second.updates.empty() ? own_.erase(own) : std::next(own);
  }
}

void TableView::Apply(const Own& own, uint64_t* value) const {
  if (own.is_erased) std::fill_n(value, shape_.value_words(), 0);
  if (!own.sum.empty()) shape_.MergeInto(value, own.sum.data());
}

bool TableView::Read(const uint64_t* key, uint64_t* value) const {
  const bool is_told = totals_.Read(key, value);
  if (!is_told) std::fill_n(value, shape_.value_words(), 0);
  const auto own = own_.find(KeyView(key, shape_.key_words()));
  if (own == own_.end()) return is_told;
  Apply(own->second, value);
  return true;
}

void TableView::ReadRest(uint64_t* value) const {
  totals_.ReadRest(value);
  Apply(rest_, value);
}

uint32_t TableView::size() const {
  std::array<uint64_t, TableShape::kMaxValueBytes / 8> value{};
  uint32_t size = totals_.size();
  for (const auto& [key, own] : own_) {
    size += totals_.Read(key.data(), value.data()) ? 0 : 1;
  }
  return size;
}

void TableView::AppendKeys(std::vector<uint64_t>& keys) const {
  const uint32_t words = shape_.key_words();
  totals_.ForEach([&](const uint64_t* key, const uint64_t*) {
    keys.insert(keys.end(), key, key + words);
  });
  std::array<uint64_t, TableShape::kMaxValueBytes / 8> value{};
  for (const auto& [key, own] : own_) {
    if (totals_.Read(key.data(), value.data())) continue;
    keys.insert(keys.end(), key.begin(), key.end());
  }
}

}  // namespace snf
