// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_TABLES_KEPT_HOME_H_
#define SNF_RUNTIME_TABLES_KEPT_HOME_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/sdk/table_copy.h"

namespace snf {

// Theory of operation. What of a table's home (table_home.h) outlives its
// process, in memory that another process may map: its totals, and of each unit
// the last update that is in them. A process may be killed at any instruction,
// and an update counts once: so what a message changes is there as a whole, or
// not at all. Before anything is changed, what it was is put into a list, whose
// length is set then; once all is changed, it is set to 0. Who finds a list
// puts back what is in it.
//
// Worked example: update 8 of unit 3 adds to the slots 5 and 9. The totals of 5
// and 9 and unit 3's 7 go into the list, of length 2. The process is killed
// when slot 5 has its new total. The next one puts both totals back; unit 3 has
// had no answer, and sends update 8 once more.
//
// A view of memory that outlives it; one process uses it at a time. Memory: 8
// bytes and the entry's words an entry, 24 bytes a unit; and, for the list,
// once more for kMostSlots entries.
class KeptHome {
 public:
  // So many slots at most change with a message.
  static constexpr uint32_t kMostSlots = 2'500;

  // A unit has joined the home or not; one that has left by a message of its
  // own may come back.
  static constexpr uint32_t kNone = 0, kJoined = 1, kHasLeft = 2;
  struct Unit {
    uint64_t seq = 0;  // is that of the last update merged
    uint64_t in_rest = 0;
    uint32_t incarnation = 0;
    uint32_t joined = kNone;
  };
  struct Totals {
    uint64_t version = 0;
    uint64_t slots = 0;  // ever used
    uint64_t homes = 0;  // counts those that began with this
  };

  static size_t BytesFor(const TableShape& shape, uint32_t max_units);
  // The memory is zeroed, or another home's of the same shape.
  KeptHome(std::span<std::byte> memory, const TableShape& shape,
           uint32_t max_units);

  // Puts back what was not whole, and counts a home. Returns what there is.
  Totals Begin();
  // An entry: the version at which it went, 0 if it is there; its words. The
  // rest has the slot behind all others.
  uint64_t gone_at(uint32_t slot) const { return entry(slot)[0]; }
  const uint64_t* words(uint32_t slot) const { return entry(slot) + 1; }
  const Unit& unit(uint32_t number) const { return units_[number]; }

  // Begins a change, of the unit and slots that follow in their order, each
  // with what it will be. Nothing is changed before the last of Set.
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
