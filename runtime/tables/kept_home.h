// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_TABLES_KEPT_HOME_H_
#define SNF_RUNTIME_TABLES_KEPT_HOME_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/sdk/table_copy.h"

namespace snf {

// Theory of operation. The part of a table's home (table_home.h) that outlives
// its process, in memory that another process may map: the totals, and for each
// unit its last update that is in the totals, or the last one of its logger. A
// process may be killed at any instruction, and an update counts once: so the
// changes of a message are complete or absent. Before a change, the old values
// are put into a list, whose length is set then; after the change, the length
// is set to 0. A process that finds a list restores the values in it.
//
// Worked example: update 8 of unit 3 adds to the slots 5 and 9. The totals of 5
// and 9 and unit 3's 7 go into the list, of length 2. The process is killed
// when slot 5 has its new total. The next process restores both totals; unit 3
// has had no answer, and sends update 8 again.
//
// A view of memory that outlives it; one process uses it at a time. Memory: 8
// bytes and the entry's words an entry, 48 bytes a unit; and, for the list,
// once more for kMostSlots entries.
class KeptHome {
 public:
  // Most slots that a message changes.
  static constexpr uint32_t kMostSlots = 2'500;

  // States of a unit: it has joined the home or not; a unit that has left by
  // its own message may return.
  static constexpr uint32_t kNone = 0, kJoined = 1, kHasLeft = 2;
  // Updates that came by loggers (TableMessage::Kind::kLogged): the last one
  // merged, and all of them.
  struct Logged {
    uint64_t number = 0;
    uint64_t updates = 0;
    uint32_t incarnation = 0;
  };
  struct Unit {
    uint64_t seq = 0;  // is that of the last update merged
    uint64_t in_rest = 0;
    uint32_t incarnation = 0;
    uint32_t joined = kNone;
    Logged logged{};
  };
  struct Totals {
    uint64_t version = 0;
    uint64_t slots = 0;  // ever used
    uint64_t homes = 0;  // number of homes that began with this memory
    // The table's timer: the last period that was ended, counted from time 0;
    // the number of periods of the calls under way; the next slot to be called.
    uint64_t period = 0;
    uint64_t periods = 0;
    uint64_t cursor = 0;
  };

  static size_t BytesFor(const TableShape& shape, uint32_t max_units);
  // The memory is zeroed, or another home's of the same shape.
  KeptHome(std::span<std::byte> memory, const TableShape& shape,
           uint32_t max_units);

  // Undoes an incomplete change, and counts a home. Returns the totals.
  Totals Begin();
  // Return the parts of an entry: the version at which it was evicted, or 0;
  // its words. The rest has the slot behind all others.
  uint64_t gone_at(uint32_t slot) const { return entry(slot)[0]; }
  const uint64_t* words(uint32_t slot) const { return entry(slot) + 1; }
  const Unit& unit(uint32_t number) const { return units_[number]; }

  // Begins a change, of the unit and slots that follow in their order, each
  // with its new values. Nothing is changed before the last call of Set.
  void BeginChange(uint32_t number);
  void Save(uint32_t slot);
  void Change(const Totals& totals, const Unit& unit);
  void Set(uint32_t slot, uint64_t gone_at, const uint64_t* words);
  void EndChange();

 private:
  struct Head {
    Totals totals;
    uint64_t undo;  // 0, or the slots in the list and 1
    uint64_t saved_number;
    Unit saved_unit;
    Totals saved_totals;
  };

  uint64_t* entry(uint32_t slot) { return &entries_[slot * words_]; }
  const uint64_t* entry(uint32_t slot) const {
    return &entries_[slot * words_];
  }
  // A slot, and its entry.
  uint64_t* saved(uint32_t i) { return &saved_[i * (1 + words_)]; }

  size_t words_;  // of an entry
  Head* head_;
  Unit* units_;
  uint64_t* entries_;
  uint64_t* saved_;
  uint32_t count_ = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_TABLES_KEPT_HOME_H_
