// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_PACKET_EXITS_H_
#define SNF_PLATFORM_RUN_PACKET_EXITS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include "base/ids.h"
#include "base/messages/drop_reason.h"
#include "base/messages/messages.h"
#include "base/messages/unit_commands.h"
#include "base/time.h"
#include "platform/run/observers.h"
#include "platform/run/provisioning.h"
#include "platform/run/released_packet.h"
#include "platform/run/run.h"
#include "runtime/ring/buffer_pool.h"
#include "traces/capture_reader.h"

namespace snf {

// Ends the packets of a run, whatever its clock: counts each of them once in
// the result, tells the observers how it ended, and frees its buffer. A
// `command` here is the unit's own, and names the unit.
//
// Owner-thread only. Nothing is allocated for a packet.
class PacketExits {
 public:
  // Takes a buffer that is not of this party's share, or not in use.
  using GiveBack = std::function<void(PacketHandle)>;

  // All references must outlive the object.
  PacketExits(BufferPool& buffers, Observers& observers,
              Provisioning& provisioning, RunResult& result, GiveBack give_back)
      : buffers_(buffers),
        observers_(observers),
        provisioning_(provisioning),
        result_(result),
        give_back_(std::move(give_back)) {}

  // Releases a packet that has no flow.
  void PassThrough(Instant now, const CapturedPacket& captured);
  // Drops a packet before it got a buffer.
  void Drop(Instant now, const CapturedPacket& captured, DropReason reason);
  // Drops a packet that reached the controller and no unit.
  void Drop(Instant now, PacketHandle packet, DropReason reason);
  // Returns true if the buffer of a kEmit has log records, which ReleaseRecords
  // releases, instead of a packet.
  bool has_records(PacketHandle made) const {
    return buffers_.info(made).side == Side::kLogs;
  }
  void ReleaseRecords(PacketHandle made);
  // Releases the packet of a kRelease or kEmit. If it `comes_back` from the
  // network, its buffer stays in use.
  void Release(Instant now, const UnitCommand& command, bool comes_back) {
    const bool is_generated = command.kind == UnitCommand::Kind::kEmit;
    ++result_.packets_released;
    if (is_generated) {
      ++result_.packets_generated;
    } else {
      NoteLatency(std::max(now - command.meta.arrival, Nanos{}));
    }
    observers_.on_release_of([&] {
      ReleasedPacket packet = ReleasedPacket::Of(now, buffers_, command.packet,
                                                 RouteOf(now, command));
      packet.comes_back = comes_back;
      // Its buffer already says the side from which it arrives next.
      if (comes_back) packet.side = Side::kInside;
      return packet;
    });
    if (!comes_back) Free(command.packet);
  }
  // Ends a packet that is not released, or a clock without a packet: `command`
  // is of kind kNfDrop, kDrop, kConsume, kAdvance or kDropPayload.
  void End(Instant now, const UnitCommand& command);
  // Drops a packet that was lost with its unit, which failed. Returns false if
  // the buffer had log records instead.
  bool Lose(Instant now, UnitId unit, const PacketMeta& meta,
            PacketHandle packet, bool generated);

  // Adds the latencies that are noted to the result.
  void RecordLatency() {
    if (packets_of_latency_ == 0) return;
    result_.latency_ns.Record(latency_.ns, packets_of_latency_);
    packets_of_latency_ = 0;
  }

 private:
  static PacketRoute RouteOf(Instant now, const UnitCommand& command) {
    return {.unit = command.unit,
            .flow = command.meta.flow,
            .flowlet = command.meta.flowlet,
            .clock = command.meta.clock,
            .latency = now - command.meta.arrival,
            .generated = command.kind == UnitCommand::Kind::kEmit};
  }
  // Packets that come and go together have the same latency.
  void NoteLatency(Nanos latency) {
    if (latency != latency_) RecordLatency();
    latency_ = latency;
    ++packets_of_latency_;
  }
  void Free(PacketHandle packet) {
    if (!buffers_.FreeIfOwn(packet)) [[unlikely]]
      give_back_(packet);
  }
  void CountDrop(Instant now, PacketHandle packet, const PacketRoute& route,
                 DropReason reason);
  void ShowDrop(Instant now, PacketHandle packet, const PacketRoute& route,
                std::string_view reason);

  BufferPool& buffers_;
  Observers& observers_;
  Provisioning& provisioning_;
  RunResult& result_;
  const GiveBack give_back_;
  uint32_t packets_of_latency_ = 0;  // released, and not recorded yet
  Nanos latency_;                    // of each of them
};

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_PACKET_EXITS_H_
