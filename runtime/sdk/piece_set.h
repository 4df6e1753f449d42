// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_PIECE_SET_H_
#define SNF_RUNTIME_SDK_PIECE_SET_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/lazy_array.h"
#include "base/messages/messages.h"

namespace snf {

// The number of a pool of an NF, in the order of NetworkFunction::declare_pool.
enum class PoolId : uint16_t {};

// The piece of a pool that is wanted.
struct PiecePreference {
  enum class Parity : uint8_t { kAny, kEven, kOdd };

  // Any piece of first … last of that parity will do.
  uint32_t first = 0;
  uint32_t last = 0;
  Parity parity = Parity::kAny;
  // First piece of the search, which continues from `first` if it finds none.
  uint32_t preferred = 0;

  bool Admits(uint32_t piece) const {
    return piece >= first && piece <= last &&
           (parity == Parity::kAny ||
            (piece % 2 == 1) == (parity == Parity::kOdd));
  }
};

// The pieces of a pool (ports of an address, say) that are at one unit, as bits
// of 64-bit words. The platform moves them a word at a time (PieceBlock). A
// value; unused words cost no memory; nothing is allocated after construction.
class PieceSet {
 public:
  explicit PieceSet(uint32_t words) : words_(words), used_(words / 64 + 1) {}

  uint32_t words() const { return static_cast<uint32_t>(words_.size()); }
  uint32_t size() const { return size_; }
  bool Has(uint32_t piece) const {
    return (words_[piece / 64] >> piece % 64 & 1) != 0;
  }
  uint64_t word(uint32_t index) const { return words_[index]; }

  // Adds the pieces of a word. Returns the pieces that were already in the set,
  // which is an error of the caller: a piece is at one place only.
  uint64_t Add(uint32_t index, uint64_t mask) {
    const uint64_t twice = words_[index] & mask;
    size_ += static_cast<uint32_t>(std::popcount(mask & ~twice));
    words_[index] |= mask;
    NoteUse(index);
    return twice;
  }
  // Removes the pieces of a word that are here, and returns them.
  uint64_t Remove(uint32_t index, uint64_t mask) {
    const uint64_t removed = words_[index] & mask;
    size_ -= static_cast<uint32_t>(std::popcount(removed));
    words_[index] &= ~removed;
    NoteUse(index);
    return removed;
  }

  // Removes a piece that `wish` admits and returns it, or returns nothing.
  std::optional<uint32_t> Take(const PiecePreference& wish);

 private:
  void NoteUse(uint32_t index) {
    const uint64_t bit = uint64_t{1} << index % 64;
    uint64_t& used = used_[index / 64];
    used = words_[index] != 0 ? used | bit : used & ~bit;
  }
  // Returns the first word from this one on that has pieces, or a number ≥
  // words() if there is none.
  uint32_t NextUsed(uint32_t index) const;
  std::optional<uint32_t> TakeFrom(uint32_t first, uint32_t last,
                                   uint64_t parity);

  LazyArray<uint64_t> words_;
  LazyArray<uint64_t> used_;  // a bit for each word, set if it is not 0
  uint32_t size_ = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_PIECE_SET_H_
