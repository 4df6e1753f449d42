// SPDX-License-Identifier: Apache-2.0
#include "controller/recovery/owner_history.h"

#include <limits>

#include "base/check.h"

namespace snf {

OwnerHistory::OwnerHistory(uint32_t max_flows, uint32_t max_runs)
    : newest_(max_flows), nodes_(max_runs) {}

uint32_t OwnerHistory::TakeNode() {
  if (free_ == 0) return used_ < nodes_.size() ? ++used_ : 0;
  const uint32_t taken = free_;
  free_ = node(taken).next;
  return taken;
}

void OwnerHistory::Add(uint32_t slot, const Run& run) {
  const uint32_t newest = newest_[slot];
  const Clock before = newest == 0 ? Clock{} : node(newest).last;
  SNF_CHECK(run.last > before);
  uint32_t added = TakeNode();
  if (added == 0) {
    ++forgotten_;
    if (newest == 0) return;
    // Reuse the oldest run's node: it already stands behind the newest, where a
    // new node would go.
    added = node(newest).next;
  } else {
    ++size_;
    node(added).next = added;
    if (newest != 0) {
      node(added).next = node(newest).next;
      node(newest).next = added;
    }
  }
  node(added).first = before + 1;
  node(added).last = run.last;
  node(added).unit = run.unit;
  node(added).at_logger = run.at_logger;
  node(added).is_taken = run.is_taken;
  node(added).is_superseded = run.is_superseded;
  newest_[slot] = added;
}

void OwnerHistory::RemoveBefore(uint32_t slot, Clock clock) {
  const uint32_t newest = newest_[slot];
  if (newest == 0) return;
  for (;;) {
    const uint32_t oldest = node(newest).next;
    if (node(oldest).last >= clock) return;
    node(newest).next = node(oldest).next;
    node(oldest).next = free_;
    free_ = oldest;
    --size_;
    if (oldest == newest) break;
  }
  newest_[slot] = 0;
}

void OwnerHistory::TakeEndingAt(uint32_t slot, Clock last) {
  const uint32_t newest = newest_[slot];
  if (newest == 0) return;
  const uint32_t oldest = node(newest).next;
  uint32_t at = oldest;
  while (at != newest && node(at).last < last) at = node(at).next;
  if (node(at).last != last) return;
  node(at).is_taken = true;
  if (at != oldest) return;
  while (at != newest && node(node(at).next).is_taken) at = node(at).next;
  RemoveBefore(slot, node(at).last + 1);
}

void OwnerHistory::Erase(uint32_t slot) {
  RemoveBefore(slot, Clock{std::numeric_limits<uint64_t>::max()});
}

uint32_t OwnerHistory::runs(uint32_t slot) const {
  const uint32_t newest = newest_[slot];
  if (newest == 0) return 0;
  uint32_t count = 1;
  for (uint32_t i = node(newest).next; i != newest; i = node(i).next) ++count;
  return count;
}

OwnerHistory::Run OwnerHistory::run(uint32_t slot, uint32_t i) const {
  uint32_t found = newest_[slot];
  SNF_CHECK(found != 0);
  for (found = node(found).next; i > 0; --i) found = node(found).next;
  return RunOf(node(found));
}

}  // namespace snf
