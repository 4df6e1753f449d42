// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LOGGER_LOGGED_PIECES_H_
#define SNF_RUNTIME_LOGGER_LOGGED_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/messages/messages.h"
#include "runtime/logger/log_entry.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/piece_set.h"

namespace snf {

// Theory of operation. The pieces of each pool that are free at a unit, as of
// the entries of its log (proto/protocol.md §5). A piece is at one place only:
// each change says where a piece was, and a change that cannot be is refused.
//
//   controller ─Grant─► free at the unit ─Use: taken─► in a flow's state
//              ◄Return─                  ◄Use: given─
//
// Worked example: the controller grants pieces 0-63. A packet takes piece 5 and
// gives piece 3, which it cannot have: Use returns false, and piece 5 is free
// as before.
//
// A value; owner-thread only; nothing is allocated after construction.
class LoggedPieces {
 public:
  explicit LoggedPieces(std::span<const NetworkFunction::Pool> pools);

  uint16_t pools() const { return static_cast<uint16_t>(pools_.size()); }
  const PieceSet& free(uint16_t pool) const { return pools_[pool].set; }
  // Returns the number of the last grant.
  uint64_t last_grant() const { return last_grant_; }

  // Returns true if the block's pool, which there must be, has these pieces.
  bool Exist(const PieceBlock& block) const;
  // The controller granted pieces of a block that exists. Returns false, and
  // changes nothing, if one is free already, or the number is no later one.
  bool Grant(const PieceBlock& block, uint64_t number);
  // Pieces of a block that exists go back. Returns false, and changes nothing,
  // if one is not free.
  bool Return(const PieceBlock& block);
  // Takes or gives the entry's pieces. Returns false, and changes nothing, if a
  // piece is not where it should be.
  bool Use(const LogEntryView& entry);
  // Takes back a Use.
  void Undo(const LogEntryView& entry) { Undo(entry, entry->pieces); }
  // A unit hands over free pieces, as of its grant of that number. Returns
  // false if they cannot be.
  bool Restore(const PieceBlock& block, uint64_t grant);
  // The unit's next incarnation has none, and numbers grants from 1.
  void Begin();

 private:
  struct Pool {
    PieceSet set;
    uint32_t first;
    uint32_t last;
  };

  bool Use(PieceUse use);
  void Undo(const LogEntryView& entry, size_t count);

  std::vector<Pool> pools_;
  uint64_t last_grant_ = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_LOGGER_LOGGED_PIECES_H_
