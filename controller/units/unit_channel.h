// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_UNITS_UNIT_CHANNEL_H_
#define SNF_CONTROLLER_UNITS_UNIT_CHANNEL_H_

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace snf {

// Theory of operation. The controller's account of the channel to one unit: how
// many of its slots are used, how many bytes their packets cost, the number of
// the newest packet (U10), and the time of the last one. A slot is taken for
// each packet, and is free again once the unit reports that the packet drained.
//
// A shut channel takes no packet, but drains. A broken one, whose unit has
// failed, does not drain either: its packets are lost. Both are marks above all
// numbers of slots, so that one comparison serves for every packet.
//
// Worked example: three packets of 100 bytes take slots: 3 slots, 300 bytes,
// number 3. Two drain: 1 slot, 100 bytes, number 3. The channel is shut: no
// further packet gets a slot, and the last one still drains.
//
// A value, valid when all its bytes are zero: an empty channel. Owner-thread
// only.
class UnitChannel {
 public:
  // Channels have fewer slots than this.
  static constexpr uint32_t kMaxSlots = uint32_t{1} << 30;

  // Returns true if no slot is used, and the channel is not shut.
  bool is_empty() const { return slots_used_ == 0; }
  bool has_packets() const { return (slots_used_ & (kMaxSlots - 1)) != 0; }
  uint64_t queued_bytes() const { return queued_bytes_; }
  // Returns the number of the newest packet.
  uint64_t number() const { return number_; }
  Instant last_packet() const { return last_packet_; }
  bool is_shut() const { return (slots_used_ & kShut) != 0; }
  // Returns true while packets wait for a unit that is starting.
  bool is_buffer() const { return is_buffer_; }

  // Restarts the idle clock, as a packet does even if it finds no slot.
  void Use(Instant now) { last_packet_ = std::max(last_packet_, now); }
  // Returns true if fewer than `slots` are used, and the channel is open.
  bool HasSlot(uint32_t slots) const { return slots_used_ < slots; }
  // Takes a slot, which must be free, and returns the packet's number.
  uint64_t Take(uint32_t bytes) {
    ++slots_used_;
    queued_bytes_ += bytes;
    return ++number_;
  }
  // Frees the slots of packets that have drained. Returns false, and changes
  // nothing, if fewer are queued, or if the channel is broken.
  bool Drain(uint32_t packets, uint64_t bytes) {
    if ((slots_used_ & kBroken) != 0 || (slots_used_ & ~kShut) < packets ||
        queued_bytes_ < bytes) [[unlikely]] {
      return false;
    }
    slots_used_ -= packets;
    queued_bytes_ -= bytes;
    return true;
  }

  void Shut() { slots_used_ |= kShut; }
  void Open() { slots_used_ &= ~kShut; }
  void set_is_buffer(bool is_buffer) { is_buffer_ = is_buffer; }
  // The unit has failed, and its packets are lost.
  void Break() {
    slots_used_ = kBroken;
    queued_bytes_ = 0;
  }
  // The channel is empty again, and open. Numbers continue.
  void Mend() { slots_used_ = 0; }
  // A channel that continues another controller's has this in it.
  void Restore(uint32_t slots, uint64_t bytes) {
    slots_used_ = slots;
    queued_bytes_ = bytes;
  }
  // The first packet gets the number after `before`.
  void NumberFrom(uint64_t before) { number_ = before; }

 private:
  static constexpr uint32_t kShut = uint32_t{1} << 31;
  static constexpr uint32_t kBroken = kMaxSlots;

  uint32_t slots_used_;  // plus kShut, or kBroken
  bool is_buffer_;
  Instant last_packet_;
  uint64_t number_;
  uint64_t queued_bytes_;  // of the packets in used slots
};
static_assert(sizeof(UnitChannel) == 32);

}  // namespace snf

#endif  // SNF_CONTROLLER_UNITS_UNIT_CHANNEL_H_
