// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_BENCH_FIXTURE_CAPTURED_TABLES_H_
#define SNF_PLATFORM_COMMANDS_BENCH_FIXTURE_CAPTURED_TABLES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/packet/fixture_three_tables.h"
#include "base/packet/packet_info.h"
#include "traces/loaded_capture.h"

namespace snf {

// The packets of a capture that the tables of ThreeTableFloor can take: IPv4
// without fragments, with TCP or UDP. As in a replay, an end that sends first
// is inside. Packets from the outside are taken only if they answer one.
struct PlainCapture {
  LoadedCapture packets{HalfOfMemory()};
  std::vector<Side> sides;  // of each packet
  uint32_t connections = 0;

  // Errors: of MergedReader, and NotFound if there is no such packet.
  static absl::StatusOr<PlainCapture> Read(const std::string& path);
};

// For benchmarks: copies the packets of a capture, parses them, and sends them
// through the three tables, again and again. Owner-thread only.
class CapturedTables {
 public:
  // The capture must outlive this. Packets from the outside are addressed to
  // what the NAT's table gave out.
  CapturedTables(const PlainCapture& capture, bool with_hosts);

  // Runs some `packets`, and returns how many.
  uint64_t Run(uint64_t packets);

 private:
  static constexpr size_t kBatch = ThreeTableFloor::kBatch;
  static constexpr size_t kBufferBytes = 2'048;

  struct Buffer {
    PacketInfo info;
    std::array<std::byte, kBufferBytes> bytes;
  };

  // Copies the packet, which is parsed in the copy.
  ThreeTableFloor::Item Take(const CapturedPacket& packet, Side side,
                             Buffer& to);

  const PlainCapture& capture_;
  ThreeTableFloor floor_;
  LoadedCapture translated_{HalfOfMemory()};
  std::vector<Buffer> buffers_{kBatch};
  size_t next_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_BENCH_FIXTURE_CAPTURED_TABLES_H_
