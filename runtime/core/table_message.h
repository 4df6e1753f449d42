// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_TABLE_MESSAGE_H_
#define SNF_RUNTIME_CORE_TABLE_MESSAGE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/ids.h"
#include "base/time.h"
#include "runtime/sdk/table_copy.h"

namespace snf {

// What goes between a unit's copy of a shared table and the table's home
// (table_replica.h). May be lost, come twice, or late.
struct TableMessage {
  enum class Kind : uint8_t {
    kUpdate,   // to the home: updates, merged once
    kMerged,   // its answer: the totals that they went into
    kTold,     // from the home: totals that have changed
    kToldAck,  // its answer
  };
  static constexpr uint32_t kHeaderBytes = 56;
  static constexpr uint32_t kMaxWords = 128;
  static constexpr uint8_t kNoRest = 0xff;

  Kind kind = Kind::kUpdate;
  bool leaves = false;     // of kUpdate: the last one of its incarnation
  uint8_t rest = kNoRest;  // which entry is that of the rest, its key zeros
  uint8_t entries = 0;
  uint16_t table = 0;
  UnitId unit = kNoUnit;     // from which, or to which
  uint32_t incarnation = 0;  // of the unit
  uint32_t reads = 0;        // from the unit: of its copy, so far
  // Of the update and its answer, counted by the unit; of what is told and its
  // answer, by the home.
  uint64_t seq = 0;
  uint64_t merged = 0;    // from the home: the seq of the unit's last update
  uint64_t version = 0;   // … of the totals
  uint64_t complete = 0;  // … with this the unit knows all totals of it
  uint64_t in_rest = 0;   // of kMerged, a bit each: went into the rest
  Instant
      oldest{};  // of kUpdate: when the first of these was made; for figures
  // Key and delta, or key and total, of each entry.
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

struct TableOptions {
  // Updates leave a unit, and totals the home for a unit, once in so long at
  // most; totals for a unit that does not read them, and updates of a table for
  // reports, once in kUnreadPeriods.
  Nanos period = Milliseconds(10);
  static constexpr int64_t kUnreadPeriods = 100;
  // What is not answered is repeated once in so long, without end: about as
  // often as something is sent where all goes well, so there is no back-off.
  Nanos retry_after = Milliseconds(10);
  uint64_t hash_seed = 0;  // of copies and homes; does not change results
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_TABLE_MESSAGE_H_
