// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/piece_set.h"

#include <algorithm>

namespace snf {
namespace {

uint64_t MaskOf(PiecePreference::Parity parity) {
  switch (parity) {
    case PiecePreference::Parity::kEven:
      return 0x5555'5555'5555'5555;
    case PiecePreference::Parity::kOdd:
      return 0xaaaa'aaaa'aaaa'aaaa;
    default:
      return ~uint64_t{0};
  }
}

}  // namespace

std::optional<uint32_t> PieceSet::Take(const PiecePreference& wish) {
  const uint64_t pieces = uint64_t{words()} * 64;
  if (size_ == 0 || wish.first >= pieces) return std::nullopt;
  const auto last =
      static_cast<uint32_t>(std::min(uint64_t{wish.last}, pieces - 1));
  const uint64_t parity = MaskOf(wish.parity);
  if (wish.preferred > wish.first && wish.preferred <= last) {
    const std::optional<uint32_t> found =
        TakeFrom(wish.preferred, last, parity);
    if (found.has_value()) return found;
  }
  return TakeFrom(wish.first, last, parity);
}

std::optional<uint32_t> PieceSet::TakeFrom(uint32_t first, uint32_t last,
                                           uint64_t parity) {
  if (first > last) return std::nullopt;
  for (uint32_t w = NextUsed(first / 64); w <= last / 64; w = NextUsed(w + 1)) {
    uint64_t good = parity;
    if (w == first / 64) good &= ~uint64_t{0} << first % 64;
    if (w == last / 64) good &= ~uint64_t{0} >> (63 - last % 64);
    const uint64_t there = words_[w] & good;
    if (there == 0) continue;
    const auto piece = w * 64 + static_cast<uint32_t>(std::countr_zero(there));
    Remove(w, uint64_t{1} << piece % 64);
    return piece;
  }
  return std::nullopt;
}

uint32_t PieceSet::NextUsed(uint32_t index) const {
  uint64_t above = ~uint64_t{0} << index % 64;
  for (uint32_t i = index / 64; i < used_.size(); ++i, above = ~uint64_t{0}) {
    const uint64_t used = used_[i] & above;
    if (used != 0) {
      return i * 64 + static_cast<uint32_t>(std::countr_zero(used));
    }
  }
  return words();
}

}  // namespace snf
