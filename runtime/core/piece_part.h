// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_PIECE_PART_H_
#define SNF_RUNTIME_CORE_PIECE_PART_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "runtime/sdk/nf.h"

namespace snf {

// Returns the part of a pool that is controller i's of `count`, each of whose
// words of 64 pieces is one controller's (proto/protocol.md H4): the pool with
// the first and last piece of the part. Returns nothing if there are too few
// words.
inline std::optional<NetworkFunction::Pool> PiecePart(
    NetworkFunction::Pool pool, uint32_t i, uint32_t count) {
  constexpr uint32_t kWord = 64;
  const uint32_t begin = pool.first / kWord;
  const uint64_t words = pool.words() - begin;
  const auto border = [&](uint64_t part) {
    return kWord * (begin + static_cast<uint32_t>(words * part / count));
  };
  if (border(i) == border(i + 1)) return std::nullopt;
  pool.first = std::max(pool.first, border(i));
  pool.last = std::min(pool.last, border(i + 1) - 1);
  return pool;
}

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_PIECE_PART_H_
