// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_INBOX_SCHEDULER_H_
#define SNF_BASE_INBOX_SCHEDULER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"

namespace snf {

// Theory of operation. Says which inbox of a unit is served next, where each
// controller has one (proto/protocol.md §7): deficit round robin (Shreedhar and
// Varghese, "Efficient Fair Queuing Using Deficit Round-Robin", 1995). Inboxes
// that are not empty stand in a ring. In its turn an inbox earns as many bytes
// as its share, is served as long as the bytes earned cover its next packet,
// and keeps the remaining ones for its next turn. An inbox that is empty leaves
// the ring and loses its remaining bytes: so the other inboxes use its share
// meanwhile. When it has packets again it is the last of the round.
//
// A round is 1,024 bytes at most, so packets of small shares take several.
// Rounds in which no inbox can be served are skipped in one step.
//
// Worked example: shares of 768 and 256, packets of 1,000 bytes. The first
// inbox has earned 1,536 after two rounds and sends one; the other has earned
// 1,024 after four, in which the first has sent three.
//
// Of two inboxes that have packets all along, what each has sent for a unit of
// share differs by less than a round and a packet of each. A share of 0, of a
// lease that ends, counts as 1/1024 until the inbox is empty.
//
// A value; owner-thread only. Next is O(inboxes that have packets) at worst,
// and O(1) where one has; nothing is allocated after construction.
class InboxScheduler {
 public:
  static constexpr uint32_t kNone = 0xffff'ffff;
  static constexpr uint32_t kMostShare = 1'024;
  static constexpr uint32_t kMostCost = 1u << 30;

  explicit InboxScheduler(uint32_t inboxes) : inboxes_(inboxes) {
    ring_.reserve(inboxes);
  }

  // In 1/1024 of the unit; at first 0. Takes effect at the next turn.
  void SetShare(uint32_t inbox, uint32_t share) {
    SNF_CHECK(share <= kMostShare);
    inboxes_[inbox].share = std::max(share, 1u);
  }

  // The first packet came into an inbox; or its last one has left. Do nothing
  // if that is known.
  void Add(uint32_t inbox) {
    Inbox& added = inboxes_[inbox];
    if (added.is_in_ring) return;
    added.is_in_ring = true;
    // The inbox in turn is the first of the round, so the place before it is
    // the last.
    ring_.insert(ring_.begin() + static_cast<ptrdiff_t>(turn_), inbox);
    if (ring_.size() > 1) ++turn_;
  }
  void Remove(uint32_t inbox) {
    Inbox& removed = inboxes_[inbox];
    if (!removed.is_in_ring) return;
    removed.is_in_ring = false;
    removed.earned = 0;
    const auto at =
        static_cast<size_t>(std::ranges::find(ring_, inbox) - ring_.begin());
    ring_.erase(ring_.begin() + static_cast<ptrdiff_t>(at));
    if (at < turn_) {
      --turn_;
    } else if (at == turn_) {
      has_earned_ = false;
      if (turn_ == ring_.size()) turn_ = 0;
    }
  }
  bool empty() const { return ring_.empty(); }

  // Returns the inbox whose first packet is served next, and charges the
  // packet's cost to it; kNone if all are empty. `cost_of(inbox)` is the cost
  // of its first packet in bytes, at most kMostCost.
  template <typename CostOf>
  uint32_t Next(const CostOf& cost_of) {
    if (ring_.size() <= 1) return ring_.empty() ? kNone : ring_.front();
    for (size_t looked = 0;; ++looked) {
      if (looked == ring_.size()) SkipRounds(cost_of);
      const uint32_t next = ring_[turn_];
      Inbox& inbox = inboxes_[next];
      if (!has_earned_) inbox.earned += inbox.share;
      has_earned_ = true;
      const int64_t cost = cost_of(next);
      if (inbox.earned >= cost) {
        inbox.earned -= cost;
        return next;
      }
      Advance();
    }
  }

 private:
  struct Inbox {
    int64_t share = 1;
    int64_t earned = 0;
    bool is_in_ring = false;
  };

  void Advance() {
    has_earned_ = false;
    if (++turn_ == ring_.size()) turn_ = 0;
  }

  // Called after a whole round in which no inbox could be served. Adds the
  // earnings of all rounds up to the one in which an inbox can be served,
  // without that round itself.
  template <typename CostOf>
  void SkipRounds(const CostOf& cost_of) {
    int64_t rounds = kMostCost;
    for (const uint32_t each : ring_) {
      const Inbox& inbox = inboxes_[each];
      const int64_t lacks = int64_t{cost_of(each)} - inbox.earned;
      rounds = std::min(rounds, (lacks + inbox.share - 1) / inbox.share);
    }
    for (const uint32_t each : ring_) {
      inboxes_[each].earned += (rounds - 1) * inboxes_[each].share;
    }
  }

  std::vector<Inbox> inboxes_;
  std::vector<uint32_t> ring_;  // inboxes that have packets, in turn
  size_t turn_ = 0;             // in the ring
  bool has_earned_ = false;     // the inbox in turn has earned its share
};

}  // namespace snf

#endif  // SNF_BASE_INBOX_SCHEDULER_H_
