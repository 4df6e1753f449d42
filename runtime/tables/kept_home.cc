// SPDX-License-Identifier: Apache-2.0
#include "runtime/tables/kept_home.h"

#include <algorithm>
#include <atomic>
#include <new>

#include "base/check.h"

namespace snf {
namespace {

// Keeps the order of the writes before and after this call, as a process that
// is killed leaves them. Only the compiler could reorder them: one process
// writes.
void InOrder() { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // namespace

size_t KeptHome::BytesFor(const TableShape& shape, uint32_t max_units) {
  const size_t words = 1 + size_t{shape.entry_words()};
  return sizeof(Head) + max_units * sizeof(Unit) +
         8 * ((size_t{shape.max_entries} + 1) * words +
              kMostSlots * (1 + words));
}

KeptHome::KeptHome(std::span<std::byte> memory, const TableShape& shape,
                   uint32_t max_units)
    : words_(1 + size_t{shape.entry_words()}) {
  SNF_CHECK(memory.size() >= BytesFor(shape, max_units));
  std::byte* at = memory.data();
  head_ = std::launder(reinterpret_cast<Head*>(at));
  at += sizeof(Head);
  units_ = std::launder(reinterpret_cast<Unit*>(at));
  at += max_units * sizeof(Unit);
  entries_ = std::launder(reinterpret_cast<uint64_t*>(at));
  saved_ = entries_ + (size_t{shape.max_entries} + 1) * words_;
}

KeptHome::Totals KeptHome::Begin() {
  if (head_->undo > 0) {
    for (uint32_t i = 0; i + 1 < head_->undo; ++i) {
      const uint64_t* const one = saved(i);
      std::copy_n(one + 1, words_, entry(static_cast<uint32_t>(*one)));
    }
    units_[head_->saved_number] = head_->saved_unit;
    head_->totals = head_->saved_totals;
    InOrder();
    head_->undo = 0;
  }
  ++head_->totals.homes;
  return head_->totals;
}

void KeptHome::BeginChange(uint32_t number) {
  count_ = 0;
  head_->saved_number = number;
  head_->saved_unit = units_[number];
  head_->saved_totals = head_->totals;
}

void KeptHome::Save(uint32_t slot) {
  SNF_CHECK(count_ < kMostSlots);
  uint64_t* const one = saved(count_++);
  *one = slot;
  std::copy_n(entry(slot), words_, one + 1);
}

void KeptHome::Change(const Totals& totals, const Unit& unit) {
  InOrder();
  head_->undo = count_ + uint64_t{1};
  InOrder();
  const uint64_t homes = head_->totals.homes;
  head_->totals = totals;
  head_->totals.homes = homes;
  units_[head_->saved_number] = unit;
}

void KeptHome::Set(uint32_t slot, uint64_t gone_at, const uint64_t* words) {
  uint64_t* const to = entry(slot);
  to[0] = gone_at;
  std::copy_n(words, words_ - 1, to + 1);
}

void KeptHome::EndChange() {
  InOrder();
  head_->undo = 0;
  InOrder();
}

}  // namespace snf
