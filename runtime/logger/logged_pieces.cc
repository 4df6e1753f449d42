// SPDX-License-Identifier: Apache-2.0
#include "runtime/logger/logged_pieces.h"

#include <algorithm>

#include "base/check.h"

namespace snf {

LoggedPieces::LoggedPieces(std::span<const NetworkFunction::Pool> pools) {
  for (const NetworkFunction::Pool& pool : pools) {
    pools_.push_back({PieceSet(pool.words()), pool.first, pool.last});
  }
}

bool LoggedPieces::Exist(const PieceBlock& block) const {
  const Pool& pool = pools_[block.pool];
  if (block.word >= pool.set.words()) return false;
  for (uint32_t bit = 0; bit < 64; ++bit) {
    const uint32_t piece = block.word * 64 + bit;
    const bool exists = piece >= pool.first && piece <= pool.last;
    if ((block.mask >> bit & 1) != 0 && !exists) return false;
  }
  return true;
}

bool LoggedPieces::Grant(const PieceBlock& block, uint64_t number) {
  PieceSet& set = pools_[block.pool].set;
  if ((set.word(block.word) & block.mask) != 0) return false;
  if (number <= last_grant_) return false;
  set.Add(block.word, block.mask);
  last_grant_ = number;
  return true;
}

bool LoggedPieces::Return(const PieceBlock& block) {
  PieceSet& set = pools_[block.pool].set;
  if ((set.word(block.word) & block.mask) != block.mask) return false;
  set.Remove(block.word, block.mask);
  return true;
}

bool LoggedPieces::Use(PieceUse use) {
  Pool& pool = pools_[use.pool];
  if (use.piece < pool.first || use.piece > pool.last) return false;
  if (pool.set.Has(use.piece) == (use.gives != 0)) return false;
  const uint64_t mask = uint64_t{1} << use.piece % 64;
  if (use.gives != 0) {
    pool.set.Add(use.piece / 64, mask);
  } else {
    pool.set.Remove(use.piece / 64, mask);
  }
  return true;
}

bool LoggedPieces::Use(const LogEntryView& entry) {
  for (size_t i = 0; i < entry->pieces; ++i) {
    if (!Use(entry.piece(i))) {
      Undo(entry, i);
      return false;
    }
  }
  return true;
}

void LoggedPieces::Undo(const LogEntryView& entry, size_t count) {
  while (count-- > 0) {
    PieceUse use = entry.piece(count);
    use.gives ^= 1;
    SNF_CHECK(Use(use));
  }
}

bool LoggedPieces::Restore(const PieceBlock& block, uint64_t grant) {
  last_grant_ = std::max(last_grant_, grant);
  return Exist(block) &&
         pools_[block.pool].set.Add(block.word, block.mask) == 0;
}

void LoggedPieces::Begin() {
  last_grant_ = 0;
  for (Pool& pool : pools_) pool.set = PieceSet(pool.set.words());
}

}  // namespace snf
