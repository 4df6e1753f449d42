// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_cluster/packet_dispatcher.h"

#include "platform/run/run_setup.h"

namespace snf {

PacketDispatcher::PacketDispatcher(const RunOptions& options,
                                   const NetworkFunction& example,
                                   uint32_t controllers)
    : has_sides_(HasSides(example)),
      flows_(example, controllers),
      classifier_(options.flow),
      buffers_({.small = 1, .medium = 1, .large = 1}),
      own_keys_(example),
      ingress_(options, example, buffers_) {}

const PacketDispatcher::Placed& PacketDispatcher::Place(
    Instant arrival, const CapturedPacket& captured) {
  if (rewritten_ != kNoPacket) buffers_.Free(rewritten_);
  rewritten_ = kNoPacket;
  if (has_sides_) {
    PlaceTaken(captured, ingress_.Take(arrival, captured));
    return placed_;
  }
  ParsedPacket headers;
  FlowKey key;
  const Direction direction = classifier_.Classify(
      arrival, captured.link, captured.bytes, headers, key);
  if (own_keys_.any() && direction != Direction::kNone) {
    own_keys_.Apply(captured.bytes, headers, direction, key);
  }
  placed_.packet = captured;
  placed_.to = direction == Direction::kNone ? ControllerId{0}
                                             : flows_.Steer(key, false);
  return placed_;
}

const PacketDispatcher::Placed& PacketDispatcher::PlaceAgain(
    Instant arrival, const CapturedPacket& captured) {
  PlaceTaken(captured, ingress_.TakeAgain(arrival, captured));
  return placed_;
}

void PacketDispatcher::PlaceTaken(const CapturedPacket& captured,
                                  const Ingress::Taken& taken) {
  using Fate = Ingress::Taken::Fate;
  placed_ = {.dropped = {}, .to = ControllerId{0}, .packet = captured};
  if (taken.fate == Fate::kPassesThrough) return;
  if (taken.fate == Fate::kDropped) {
    placed_.dropped = taken.reason;
    if (taken.flow != nullptr) {
      placed_.to = flows_.Steer(*taken.flow, false);
    }
    return;
  }
  placed_.to = flows_.Steer(*taken.key, taken.by_alias);
  placed_.packet.side = taken.side;
  placed_.packet.bytes = buffers_.bytes(taken.packet);
  rewritten_ = taken.packet;
}

void PacketDispatcher::on_alias(ControllerId of, const Alias& alias,
                                const FlowKey& inside) {
  ingress_.on_alias(alias, inside);
  foreign_aliases_ += flows_.on_alias(of, alias.key) ? 0 : 1;
}

}  // namespace snf
