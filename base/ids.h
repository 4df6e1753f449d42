// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_IDS_H_
#define SNF_BASE_IDS_H_

#include <cstdint>
#include <type_traits>

namespace snf {

// Strong integer ids: distinct types that compare and hash but do not add.
// `value(id)` gives the number back, for tables and for printing.
template <typename Id>
requires std::is_enum_v<Id>
constexpr auto value(Id id) {
  return static_cast<std::underlying_type_t<Id>>(id);
}

// Names a compute unit of one controller: 0 … max_units - 1
// (proto/decisions.md 26).
enum class UnitId : uint16_t {};
inline constexpr UnitId kNoUnit{0xffff};
inline constexpr uint32_t kMaxUnits = 65'535;

// The greatest K, the number of units that a flow's state is pushed to (SNF
// §5.2.2).
inline constexpr uint32_t kMaxReplicas = 16;

// The logical clock of one flow. The controller gives 1, 2, 3 … to the packets
// that it really enqueues (SNF §5.3); 0 means "before the first packet".
enum class Clock : uint64_t {};
constexpr Clock operator+(Clock c, uint64_t n) { return Clock{value(c) + n}; }
constexpr Clock operator-(Clock c, uint64_t n) { return Clock{value(c) - n}; }

// Names a buffer of a BufferPool (runtime/ring/buffer_pool.h).
enum class PacketHandle : uint32_t {};
inline constexpr PacketHandle kNoPacket{0xffff'ffff};

// Names a flow, uniquely over a run and over controllers. An id holds the
// controller (8 bits), the slot in its flow table (32 bits) and the generation
// of that slot (24 bits) (proto/decisions.md 14). Reusing a slot raises the
// generation, so an old id never names a new flow.
enum class FlowId : uint64_t {};
inline constexpr FlowId kNoFlow{~uint64_t{0}};

constexpr FlowId MakeFlowId(uint8_t controller, uint32_t slot,
                            uint32_t generation) {
  return FlowId{uint64_t{controller} << 56 |
                uint64_t{generation & 0xff'ffff} << 32 | slot};
}
constexpr uint8_t controller_of(FlowId id) {
  return static_cast<uint8_t>(value(id) >> 56);
}
constexpr uint32_t generation_of(FlowId id) {
  return static_cast<uint32_t>(value(id) >> 32) & 0xff'ffff;
}
constexpr uint32_t slot_of(FlowId id) {
  return static_cast<uint32_t>(value(id));
}
// Returns true if `a` had the slot after `b`, of two flows of one slot of one
// controller. Generations wrap: they may be up to 2^23 apart (RFC 1982).
constexpr bool IsNewer(FlowId a, FlowId b) {
  const uint32_t ahead = (generation_of(a) - generation_of(b)) & 0xff'ffff;
  return ahead != 0 && ahead < 1u << 23;
}

}  // namespace snf

#endif  // SNF_BASE_IDS_H_
