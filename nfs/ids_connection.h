// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_IDS_CONNECTION_H_
#define SNF_NFS_IDS_CONNECTION_H_

#include <array>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "base/packet/flow_key.h"
#include "runtime/sdk/stream/tcp_segment.h"

namespace snf {

// The fate of the packets of a connection.
enum class IdsFate : uint8_t {
  kInspected,
  kPassed,  // forwarded without a look, from an exception on
  // Dropped, from an exception on (IdsPolicy::kDrop).
  kDroppedMidstream,
  kDroppedAtGap,
  kDroppedAtMemcap,
};
inline bool IsDrop(IdsFate fate) { return fate >= IdsFate::kDroppedMidstream; }

// A flow, as its record keeps it. Of pairs, the first is to the server.
struct IdsConnection {
  enum Seen : uint16_t {
    kSyn = 1,
    kEstablished = 2,
    kServerSpoke = 4,
    kAlerted = 8,
    kHttp = 16,
  };
  FlowKey client;  // ends of the packets to the server
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;  // of the last packet
  std::array<uint64_t, 2> packets = {};
  std::array<uint64_t, 2> bytes = {};  // frames, on the wire
  uint32_t transactions = 0;           // of HTTP that are logged
  uint16_t seen = 0;                   // a sum of Seen
  std::array<uint8_t, 2> tcp_flags = {};
  IdsFate fate = IdsFate::kInspected;
  std::array<uint8_t, 7> zeros = {};

  uint64_t all_packets() const { return packets[0] + packets[1]; }
  bool has(uint16_t what) const { return (seen & what) != 0; }

  // Counts a packet. Returns true if it goes to the server.
  struct Packet {
    FlowKey ends;
    uint64_t time_ns = 0;
    uint64_t bytes = 0;
    std::optional<TcpSegment> segment = std::nullopt;
  };
  bool Add(const Packet& packet);
};
static_assert(sizeof(IdsConnection) == 104 &&
              std::has_unique_object_representations_v<IdsConnection>);

}  // namespace snf

#endif  // SNF_NFS_IDS_CONNECTION_H_
