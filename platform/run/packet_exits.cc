// SPDX-License-Identifier: Apache-2.0
#include "platform/run/packet_exits.h"

#include <cstddef>
#include <string_view>

#include "base/check.h"

namespace snf {

void PacketExits::PassThrough(Instant now, const CapturedPacket& captured) {
  ++result_.packets_passed_through;
  observers_.on_release_of([&] { return ReleasedPacket::Of(now, captured); });
}

void PacketExits::Drop(Instant now, const CapturedPacket& captured,
                       DropReason reason) {
  ++result_.dropped[static_cast<size_t>(reason)];
  provisioning_.on_dropped(now);
  observers_.on_drop_of([&] { return ReleasedPacket::Of(now, captured); },
                        ToString(reason));
}

void PacketExits::Drop(Instant now, PacketHandle packet, DropReason reason) {
  CountDrop(now, packet, {.latency = now - buffers_.info(packet).arrival},
            reason);
  Free(packet);
}

void PacketExits::End(Instant now, const UnitCommand& command) {
  using Kind = UnitCommand::Kind;
  const PacketMeta& meta = command.meta;
  switch (command.kind) {
    case Kind::kNfDrop:
      ++result_.nf_dropped[command.nf_reason];
      ShowDrop(now, command.packet, RouteOf(now, command),
               result_.nf_drop_names[command.nf_reason]);
      break;
    case Kind::kDrop:
      CountDrop(now, command.packet, RouteOf(now, command), command.reason);
      break;
    case Kind::kConsume:
      ++result_.packets_consumed;
      observers_.on_consumed(now, meta);
      break;
    case Kind::kAdvance:
      CountAdvanced(result_.state, meta);
      observers_.on_advanced(now, command.unit, meta);
      return;
    case Kind::kDropPayload:
      CountDrop(now, command.packet, RouteOf(now, command), command.reason);
      observers_.on_payload_dropped(now, command.unit, meta);
      Free(command.packet);
      return;
    default:
      SNF_CHECK(false);
  }
  observers_.on_taken(now, command.unit, meta);
  Free(command.packet);
}

void PacketExits::Lose(Instant now, UnitId unit, const PacketMeta& meta,
                       PacketHandle packet, bool generated) {
  result_.packets_generated += generated ? 1 : 0;
  UnitCommand lost =
      UnitCommand::OfPacket(UnitCommand::Kind::kDrop, packet, meta);
  lost.unit = unit;
  CountDrop(now, packet, RouteOf(now, lost), DropReason::kUnitFailed);
  Free(packet);
}

void PacketExits::CountDrop(Instant now, PacketHandle packet,
                            const PacketRoute& route, DropReason reason) {
  ++result_.dropped[static_cast<size_t>(reason)];
  ShowDrop(now, packet, route, ToString(reason));
}

void PacketExits::ShowDrop(Instant now, PacketHandle packet,
                           const PacketRoute& route, std::string_view reason) {
  provisioning_.on_dropped(now);
  observers_.on_drop_of(
      [&] { return ReleasedPacket::Of(now, buffers_, packet, route); }, reason);
}

}  // namespace snf
