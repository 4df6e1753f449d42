// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_LIVE_CHANNEL_SLOTS_H_
#define SNF_CONTROLLER_LIVE_CHANNEL_SLOTS_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages/messages.h"

namespace snf {

// Counts the slots of all units' channels that are in use, and collects the
// slots of one unit that packets free in a row, for one call of the controller.
//
// Worked example: three packets leave unit 0, then one leaves unit 1. At the
// fourth Free, has_drained_other(1) is true: Take returns the 3 packets of unit
// 0 first.
//
// Called for each packet. Owner-thread only; allocates nothing for a packet.
class ChannelSlots {
 public:
  // Packets that left one unit; `with_payload` counts those with a payload.
  struct Drained {
    DrainReport all;
    DrainReport with_payload;
  };

  // Counts packets under way of each flow, too, of this number at most.
  void CountFlows(uint32_t max_flows) {
    under_way_ = LazyArray<uint64_t>(max_flows, Pages::kGrowing);
  }

  // A packet takes a slot of its unit's channel, or frees it.
  void Enter(const PacketMeta& meta) {
    ++in_use_;
    if (under_way_.size() > 0) ++under_way_[slot_of(meta.flow)];
  }
  void Leave(const PacketMeta& meta) {
    --in_use_;
    if (under_way_.size() > 0) --under_way_[slot_of(meta.flow)];
  }

  // Returns true if slots of another unit are collected.
  bool has_drained_other(UnitId unit) const {
    return drained_.all.unit != unit;
  }
  // Collects a slot of the unit, with this cost (Controller::CostOf).
  void Drain(UnitId unit, uint32_t cost, bool has_payload) {
    drained_.all.unit = unit;
    ++drained_.all.packets;
    drained_.all.bytes += cost;
    if (!has_payload) return;
    ++drained_.with_payload.packets;
    drained_.with_payload.bytes += cost;
  }
  bool has_drained() const { return drained_.all.packets > 0; }
  // Returns the collected slots, and forgets them.
  Drained Take() {
    drained_.with_payload.unit = drained_.all.unit;
    return std::exchange(drained_, {});
  }

  // Counts packets that were sent to units and are not yet at their end.
  uint64_t in_use() const { return in_use_; }
  // Counts these of the flow with this slot of the controller's table. After
  // CountFlows.
  uint64_t under_way(uint32_t slot) const { return under_way_[slot]; }

 private:
  uint64_t in_use_ = 0;
  LazyArray<uint64_t> under_way_;  // by the slot of the flow
  Drained drained_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_LIVE_CHANNEL_SLOTS_H_
