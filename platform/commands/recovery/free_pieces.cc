// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/recovery/free_pieces.h"

namespace snf {

FreePieces::FreePieces(std::span<const NetworkFunction::Pool> pools) {
  for (const NetworkFunction::Pool& pool : pools) {
    pools_.emplace_back(pool.words());
  }
}

void FreePieces::Take(const LogEntryView& entry) {
  if (entry->kind == LogEntry::Kind::kGrant) Add(entry->block);
  if (entry->kind == LogEntry::Kind::kReturn) {
    pools_[entry->block.pool].Remove(entry->block.word, entry->block.mask);
  }
  for (size_t i = 0; i < entry->pieces; ++i) {
    const PieceUse use = entry.piece(i);
    const uint64_t bit = uint64_t{1} << use.piece % 64;
    if (use.gives != 0) {
      pools_[use.pool].Add(use.piece / 64, bit);
    } else {
      pools_[use.pool].Remove(use.piece / 64, bit);
    }
  }
}

void FreePieces::Add(const PieceBlock& block) {
  pools_[block.pool].Add(block.word, block.mask);
}

PieceBlock FreePieces::TakeWord(uint16_t pool) {
  PieceBlock block = {.pool = pool};
  PieceSet& set = pools_[pool];
  if (set.size() == 0) return block;
  while (set.word(block.word) == 0) ++block.word;
  block.mask = set.Remove(block.word, ~uint64_t{0});
  return block;
}

bool FreePieces::IsSame(const FreePieces& other) const {
  for (size_t i = 0; i < pools_.size(); ++i) {
    for (uint32_t word = 0; word < pools_[i].words(); ++word) {
      if (pools_[i].word(word) != other.pools_[i].word(word)) return false;
    }
  }
  return true;
}

}  // namespace snf
