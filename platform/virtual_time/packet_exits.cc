// SPDX-License-Identifier: Apache-2.0
#include "platform/virtual_time/packet_exits.h"

#include <cstddef>

#include "base/check.h"

namespace snf {
namespace {

PacketRoute RouteOf(Instant now, UnitId unit, const PacketMeta& meta) {
  return {.unit = unit,
          .flow = meta.flow,
          .flowlet = meta.flowlet,
          .clock = meta.clock,
          .latency = now - meta.arrival};
}

}  // namespace

void PacketExits::PassThrough(Instant now, const CapturedPacket& captured) {
  ++result_.packets_passed_through;
  observers_.on_release(ReleasedPacket::Of(now, captured));
}

void PacketExits::Drop(Instant now, const CapturedPacket& captured,
                       DropReason reason) {
  ++result_.dropped[static_cast<size_t>(reason)];
  observers_.on_drop(ReleasedPacket::Of(now, captured), ToString(reason));
}

void PacketExits::Drop(Instant now, PacketHandle packet, DropReason reason) {
  CountDrop(now, packet, {.latency = now - buffers_.info(packet).arrival},
            reason);
  buffers_.Free(packet);
}

void PacketExits::Release(Instant now, UnitId unit, const PacketMeta& meta,
                          PacketHandle packet, bool generated) {
  ++result_.packets_released;
  result_.packets_generated += generated ? 1 : 0;
  PacketRoute route = RouteOf(now, unit, meta);
  route.generated = generated;
  if (!generated) result_.latency_ns.Record(route.latency.ns);
  observers_.on_release(ReleasedPacket::Of(now, buffers_, packet, route));
}

void PacketExits::End(Instant now, UnitId unit, const UnitCommand& command) {
  using Kind = UnitCommand::Kind;
  const PacketMeta& meta = command.meta;
  switch (command.kind) {
    case Kind::kNfDrop:
      ++result_.nf_dropped[command.nf_reason];
      observers_.on_drop(ReleasedPacket::Of(now, buffers_, command.packet,
                                            RouteOf(now, unit, meta)),
                         result_.nf_drop_names[command.nf_reason]);
      Take(now, unit, command);
      break;
    case Kind::kDrop:
      CountDrop(now, command.packet, RouteOf(now, unit, meta), command.reason);
      Take(now, unit, command);
      break;
    case Kind::kConsume:
      ++result_.packets_consumed;
      observers_.on_consumed(now, meta);
      Take(now, unit, command);
      break;
    case Kind::kAdvance:
      CountAdvanced(result_.state, meta);
      observers_.on_advanced(now, unit, meta);
      break;
    case Kind::kDropPayload:
      CountDrop(now, command.packet, RouteOf(now, unit, meta), command.reason);
      observers_.on_payload_dropped(now, unit, meta);
      buffers_.Free(command.packet);
      break;
    default:
      SNF_CHECK(false);
  }
}

void PacketExits::Lose(Instant now, UnitId unit, const PacketMeta& meta,
                       PacketHandle packet, bool generated) {
  result_.packets_generated += generated ? 1 : 0;
  CountDrop(now, packet, RouteOf(now, unit, meta), DropReason::kUnitFailed);
  buffers_.Free(packet);
}

void PacketExits::Take(Instant now, UnitId unit, const UnitCommand& command) {
  observers_.on_taken(now, unit, command.meta);
  buffers_.Free(command.packet);
}

void PacketExits::CountDrop(Instant now, PacketHandle packet,
                            const PacketRoute& route, DropReason reason) {
  ++result_.dropped[static_cast<size_t>(reason)];
  observers_.on_drop(ReleasedPacket::Of(now, buffers_, packet, route),
                     ToString(reason));
}

}  // namespace snf
