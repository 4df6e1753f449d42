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
#include "base/messages/unit_commands.h"
#include "runtime/core/packet_nodes.h"
#include "runtime/core/unit_limits.h"
#include "runtime/logger/log_entry.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/piece_set.h"

namespace snf {

// Theory of operation. UnitPieces keeps the free pieces of an NF's pools that
// lie at one unit (proto/decisions.md 18), and the packets that wait for some.
// All of a unit's messages about pieces to the controller are made here: one
// request a pool at a time, and returned words of pieces.
//
// Pieces for which packets were woken are not returned before these packets
// have run, otherwise two units could pass the last pieces to and fro for ever:
// until then the pool answers no reclaim.
//
// The unit returns surplus pieces, and all free pieces when it stops or the
// controller asks for them. One call sends kMaxReturnsPerCall words; the unit's
// next calls send the others.
//
// Worked example: 20 words of pool 0 lie here, and the controller reclaims
// them. The first call sends 8 words, the second 8, and the third 4 and a word
// with mask 0, which says that all words are sent.
//
// Pools are the NF's, by index; no index may be too large. A value;
// owner-thread only; nothing is allocated after construction.
class UnitPieces {
 public:
  struct Pool {
    PieceSet set;
    PieceSet given;  // with a logger: in entries that are not released
    uint32_t first;
    uint32_t last;
    uint32_t next_word = 0;  // is where the search for one to return begins
    PacketList waiting{};    // lists packets as they came to wait
    uint32_t woken = 0;      // counts packets that have not run since
    bool requested = false;
    bool is_ahead = false;  // and no packet waited for the request
    bool reclaimed = false;

    // Returns the pieces of the word that exist.
    uint64_t PiecesOf(uint32_t word) const;
  };

  // More pieces are requested ahead of need when fewer than this remain. No
  // other unit gives some up for such a request.
  static constexpr uint32_t kAskBelow = 16;
  // Freed pieces go back where more than this lie here unused.
  static constexpr uint32_t kKeep = 256;

  UnitPieces(UnitId unit, std::span<const NetworkFunction::Pool> pools,
             bool has_logger = false);

  size_t pools() const { return pools_.size(); }
  const Pool& pool(uint16_t pool) const { return pools_[pool]; }
  uint32_t size(uint16_t pool) const { return pools_[pool].set.size(); }
  // Counts the free pieces of all pools.
  uint32_t spare() const { return spare_; }
  // Counts the requests without an answer.
  uint32_t requests() const { return requests_; }
  // Counts the reclaims that are not answered in full.
  uint32_t reclaims() const { return reclaims_; }
  // ReturnReclaimed has something to send.
  bool can_return() const { return reclaims_ > put_off_; }
  PacketList& waiting(uint16_t pool) { return pools_[pool].waiting; }

  // A packet that waited for the pool is to run: call it once for each.
  void Woken(uint16_t pool);
  // A packet that was woken runs.
  void Ran(uint16_t pool);
  // Counts the pieces that no packet was woken for.
  uint32_t unclaimed(uint16_t pool) const {
    const Pool& p = pools_[pool];
    return p.set.size() - std::min(p.set.size(), p.woken);
  }

  // Takes a piece for the NF, if there is one, at most kMaxTakesPerCall times
  // after ClearTaken.
  std::optional<uint32_t> Take(uint16_t pool, const PiecePreference& wish);
  void ClearTaken() { taken_count_ = 0; }
  // Returns the results of all calls of Take since ClearTaken, in order.
  std::span<const std::optional<uint32_t>> taken() const {
    return {taken_.data(), taken_count_};
  }
  // Appends the taken pieces that the NF has kept.
  void AppendTaken(std::vector<PieceUse>& uses) const;
  // The piece was taken since ClearTaken, and counts as not taken from now on.
  bool Untake(uint16_t pool, uint32_t piece);
  // Returns false if `piece` is not in the pool, or is free here already.
  bool Give(uint16_t pool, uint32_t piece);
  // The same, with a logger: the piece is free from GiveReleased on.
  bool GiveLater(uint16_t pool, uint32_t piece);
  void GiveReleased(const PieceBlock& pieces);

  // Ask for more pieces, unless that has been done: for packets that wait, or
  // ahead of need.
  void Request(uint16_t pool, UnitOut& out) { Ask(pool, false, out); }
  void RequestAhead(uint16_t pool, UnitOut& out) { Ask(pool, true, out); }
  bool is_requested(uint16_t pool) const { return pools_[pool].requested; }
  // Returns the request without an answer; there must be one.
  PieceRequest request(uint16_t pool) const {
    return {.pool = pool, .unit = unit_, .is_ahead = pools_[pool].is_ahead};
  }
  // Takes the answer to a request. Returns the pieces that are new here.
  uint64_t Receive(const PieceBlock& pieces);

  // Sends a word of pieces back; there must be one.
  void ReturnWord(uint16_t pool, UnitOut& out);
  // Notes that all pieces of the pool are to go back.
  void Reclaim(uint16_t pool);
  // Sends some of the pieces that are to go back, kMaxReturnsPerCall words in
  // all.
  void ReturnReclaimed(UnitOut& out);
  // Sends back free pieces of all pools, at most kMaxReturnsPerCall words.
  void ReturnSpare(UnitOut& out);

 private:
  static constexpr uint16_t kNoPool = kMaxPools;

  void Ask(uint16_t pool, bool is_ahead, UnitOut& out);

  UnitId unit_;
  std::vector<Pool> pools_;
  uint32_t spare_ = 0;
  uint32_t requests_ = 0;
  uint32_t reclaims_ = 0;
  uint32_t put_off_ = 0;  // counts reclaims until the packets woken have run
  uint32_t taken_count_ = 0;
  std::array<std::optional<uint32_t>, kMaxTakesPerCall> taken_{};
  std::array<uint16_t, kMaxTakesPerCall>
      taken_of_{};  // their pools, or kNoPool
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_UNIT_PIECES_H_
