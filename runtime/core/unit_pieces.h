// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_UNIT_PIECES_H_
#define SNF_RUNTIME_CORE_UNIT_PIECES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "runtime/core/packet_nodes.h"
#include "runtime/core/unit_commands.h"
#include "runtime/core/unit_limits.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/piece_set.h"

namespace snf {

// The free pieces of an NF's pools that lie at one unit (proto/decisions.md
// 18), and the packets that wait for some. All that it says to the controller
// goes through here: one request a pool at a time, and words that go back.
//
// Pieces that packets were woken for are not given to the controller before
// those have run, or two units could pass the last ones to and fro for ever:
// until then the pool answers no reclaim.
//
// A value; nothing is allocated after construction. Pools are the NF's, by
// index: no larger one may be asked for.
class UnitPieces {
 public:
  // What remains when more are asked for ahead of need, and what may lie here
  // unused before freed ones go back.
  static constexpr uint32_t kAskBelow = 16;
  static constexpr uint32_t kKeep = 256;

  UnitPieces(UnitId unit, std::span<const NetworkFunction::Pool> pools);

  size_t pools() const { return pools_.size(); }
  uint32_t size(uint16_t pool) const { return pools_[pool].set.size(); }
  uint32_t spare() const { return spare_; }        // of all pools
  uint32_t requests() const { return requests_; }  // without an answer
  uint32_t reclaims() const { return reclaims_; }  // not answered in full
  // Whether ReturnReclaimed has anything to send.
  bool can_return() const { return reclaims_ > put_off_; }
  PacketList& waiting(uint16_t pool) { return pools_[pool].waiting; }

  // A packet that waited for the pool is to run; and it runs.
  void Woken(uint16_t pool);
  void Ran(uint16_t pool);
  // Pieces that no packet was woken for.
  uint32_t unclaimed(uint16_t pool) const {
    const Pool& p = pools_[pool];
    return p.set.size() - std::min(p.set.size(), p.woken);
  }

  // For the NF, which may take kMaxTakesPerCall of them; `taken` is what it
  // got since ClearTaken, in order.
  std::optional<uint32_t> Take(uint16_t pool, const PiecePreference& wish);
  void ClearTaken() { taken_count_ = 0; }
  std::span<const std::optional<uint32_t>> taken() const {
    return {taken_.data(), taken_count_};
  }
  // False if it is no piece of the pool, or is here already.
  bool Give(uint16_t pool, uint32_t piece);

  // Asks for more, unless that has been done.
  void Request(uint16_t pool, UnitOut& out);
  bool is_requested(uint16_t pool) const { return pools_[pool].requested; }
  // The answer to a request. Returns how many of the pieces are not taken.
  uint32_t Receive(const PieceBlock& pieces);

  // Sends a word of pieces back; there must be one.
  void ReturnWord(uint16_t pool, UnitOut& out);
  // All of a pool are to go back.
  void Reclaim(uint16_t pool);
  // Sends some of those that can, kMaxReturnsPerCall words in all.
  void ReturnReclaimed(UnitOut& out);
  // The same with all pieces there are.
  void ReturnSpare(UnitOut& out);

  // Calls `add` with numbers that tell apart what behaves differently, and
  // add_list with each list of packets.
  template <typename Add, typename AddList>
  void Describe(Add add, AddList add_list) const {
    for (const Pool& pool : pools_) {
      add(uint64_t{pool.next_word} << 2 | uint64_t{pool.requested} << 1 |
          uint64_t{pool.reclaimed});
      for (uint32_t w = 0; w < pool.set.words(); ++w) add(pool.set.word(w));
      add_list(pool.waiting);
    }
  }

 private:
  struct Pool {
    PieceSet set;
    uint32_t first;
    uint32_t last;
    uint32_t next_word = 0;  // where to look for one to return
    PacketList waiting{};    // packets, as they came to wait
    uint32_t woken = 0;      // packets, that have not run since
    bool requested = false;
    bool reclaimed = false;

    uint64_t PiecesOf(uint32_t word) const;  // that exist
  };

  UnitId unit_;
  std::vector<Pool> pools_;
  uint32_t spare_ = 0;
  uint32_t requests_ = 0;
  uint32_t reclaims_ = 0;
  uint32_t put_off_ = 0;  // of them, until the packets woken have run
  uint32_t taken_count_ = 0;
  std::array<std::optional<uint32_t>, kMaxTakesPerCall> taken_{};
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_UNIT_PIECES_H_
