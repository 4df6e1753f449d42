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
    // Between a logger and a home (update_sender.h):
    kLogged,     // goes to the home, with updates of a unit from its logger
    kLoggedAck,  // answers it
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
  // Numbers the updates of a unit, and the messages of the home; answers have
  // the number of the message that they answer.
  uint64_t seq = 0;
  // Set by the home: seq of the unit's last merged update; version of the
  // totals; version up to which the unit knows all totals with this message.
  // In kLogged it is the number of the update before the first.
  uint64_t merged = 0;
  uint64_t version = 0;
  uint64_t complete = 0;
  // A bit for each entry: of kMerged, that it was merged into the rest; of
  // kTold, that it was evicted into the rest (table_home.h); of kUpdate and
  // kLogged, that the key's value goes into the rest before the delta counts.
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
  // Least time between updates of a unit, and between totals for a unit. Totals
  // for a unit that does not read them, and updates of a table for reports, are
  // sent once in kUnreadPeriods.
  Nanos period = Milliseconds(10);
  static constexpr int64_t kUnreadPeriods = 100;
  // Time after which an unanswered message is repeated, without end. There is
  // no back-off: that is about as often as messages are sent without losses.
  Nanos retry_after = Milliseconds(10);
  // Time without updates after which a full table may evict a key for a new
  // one; Nanos::max() = never.
  Nanos forget_after = Nanos::max();
  // Seeds the hashes of copies and homes; does not change results.
  uint64_t hash_seed = 0;
  // Units' updates come from loggers (update_sender.h). Then kTold's `merged`
  // is the number of the unit's last logged update that the home has.
  bool are_logged = false;
};

}  // namespace snf

#endif  // SNF_RUNTIME_TABLES_TABLE_MESSAGE_H_
