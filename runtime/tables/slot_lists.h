// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_TABLES_SLOT_LISTS_H_
#define SNF_RUNTIME_TABLES_SLOT_LISTS_H_

#include <cstdint>

#include "base/lazy_array.h"

namespace snf {

// Theory of operation. Lists of the slots of a table, in the order in which the
// slots were appended: the front is the oldest. A slot is in one list at most,
// and the caller knows in which. Every call is O(1).
//
// Worked example: slots 4, 7 and 9 are appended to a list. Slot 7 is removed
// and appended again: the list has 4, 9, 7.
//
// A value; owner-thread only. Memory: what is used of 8 bytes a slot.
class SlotLists {
 public:
  static constexpr uint32_t kNone = 0xffff'ffff;

  class List {
   public:
    bool empty() const { return first_ == 0; }
    // Returns the oldest slot, or kNone.
    uint32_t front() const { return empty() ? kNone : first_ - 1; }

   private:
    friend class SlotLists;
    uint32_t first_ = 0;  // slot plus one; 0 for none
    uint32_t last_ = 0;
  };

  explicit SlotLists(uint32_t slots) : links_(slots) {}

  // Appends a slot that is in no list.
  void Append(List& list, uint32_t slot) {
    links_[slot] = {.earlier = list.last_, .later = 0};
    (list.last_ == 0 ? list.first_ : links_[list.last_ - 1].later) = slot + 1;
    list.last_ = slot + 1;
  }
  // Removes a slot of the list.
  void Remove(List& list, uint32_t slot) {
    const Links links = links_[slot];
    (links.earlier == 0 ? list.first_ : links_[links.earlier - 1].later) =
        links.later;
    (links.later == 0 ? list.last_ : links_[links.later - 1].earlier) =
        links.earlier;
  }

 private:
  struct Links {
    uint32_t earlier;  // slots plus one; 0 for none
    uint32_t later;
  };

  LazyArray<Links> links_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_TABLES_SLOT_LISTS_H_
