// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_EXPLAIN_PACKET_FATES_H_
#define SNF_PLATFORM_REPORT_EXPLAIN_PACKET_FATES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace snf {

// A packet of the flow. A flow that was forgotten and comes back has a new
// FlowId and begins with flowlet 1 and clock 1 again: another life.
struct PacketName {
  uint32_t life = 0;  // 1, 2, 3 …; 0 names no packet
  uint32_t flowlet = 0;
  Clock clock{};
};

// Counts the outcomes of some packets of the flow: arrived = enqueued + dropped
// by the controller; enqueued = released + consumed + dropped at a unit + still
// on their way.
struct PacketFates {
  uint64_t arrived = 0;
  uint64_t bytes = 0;  // of packets that arrived; original lengths
  uint64_t enqueued = 0;
  uint64_t released = 0;
  uint64_t consumed = 0;
  uint64_t dropped_at_unit = 0;
  // Drops by reason, in the order of their first drops; at most as many as
  // reasons.
  std::vector<std::pair<std::string, uint64_t>> dropped;

  // Longest time from the arrival at a unit (arrival and a hop) to the start of
  // processing: waiting behind other packets, for a unit to be ready, or for
  // the flow's state.
  Nanos longest_wait;
  PacketName longest_wait_of;  // life 0: no packet was started yet
  // The part of the wait for which packets were held for the flow's state (U2).
  uint64_t held = 0;
  Nanos longest_hold;
  PacketName longest_hold_of;  // life 0: no packet was held
  Nanos longest_latency;       // arrival to release

  void Drop(std::string_view reason, uint64_t packets);
  void Wait(Nanos wait, const PacketName& packet);
  void Hold(Nanos hold, const PacketName& packet);
  void Add(const PacketFates& other);
};

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_EXPLAIN_PACKET_FATES_H_
