// SPDX-License-Identifier: Apache-2.0
#include "runtime/ring/logger_ledger.h"

#include <new>

#include "base/check.h"

namespace snf {

LoggerLedger::LoggerLedger(std::span<std::byte> memory,
                           std::span<const uint32_t> words_of_pools)
    : header_(std::launder(reinterpret_cast<Header*>(memory.data()))),
      words_(std::launder(reinterpret_cast<std::atomic<uint64_t>*>(
          memory.data() + sizeof(Header)))) {
  static_assert(sizeof(std::atomic<uint64_t>) == sizeof(uint64_t));
  for (const uint32_t words : words_of_pools) {
    pools_.push_back({.begin = all_words_, .words = words});
    all_words_ += words;
  }
  SNF_CHECK(memory.size() >= BytesFor(all_words_));
  const uint64_t count = header_->count.load(std::memory_order_acquire);
  if (count == 0) return;
  const Change& last = header_->changes[count % header_->changes.size()];
  position_ = last.position.load(std::memory_order_relaxed);
  const uint64_t index = last.word.load(std::memory_order_relaxed);
  SNF_CHECK(index < all_words_);
  word(index).store(last.mask.load(std::memory_order_relaxed),
                    std::memory_order_release);
}

void LoggerLedger::TurnOver(uint64_t position, const PieceBlock& pieces) {
  if (position > position_) Write(position, pieces);
}

void LoggerLedger::TurnOver(const PieceBlock& pieces) {
  Write(position_, pieces);
}

void LoggerLedger::Write(uint64_t position, const PieceBlock& pieces) {
  if (pieces.pool >= pools_.size()) return;
  const Pool& pool = pools_[pieces.pool];
  if (pieces.word >= pool.words) return;
  const uint64_t index = uint64_t{pool.begin} + pieces.word;
  const uint64_t mask =
      word(index).load(std::memory_order_relaxed) ^ pieces.mask;
  const uint64_t next = header_->count.load(std::memory_order_relaxed) + 1;
  Change& change = header_->changes[next % header_->changes.size()];
  change.position.store(position, std::memory_order_relaxed);
  change.word.store(index, std::memory_order_relaxed);
  change.mask.store(mask, std::memory_order_relaxed);
  header_->count.store(next, std::memory_order_release);
  word(index).store(mask, std::memory_order_release);
  position_ = position;
}

void LoggerLedger::ForEachWord(
    UnitId unit, absl::FunctionRef<void(const PieceBlock&)> visit) const {
  for (size_t pool = 0; pool < pools_.size(); ++pool) {
    for (uint32_t i = 0; i < pools_[pool].words; ++i) {
      const uint64_t mask =
          word(pools_[pool].begin + i).load(std::memory_order_relaxed);
      if (mask == 0) continue;
      visit({.word = i,
             .pool = static_cast<uint16_t>(pool),
             .unit = unit,
             .mask = mask});
    }
  }
}

}  // namespace snf
