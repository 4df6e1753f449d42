// SPDX-License-Identifier: Apache-2.0
#include "platform/run/packet_exits.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/messages/log_batch.h"

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

// A unit may write into the buffer at any time, so the batch is copied.
void PacketExits::ReleaseRecords(PacketHandle made) {
  const auto& [info, room] = buffers_.view(made);
  std::array<std::byte, LogBatch::kMaxBytes> copy;
  const size_t bytes = std::min(room.size(), copy.size());
  std::copy_n(room.begin(), bytes, copy.begin());
  const std::span<const std::byte> batch = std::span(copy).first(bytes);
  const Instant arrival = info.arrival;
  std::vector<NfLogCount>& logs = result_.nf_logs;
  NfLogFigures counted;
  bool is_sound = true;
  const auto each = [&](LogId id, uint64_t NfLogCount::*count, uint64_t n) {
    const auto log = static_cast<size_t>(id);
    is_sound &= log < logs.size();
    if (log < logs.size()) logs[log].*count += n;
  };
  is_sound &= LogBatch::Read(
      batch,
      [&](LogId log, std::span<const std::byte>) {
        each(log, &NfLogCount::released, 1);
        ++counted.released;
      },
      [&](LogId log, uint16_t lost) {
        each(log, &NfLogCount::no_room, lost);
        counted.no_room += lost;
      });
  result_.nf_log.released += counted.released;
  result_.nf_log.no_room += counted.no_room;
  if (is_sound) {
    observers_.on_records(arrival, batch);
  } else {
    ++result_.nf_log.batches_refused;
  }
  Free(made);
}

bool PacketExits::Lose(Instant now, UnitId unit, const PacketMeta& meta,
                       PacketHandle packet, bool generated) {
  if (generated && has_records(packet)) {
    ++result_.nf_log.batches_lost;
    Free(packet);
    return false;
  }
  result_.packets_generated += generated ? 1 : 0;
  UnitCommand lost =
      UnitCommand::OfPacket(UnitCommand::Kind::kDrop, packet, meta);
  lost.unit = unit;
  CountDrop(now, packet, RouteOf(now, lost), DropReason::kUnitFailed);
  Free(packet);
  return true;
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
