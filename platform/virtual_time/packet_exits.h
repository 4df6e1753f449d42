// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_VIRTUAL_TIME_PACKET_EXITS_H_
#define SNF_PLATFORM_VIRTUAL_TIME_PACKET_EXITS_H_

#include "base/ids.h"
#include "base/messages/drop_reason.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "platform/run/observers.h"
#include "platform/run/released_packet.h"
#include "platform/run/run.h"
#include "runtime/core/unit_commands.h"
#include "runtime/ring/buffer_pool.h"
#include "traces/capture_reader.h"

namespace snf {

// Where the packets of a run in virtual time end: each is counted once in the
// result, and the observers are told how it ended.
//
// Owner-thread only.
class PacketExits {
 public:
  // All of them must outlive the object.
  PacketExits(BufferPool& buffers, Observers& observers, RunResult& result)
      : buffers_(buffers), observers_(observers), result_(result) {}

  // Releases a packet that has no flow.
  void PassThrough(Instant now, const CapturedPacket& captured);
  // Drops a packet before it got a buffer.
  void Drop(Instant now, const CapturedPacket& captured, DropReason reason);
  // Drops a packet that reached the controller and no unit, and frees it.
  void Drop(Instant now, PacketHandle packet, DropReason reason);
  // Releases a packet of a unit. Its buffer stays in use.
  void Release(Instant now, UnitId unit, const PacketMeta& meta,
               PacketHandle packet, bool generated);
  // Does what a unit says of a packet that is not released: `command` is of
  // kind kNfDrop, kDrop, kConsume, kAdvance or kDropPayload. Frees its buffer.
  void End(Instant now, UnitId unit, const UnitCommand& command);

  // The packet is lost with its unit, which failed. Frees its buffer.
  void Lose(Instant now, UnitId unit, const PacketMeta& meta,
            PacketHandle packet, bool generated);

 private:
  void Take(Instant now, UnitId unit, const UnitCommand& command);
  void CountDrop(Instant now, PacketHandle packet, const PacketRoute& route,
                 DropReason reason);

  BufferPool& buffers_;
  Observers& observers_;
  RunResult& result_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_VIRTUAL_TIME_PACKET_EXITS_H_
