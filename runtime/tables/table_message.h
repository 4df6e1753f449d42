// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_TABLES_TABLE_MESSAGE_H_
#define SNF_RUNTIME_TABLES_TABLE_MESSAGE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/ids.h"
#include "base/time.h"
#include "runtime/sdk/table_copy.h"

namespace snf {

// A TableMessage goes between a unit's copy of a shared table and the table's
// home (table_replica.h). It may be lost, come twice, or late.
struct TableMessage {
  enum class Kind : uint8_t {
    kUpdate,   // goes to the home, with updates, which are merged once
    kMerged,   // answers it, with the totals that they went into
    kTold,     // comes from the home, with totals that have changed
    kToldAck,  // answers it
  };
  static constexpr uint32_t kHeaderBytes = 56;
  static constexpr uint32_t kMaxWords = 128;
  static constexpr uint8_t kNoRest = 0xff;

  Kind kind = Kind::kUpdate;
  bool leaves = false;     // a kUpdate is the last one of its incarnation
  uint8_t rest = kNoRest;  // is the entry of the rest, whose key is zeros
  uint8_t entries = 0;
  uint16_t table = 0;
  UnitId unit = kNoUnit;     // sends it, or is to get it
  uint32_t incarnation = 0;  // is that of the unit
  uint32_t reads = 0;        // counts how often the unit read its copy so far
  // Numbers updates, by the unit, and what is told, by the home; answers have
  // the number of what they answer.
  uint64_t seq = 0;
  // The home says the seq of the unit's last update that was merged, the
  // version of the totals, and the version of which the unit knows all totals
  // with this message.
  uint64_t merged = 0;
  uint64_t version = 0;
  uint64_t complete = 0;
  // Has a bit for each entry of kMerged that went into the rest, and of kTold
  // that has gone there (table_home.h).
  uint64_t in_rest = 0;
  // Says when the first update in a kUpdate was made, for figures.
  Instant oldest{};
  // Holds key and delta, or key and total, of each entry.
  std::array<uint64_t, kMaxWords> words{};

  static uint32_t MaxEntries(const TableShape& shape) {
    return std::min(kMaxWords / shape.entry_words(), TableCopy::kMaxSent);
  }
  uint64_t* entry(const TableShape& shape, uint32_t i) {
    return &words[i * shape.entry_words()];
  }
  const uint64_t* entry(const TableShape& shape, uint32_t i) const {
    return &words[i * shape.entry_words()];
  }
  uint32_t bytes(const TableShape& shape) const {
    return kHeaderBytes + entries * shape.entry_words() * 8;
  }
};

// Sets the times of a table's copies and its home.
struct TableOptions {
  // Updates leave a unit, and totals the home for a unit, once in so long at
  // most; totals for a unit that does not read them, and updates of a table for
  // reports, once in kUnreadPeriods.
  Nanos period = Milliseconds(10);
  static constexpr int64_t kUnreadPeriods = 100;
  // What is not answered is repeated once in so long, without end: about as
  // often as something is sent where all goes well, so there is no back-off.
  Nanos retry_after = Milliseconds(10);
  // A full table gives up a key that nobody has updated for so long, for one
  // that is new; Nanos::max() = never.
  Nanos forget_after = Nanos::max();
  // Seeds the hashes of copies and homes; does not change results.
  uint64_t hash_seed = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_TABLES_TABLE_MESSAGE_H_
