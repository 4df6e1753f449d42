// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_TIME_POOL_PIECES_H_
#define SNF_PLATFORM_DRIVERS_REAL_TIME_POOL_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "controller/live/controller_loop.h"
#include "platform/drivers/real_time/egress.h"
#include "platform/run/run_setup.h"
#include "runtime/sdk/nf.h"

namespace snf {

// The pieces of pools that a controller gives to its units, as masks: a word
// for each 64 pieces. Pieces move between controllers by Remove and Add.
//
// Example: a pool of 100 pieces has 2 words. Of two controllers, the first one
// begins with the pieces 0 to 49: All returns 0x3ffffffffffff and 0.
//
// Owner-thread only.
class PoolPieces {
 public:
  // All references must outlive the object. The controller is the i-th of
  // `count` that share the pools of the NF.
  PoolPieces(const NetworkFunction& example, uint32_t i, uint32_t count,
             ControllerLoop& loop, Egress& egress)
      : example_(example), i_(i), count_(count), loop_(loop), egress_(egress) {}

  std::span<const NetworkFunction::Pool> pools() const {
    return example_.pools();
  }
  // Returns the pieces that the controller has and no unit does.
  std::vector<uint64_t> Free(size_t pool) const {
    std::vector<uint64_t> words(pools()[pool].words());
    // The controller's pool ends with its part.
    const auto part = PartOf(pools()[pool], i_, count_);
    for (uint32_t word = part->first / 64; word <= part->last / 64; ++word) {
      words[word] =
          loop_.controller().free_pieces(static_cast<uint16_t>(pool), word);
    }
    return words;
  }
  // Returns the pieces that the controller's pool had in the beginning.
  std::vector<uint64_t> All(size_t pool) const {
    constexpr uint32_t kWord = 64;
    std::vector<uint64_t> words(pools()[pool].words());
    const auto part = PartOf(pools()[pool], i_, count_);
    for (uint32_t i = part->first; i <= part->last; ++i) {
      words[i / kWord] |= uint64_t{1} << i % kWord;
    }
    return words;
  }
  // Takes free pieces out of the controller's pool.
  void Remove(size_t pool, std::span<const uint64_t> words) {
    ForEach(pool, words, [this](const PieceBlock& block) {
      loop_.controller().RemovePieces(block);
    });
  }
  // Puts pieces into the controller's pool.
  void Add(size_t pool, std::span<const uint64_t> words) {
    ForEach(pool, words, [this](const PieceBlock& block) {
      loop_.AddPieces(block, egress_);
    });
  }

 private:
  template <typename Visit>
  static void ForEach(size_t pool, std::span<const uint64_t> words,
                      const Visit& visit) {
    for (uint32_t word = 0; word < words.size(); ++word) {
      if (words[word] == 0) continue;
      visit(PieceBlock{.word = word,
                       .pool = static_cast<uint16_t>(pool),
                       .mask = words[word]});
    }
  }

  const NetworkFunction& example_;
  const uint32_t i_;
  const uint32_t count_;
  ControllerLoop& loop_;
  Egress& egress_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_TIME_POOL_PIECES_H_
