// SPDX-License-Identifier: Apache-2.0
#include "platform/hosts/channel_receiver.h"

#include <algorithm>
#include <cstring>

namespace snf {

// Merges the number into the ranges. The oldest range is forgotten if there are
// too many: the sender finds its datagrams lost, and sends them again.
void ChannelReceiver::Note(uint64_t number) {
  auto at = ranges_.begin();
  while (at != ranges_.end() && at->first > number + 1) ++at;
  if (at == ranges_.end() || at->last + 1 < number) {
    ranges_.insert(at, {.first = number, .last = number});
    if (ranges_.size() > ChannelAck::kMostRanges) ranges_.pop_back();
    return;
  }
  at->first = std::min(at->first, number);
  at->last = std::max(at->last, number);
  const auto older = at + 1;
  if (older != ranges_.end() && older->last + 1 >= at->first) {
    at->first = std::min(at->first, older->first);
    ranges_.erase(older);
  }
}

// Returns true if a byte of the piece was not here.
bool ChannelReceiver::Keep(uint64_t offset, std::span<const std::byte> bytes) {
  const uint64_t end = offset + bytes.size();
  uint64_t from = std::max(offset, received_);
  if (from >= end) return false;
  const size_t needed = head_ + (end - consumed_);
  if (bytes_.size() < needed) bytes_.resize(needed);
  bool is_new = false;
  // The part before each island is new; the first copy of a byte stays.
  auto island = islands_.upper_bound(from);
  if (island != islands_.begin()) {
    from = std::max(from, std::prev(island)->second);
  }
  while (from < end) {
    const uint64_t to =
        island == islands_.end() ? end : std::min(end, island->first);
    if (from < to) {
      std::memcpy(&bytes_[head_ + (from - consumed_)], &bytes[from - offset],
                  to - from);
      is_new = true;
    }
    if (island == islands_.end() || to == end) break;
    from = island->second;
    ++island;
  }
  if (!is_new) return false;
  uint64_t first = std::max(offset, received_);
  uint64_t last = end;
  auto merged = islands_.upper_bound(last);
  while (merged != islands_.begin()) {
    const auto before = std::prev(merged);
    if (before->second < first) break;
    first = std::min(first, before->first);
    last = std::max(last, before->second);
    merged = islands_.erase(before);
  }
  if (first <= received_) {
    received_ = last;
  } else {
    islands_[first] = last;
  }
  return true;
}

bool ChannelReceiver::Take(uint64_t number, uint64_t offset,
                           std::span<const std::byte> bytes) {
  const uint64_t limit = consumed_ + kChannelWindow;
  if (offset > limit || bytes.size() > limit - offset) return false;
  Note(number);
  if (!Keep(offset, bytes)) ++repeated_;
  return true;
}

void ChannelReceiver::Consume(size_t bytes) {
  head_ += bytes;
  consumed_ += bytes;
  if (head_ < bytes_.size() / 2) return;
  bytes_.erase(bytes_.begin(),
               bytes_.begin() + static_cast<std::ptrdiff_t>(head_));
  head_ = 0;
}

ChannelAck ChannelReceiver::Ack() const {
  return {.received = received_, .consumed = consumed_, .ranges = ranges_};
}

}  // namespace snf
