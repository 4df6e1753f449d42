// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_RELEASE_SINK_H_
#define SNF_PLATFORM_RUN_RELEASE_SINK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/ids.h"
#include "base/packet/link_type.h"
#include "base/time.h"
#include "runtime/ring/buffer_pool.h"
#include "traces/capture_reader.h"

namespace snf {

// How a packet came to where it leaves.
struct PacketRoute {
  UnitId unit = kNoUnit;  // that had it; kNoUnit: none, or not known
  uint32_t flowlet = 0;   // 0: it had none
  Clock clock{};
  Nanos latency;           // since it reached the controller
  bool generated = false;  // by an NF
};

// A packet that leaves, in the order and at the time of leaving.
struct ReleasedPacket {
  Instant time;
  std::span<const std::byte> bytes;  // valid during the call
  uint32_t original_length = 0;
  LinkType link = LinkType::kEthernet;
  PacketRoute route{};

  static ReleasedPacket Of(Instant time, const CapturedPacket& packet) {
    return {.time = time,
            .bytes = packet.bytes,
            .original_length = packet.original_bytes,
            .link = packet.link};
  }
  static ReleasedPacket Of(Instant time, BufferPool& buffers,
                           PacketHandle packet, const PacketRoute& route) {
    const auto& [info, bytes] = buffers.view(packet);
    return {.time = time,
            .bytes = bytes,
            .original_length = info.original_length,
            .link = info.link,
            .route = route};
  }
};

// Where released packets go, and dropped ones. May be absent.
class ReleaseSink {
 public:
  virtual ~ReleaseSink() = default;
  virtual void on_release(const ReleasedPacket& packet) = 0;
  // `packet` as it stood when it was dropped.
  virtual void on_drop(const ReleasedPacket& /*packet*/,
                       std::string_view /*reason*/) {}
};

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_RELEASE_SINK_H_
