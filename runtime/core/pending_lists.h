// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_PENDING_LISTS_H_
#define SNF_RUNTIME_CORE_PENDING_LISTS_H_

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages/messages.h"
#include "base/time.h"

namespace snf {

// Something that a flow waits for at a unit.
struct Pending {
  enum class Kind : uint8_t {
    kPull,        // `peer` wants the state of `clock`
    kMyPull,      // this unit asked `peer` for the state of `clock`
    kMyTakeover,  // this unit told `peer` that it has run `clock`
    kMyTimer,     // this unit asked for a timer packet after `clock`
    kEnd,         // the flow is over with `clock`
    kForsaken,    // the flow is given up, whatever its clock
  };
  Clock clock;
  Instant due;  // is when it is repeated; a kPull is forgotten then
  uint32_t next;
  UnitId peer;
  Kind kind;
  uint8_t tries : 6;
  uint8_t of_logger : 1 = 0;  // a kMyPull went to the logger of `peer`
  uint8_t by_bytes : 1 = 0;   // a kPull or kMyPull asks for no name (U16)
};
static_assert(sizeof(Pending) == 24);

// Lists of what flows wait for, a short one for each flow. `head` is the field
// of the flow's record that begins its list (FlowRecord::pending), and a link
// is a pointer to `head` or to the `next` of an element: valid until something
// is added or erased.
//
// A value; owner-thread only; nothing is allocated after construction. Each
// call costs a walk over one list.
class PendingLists {
 public:
  static constexpr uint32_t kNone = 0xffff'ffff;

  // Has room for `max_pulls` Pulls and `max_takeovers` Takeovers, and for each
  // flow a Pull, a request for a timer packet and an end of this unit.
  PendingLists(uint32_t max_pulls, uint32_t max_takeovers, uint32_t max_flows)
      : max_pulls_(max_pulls),
        max_takeovers_(max_takeovers),
        all_(size_t{max_pulls} + max_takeovers + 3 * size_t{max_flows}) {}

  Pending& operator[](uint32_t pending) { return all_[pending]; }
  const Pending& operator[](uint32_t pending) const { return all_[pending]; }

  // Returns the link to the first element of that kind, with that peer unless
  // it is kNoUnit, or the link at the end of the list.
  uint32_t* LinkOf(uint32_t& head, Pending::Kind kind, UnitId peer = kNoUnit) {
    return LinkTo(head, [&](const Pending& pending) {
      return pending.kind == kind && (peer == kNoUnit || pending.peer == peer);
    });
  }
  // Returns the link to the same Pull, or the link at the end of the list.
  uint32_t* LinkOf(uint32_t& head, const Pull& pull) {
    return LinkTo(head, [&](const Pending& pending) {
      return pending.kind == Pending::Kind::kPull &&
             pending.peer == pull.requester && pending.clock == pull.need;
    });
  }
  // Returns the number of Pulls in the list.
  size_t PullsIn(uint32_t head) const {
    size_t pulls = 0;
    for (uint32_t p = head; p != kNone; p = all_[p].next) {
      pulls += all_[p].kind == Pending::Kind::kPull ? 1 : 0;
    }
    return pulls;
  }

  // Puts a copy at the head of the list.
  void Add(uint32_t& head, const Pending& pending) {
    uint32_t p = free_;
    if (p != kNone) {
      free_ = all_[p].next;
    } else {
      SNF_CHECK(used_ < all_.size());
      p = used_++;
    }
    all_[p] = pending;
    all_[p].next = head;
    head = p;
    Count(pending.kind, 1);
  }
  // Removes the element that the link leads to: the link leads to the next.
  void Erase(uint32_t* link) {
    const uint32_t p = *link;
    Pending& pending = all_[p];
    Count(pending.kind, ~uint32_t{0});  // one less
    *link = pending.next;
    pending.next = free_;
    free_ = p;
  }

  bool empty() const { return count_ == 0; }
  // More Pulls wait than may.
  bool has_too_many_pulls() const { return pulls_ > max_pulls_; }
  // Takeovers that were not acknowledged.
  uint32_t takeovers() const { return takeovers_; }
  bool has_room_for_takeover() const { return takeovers_ < max_takeovers_; }

 private:
  template <typename Matches>
  uint32_t* LinkTo(uint32_t& head, const Matches& matches) {
    uint32_t* link = &head;
    while (*link != kNone && !matches(all_[*link])) link = &all_[*link].next;
    return link;
  }
  void Count(Pending::Kind kind, uint32_t difference) {
    count_ += difference;
    if (kind == Pending::Kind::kPull) pulls_ += difference;
    if (kind == Pending::Kind::kMyTakeover) takeovers_ += difference;
  }

  uint32_t max_pulls_;
  uint32_t max_takeovers_;
  uint32_t count_ = 0;
  uint32_t pulls_ = 0;
  uint32_t takeovers_ = 0;
  LazyArray<Pending> all_;
  uint32_t used_ = 0;  // counts the elements that ever were in use
  uint32_t free_ = kNone;
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_PENDING_LISTS_H_
