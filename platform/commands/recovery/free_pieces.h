// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_RECOVERY_FREE_PIECES_H_
#define SNF_PLATFORM_COMMANDS_RECOVERY_FREE_PIECES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/messages/messages.h"
#include "runtime/logger/log_entry.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/piece_set.h"

namespace snf {

// The pieces of pools that a unit has free, as its entries tell. A value.
class FreePieces {
 public:
  explicit FreePieces(std::span<const NetworkFunction::Pool> pools);

  // Applies a log entry. Applying one twice adds its granted pieces twice.
  void Take(const LogEntryView& entry);
  void Add(const PieceBlock& block);

  // Removes a word of the pool's pieces and returns it; its mask is 0 if there
  // is none.
  PieceBlock TakeWord(uint16_t pool);

  // Returns true if both have the same pieces.
  bool IsSame(const FreePieces& other) const;

 private:
  std::vector<PieceSet> pools_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_RECOVERY_FREE_PIECES_H_
