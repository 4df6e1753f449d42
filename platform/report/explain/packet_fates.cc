// SPDX-License-Identifier: Apache-2.0
#include "platform/report/explain/packet_fates.h"

#include <algorithm>

namespace snf {

void PacketFates::Drop(std::string_view reason, uint64_t packets) {
  const auto found = std::ranges::find_if(
      dropped, [&](const auto& entry) { return entry.first == reason; });
  if (found != dropped.end()) {
    found->second += packets;
  } else {
    dropped.emplace_back(reason, packets);
  }
}

void PacketFates::Wait(Nanos wait, const PacketName& packet) {
  if (longest_wait_of.life > 0 && wait <= longest_wait) return;
  longest_wait = wait;
  longest_wait_of = packet;
}

void PacketFates::Hold(Nanos hold, const PacketName& packet) {
  ++held;
  if (longest_hold_of.life > 0 && hold <= longest_hold) return;
  longest_hold = hold;
  longest_hold_of = packet;
}

void PacketFates::Add(const PacketFates& other) {
  arrived += other.arrived;
  bytes += other.bytes;
  enqueued += other.enqueued;
  released += other.released;
  consumed += other.consumed;
  dropped_at_unit += other.dropped_at_unit;
  for (const auto& [reason, packets] : other.dropped) Drop(reason, packets);
  if (other.longest_wait_of.life > 0) {
    Wait(other.longest_wait, other.longest_wait_of);
  }
  if (other.held > 0) {
    Hold(other.longest_hold, other.longest_hold_of);
    held += other.held - 1;
  }
  longest_latency = std::max(longest_latency, other.longest_latency);
}

}  // namespace snf
