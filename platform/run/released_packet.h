// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_RELEASED_PACKET_H_
#define SNF_PLATFORM_RUN_RELEASED_PACKET_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/packet/link_type.h"
#include "base/packet/packet_info.h"
#include "base/time.h"
#include "runtime/ring/buffer_pool.h"
#include "traces/capture_reader.h"

namespace snf {

// Tells how a packet came to where it leaves or was dropped.
struct PacketRoute {
  UnitId unit = kNoUnit;  // that had it; kNoUnit: none, or not known
  FlowId flow = kNoFlow;  // kNoFlow: it had none, or not yet
  uint32_t flowlet = 0;   // 0: it had none
  Clock clock{};
  Nanos latency;           // since it reached the controller
  bool generated = false;  // by an NF, in the flow's name

  // The packet is one of the flow's own, which has that clock.
  bool has_clock() const { return flow != kNoFlow && !generated; }
};

// A packet that leaves or is dropped, in the order and at the time of that.
struct ReleasedPacket {
  Instant time;
  std::span<const std::byte> bytes;  // valid during the call
  uint32_t original_length = 0;
  LinkType link = LinkType::kEthernet;
  PacketRoute route{};
  // The side from which it came, where that is known.
  Side side = Side::kUnknown;
  // It goes to an alias of another flow, and so back to where it leaves.
  bool comes_back = false;
  // ParsedPacket::segment_bytes: the bytes may be a frame of several packets.
  uint16_t segment_bytes = 0;

  static ReleasedPacket Of(Instant time, const CapturedPacket& packet) {
    return {.time = time,
            .bytes = packet.bytes,
            .original_length = packet.original_bytes,
            .link = packet.link,
            .side = packet.side,
            .segment_bytes = packet.segment_bytes};
  }
  static ReleasedPacket Of(Instant time, BufferPool& buffers,
                           PacketHandle packet, const PacketRoute& route) {
    const auto& [info, bytes] = buffers.view(packet);
    return {.time = time,
            .bytes = bytes,
            .original_length = info.original_length,
            .link = info.link,
            .route = route,
            .side = info.side,
            .segment_bytes = info.headers.segment_bytes};
  }
};

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_RELEASED_PACKET_H_
