// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_RECOVERY_SURVIVORS_H_
#define SNF_CONTROLLER_RECOVERY_SURVIVORS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages/messages.h"
#include "base/time.h"

namespace snf {

// A packet that was in the channel of a failed unit and survives it.
struct Survivor {
  FlowId flow{};
  Clock clock{};
  Instant arrival{};
  PacketHandle packet = kNoPacket;  // kNoPacket once it was taken
  uint32_t original_length = 0;
};

// Theory of operation. The packets that survive their units, from the failure
// until each is re-routed or dropped. They come in any order, while loggers and
// units are asked (Add). Then they are sorted by flow and clock (Sort), so that
// a lost clock finds its packet (Find). Packets that no lost clock asked for
// are taken one by one at the end (TakeNext).
//
// A packet that has survived two units is listed twice. Its clock is re-routed
// once for each failure, and one entry serves each.
//
// Worked example: unit 0 fails with clocks 7 and 8 of a flow in its channel.
// Both packets are added, then clock 7 turns out to be done. Clock 8 is lost:
// Find returns its packet, which goes to unit 1. TakeNext returns the packet of
// clock 7, to be dropped.
//
// A value; owner-thread only; nothing is allocated after construction. Takes 32
// bytes a packet.
class Survivors {
 public:
  explicit Survivors(size_t most_packets) : packets_(most_packets) {}

  // Returns false, and does not take the packet, if there is no room.
  bool Add(const PacketMeta& meta, PacketHandle packet) {
    if (count_ == packets_.size()) return false;
    packets_[count_++] = {.flow = meta.flow,
                          .clock = meta.clock,
                          .arrival = meta.arrival,
                          .packet = packet,
                          .original_length = meta.original_length};
    return true;
  }
  // Called once all packets are added, before Find and TakeNext; again if
  // further packets were added.
  void Sort() {
    std::sort(packets_.data(), packets_.data() + count_, IsBefore);
    next_ = 0;
  }
  // Returns the packet of that clock, or null if it has not survived, or was
  // taken. The caller takes it by setting `packet` to kNoPacket.
  Survivor* Find(FlowId flow, Clock clock) {
    Survivor* const end = packets_.data() + count_;
    const Survivor wanted = {.flow = flow, .clock = clock};
    Survivor* found = std::lower_bound(packets_.data(), end, wanted, IsBefore);
    while (found != end && !IsBefore(wanted, *found)) {
      if (found->packet != kNoPacket) return found;
      ++found;
    }
    return nullptr;
  }

  // Returns true if TakeNext has not come to the end.
  bool HasNext() const { return next_ < count_; }
  // Takes the packet of the next entry, or returns kNoPacket if that was taken.
  PacketHandle TakeNext() {
    return std::exchange(packets_[next_++].packet, kNoPacket);
  }
  // Removes all entries. Their packets must have been taken.
  void Clear() { count_ = next_ = 0; }

 private:
  static bool IsBefore(const Survivor& a, const Survivor& b) {
    return a.flow != b.flow ? value(a.flow) < value(b.flow) : a.clock < b.clock;
  }

  LazyArray<Survivor> packets_;
  uint32_t count_ = 0;
  uint32_t next_ = 0;  // the entry for TakeNext
};

}  // namespace snf

#endif  // SNF_CONTROLLER_RECOVERY_SURVIVORS_H_
