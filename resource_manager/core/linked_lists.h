// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_CORE_LINKED_LISTS_H_
#define SNF_RESOURCE_MANAGER_CORE_LINKED_LISTS_H_

#include <cstdint>
#include <vector>

namespace snf {

// Doubly linked lists of items 0 … items - 1, of which each is in one list at
// most. Every call is O(1). A value.
class LinkedLists {
 public:
  static constexpr uint32_t kNone = 0xffff'ffff;

  LinkedLists(uint32_t lists, uint32_t items)
      : ends_(lists, {kNone, kNone}), links_(items) {}

  uint32_t Front(uint32_t list) const { return ends_[list].front; }
  uint32_t Next(uint32_t item) const { return links_[item].next; }
  // The list that the item is in, or kNone.
  uint32_t ListOf(uint32_t item) const { return links_[item].list; }

  // Take the item out of its list, if it is in one, and put it into this one.
  void PushFront(uint32_t list, uint32_t item) {
    Remove(item);
    Insert(list, item, kNone, ends_[list].front);
  }
  void PushBack(uint32_t list, uint32_t item) {
    Remove(item);
    Insert(list, item, ends_[list].back, kNone);
  }
  void Remove(uint32_t item) {
    Links& l = links_[item];
    if (l.list == kNone) return;
    (l.prev == kNone ? ends_[l.list].front : links_[l.prev].next) = l.next;
    (l.next == kNone ? ends_[l.list].back : links_[l.next].prev) = l.prev;
    l = {};
  }

 private:
  struct Ends {
    uint32_t front;
    uint32_t back;
  };
  struct Links {
    uint32_t list = kNone;
    uint32_t prev = kNone;
    uint32_t next = kNone;
  };
  void Insert(uint32_t list, uint32_t item, uint32_t prev, uint32_t next) {
    links_[item] = {list, prev, next};
    (prev == kNone ? ends_[list].front : links_[prev].next) = item;
    (next == kNone ? ends_[list].back : links_[next].prev) = item;
  }

  std::vector<Ends> ends_;
  std::vector<Links> links_;
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_CORE_LINKED_LISTS_H_
