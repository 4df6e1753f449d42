// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_RING_LOGGER_LEDGER_H_
#define SNF_RUNTIME_RING_LOGGER_LEDGER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "base/messages/messages.h"

namespace snf {

// The ledger of pieces (kept_report.h) of a loop of units, in memory that
// outlives the process of its loggers: each grant that their entries name, and
// each return, flips bits. The next process continues with the ledger, and
// handles some entries again: so the ledger notes the position at which its
// last entry ended, and applies no entry twice. A change is noted before it is
// made, and repeated by the next process that attaches: so a change is complete
// or absent, at whatever instruction the previous process was killed.
//
// Worked example: the entry that ends at cell 40 grants pieces 0-63. The word
// is noted, with the position 40, and the process is killed before it is
// changed. The next process changes the word as it attaches, and skips the
// entry.
//
// The memory is zeroed at first, and outlives the object. One process has it at
// a time. Owner-thread only.
class LoggerLedger {
 public:
  // Takes the pools' sizes, in words of 64 pieces. The memory has BytesFor(all
  // their words).
  LoggerLedger(std::span<std::byte> memory,
               std::span<const uint32_t> words_of_pools);
  static size_t BytesFor(uint32_t words) {
    return sizeof(Header) + words * sizeof(uint64_t);
  }

  // An entry that ends at that position of its ring, > 0, names these pieces.
  // Positions increase, except for repeated entries. Pieces that do not exist
  // are left out.
  void TurnOver(uint64_t position, const PieceBlock& pieces);
  // Notes pieces that came back without an entry.
  void TurnOver(const PieceBlock& pieces);

  // Calls `visit` for each word that has bits, in the name of `unit`.
  void ForEachWord(UnitId unit,
                   absl::FunctionRef<void(const PieceBlock&)> visit) const;

 private:
  // Value of a word after the last change.
  struct Change {
    std::atomic<uint64_t> position{0};
    std::atomic<uint64_t> word{0};
    std::atomic<uint64_t> mask{0};
  };
  struct alignas(128) Header {
    std::array<Change, 2> changes;  // by turns
    std::atomic<uint64_t> count{0};
  };
  struct Pool {
    uint32_t begin;
    uint32_t words;
  };

  void Write(uint64_t position, const PieceBlock& pieces);
  std::atomic<uint64_t>& word(uint64_t index) const { return words_[index]; }

  Header* header_;
  std::atomic<uint64_t>* words_;
  std::vector<Pool> pools_;
  uint32_t all_words_ = 0;
  uint64_t position_ = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_RING_LOGGER_LEDGER_H_
