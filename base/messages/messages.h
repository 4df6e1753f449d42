// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_MESSAGES_MESSAGES_H_
#define SNF_BASE_MESSAGES_MESSAGES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/ids.h"
#include "base/packet/flow_key.h"
#include "base/packet/link_type.h"
#include "base/time.h"

// The words that cross between cores (decisions.md 2). Plain structs: trivially
// copyable, sizes pinned, no pointers, so that they can lie in shared memory or
// be sent as they stand between processes of one machine.

namespace snf {

// Where the state that a flowlet's first packet needs is to be found.
enum class StateSource : uint8_t {
  kNone,  // a new flow: the state is null
  kUnit,  // the unit `source` was given the packet with the clock before
};

// What travels with a packet from the controller to a unit (protocol.md §3).
struct PacketMeta {
  FlowId flow{};
  Clock clock{};
  Instant arrival;               // when the packet reached the controller
  uint64_t channel_number = 0;   // 1, 2, 3 … per controller and unit (U10)
  uint32_t flowlet = 0;          // 1, 2, 3 … within the flow
  uint32_t original_length = 0;  // bytes on the wire, whatever was captured
  UnitId source = kNoUnit;       // valid for StateSource::kUnit
  uint16_t chain = 0;            // which NF chain; 0 while there is one
  StateSource source_kind = StateSource::kNone;
  uint8_t flags = 0;
  uint16_t reserved = 0;

  // Bits of `flags`.
  static constexpr uint8_t kFirstOfFlowlet = 1 << 0;  // the source is valid
  static constexpr uint8_t kNewFlow = 1 << 1;  // first packet of its flow
  static constexpr uint8_t kMoved = 1 << 2;  // the flowlet before ran elsewhere
  // Carries a clock and nothing else: takes a slot of the channel but no
  // buffer, is not shown to the NF, changes and releases nothing.
  static constexpr uint8_t kTombstone = 1 << 3;  // the clock's packet is lost
  static constexpr uint8_t kNull = 1 << 4;       // moves the state (U8)
  bool has_payload() const { return (flags & (kTombstone | kNull)) == 0; }
};
static_assert(sizeof(PacketMeta) == 48);

// Controller to a flow's unit, in the channel ahead of the first packet of a
// flowlet: where to push the flow's state when it idles (U3).
struct ReplicaSet {
  FlowId flow{};
  std::array<UnitId, kMaxReplicas> units{};  // `count` of them are valid
  uint8_t count = 0;
  uint32_t flowlet = 0;  // as in PacketMeta

  std::span<const UnitId> span() const { return {units.data(), count}; }
};
static_assert(sizeof(ReplicaSet) == 48);

// Unit to unit: "send me the flow's state once you have applied `need`" (U5).
struct Pull {
  FlowId flow{};
  Clock need{};
  UnitId requester = kNoUnit;
};

// Unit to unit: the state of a flow as `applied` left it, either pushed ahead
// of the next flowlet (U3) or in answer to a Pull (U5). The record's first
// `bytes` bytes travel beside it; all others are 0. `timer` is the NF's pending
// timer, Instant::max() where it has none, as always in a push; `link` the
// framing of the flow's packets.
struct State {
  FlowId flow{};
  Clock applied{};
  Instant timer = Instant::max();
  uint64_t schema = 0;  // StateSchema::hash() of the record
  uint32_t bytes = 0;   // of the record, a multiple of 8
  LinkType link = LinkType::kEthernet;
  bool pushed = false;
};
static_assert(sizeof(State) == 40);

// A unit to the one that it took a flow's state over from, and to the
// controller: `clock` has been processed at `taker`; what has applied less is
// no longer needed (U7). The unit acknowledges.
struct Takeover {
  FlowId flow{};
  Clock clock{};
  UnitId taker = kNoUnit;
};
struct TakeoverAck {
  FlowId flow{};
  Clock clock{};
  UnitId sender = kNoUnit;
};

// Controller to the owner: the flow has been idle for its timeout and `last`
// was its last clock; the unit forgets it once it has applied `last`.
struct EndFlow {
  FlowId flow{};
  Clock last{};
};

// What left a unit since its last report; returns as many channel slots.
struct DrainReport {
  UnitId unit = kNoUnit;
  uint32_t packets = 0;
  uint64_t bytes = 0;  // original lengths
};

// Unit to controller, while it handles the packet of `clock`: packets that come
// to `key` are the flow's as well, in place of its alias before (decisions.md
// 20). At most `group_limit` flows of one group have an alias, 0 for any
// number. The packet is not released, nor another of the flow run, before the
// answer.
struct Alias {
  FlowKey key;
  FlowId flow{};
  Clock clock{};
  uint64_t group = 0;  // what the NF counts by: an inside host
  uint32_t group_limit = 0;
  UnitId unit = kNoUnit;  // that asks
  uint16_t reserved = 0;
};
static_assert(sizeof(Alias) == 72);

enum class AliasResult : uint8_t {
  kGranted,
  kConflict,   // another flow has it
  kGroupFull,  // the group has its limit of them
  kUnknown,    // the controller knows no such flow
};

// Controller to the unit that asked.
struct AliasAck {
  FlowId flow{};
  Clock clock{};
  AliasResult result = AliasResult::kGranted;
};

// Unit to controller: what the NF says of a flow, at `clock`, that it keeps.
// It comes after the Aliases that the unit sent before.
struct FlowNote {
  FlowId flow{};
  Clock clock{};
  // The flow is over after so long without packets, in place of the
  // controller's flow_timeout; below 0: as it was.
  Nanos idle_timeout{-1};
  // The flow has no alias any more, and is over unless packets of it came since
  // (decisions.md 16).
  bool over = false;
};

// The pools of pieces that an NF, or a whole chain of NFs, may have: they are
// numbered from 0 in 16 bits, of which one value stays free to mean none.
inline constexpr size_t kMaxPools = 65'535;

// Pieces of a split resource (decisions.md 18), of which there are pools: the
// ports of an address, say. A piece lies at one place only, be it the
// controller, a unit's set, or the state of a flow, and moves with it: what is
// freed at a unit is that unit's. `mask` are pieces 64 · word … + 63.
struct PieceBlock {
  uint32_t word = 0;
  uint16_t pool = 0;
  UnitId unit = kNoUnit;  // from or to which they go
  uint64_t mask = 0;
};
static_assert(sizeof(PieceBlock) == 16);

// Unit to controller: some pieces, please; one is outstanding per pool and
// unit. The answer is a PieceBlock, with mask 0 where there are none.
struct PieceRequest {
  uint16_t pool = 0;
  UnitId unit = kNoUnit;
};

static_assert(std::is_trivially_copyable_v<Alias> &&
              std::is_trivially_copyable_v<FlowNote> &&
              std::is_trivially_copyable_v<PieceBlock>);
static_assert(std::is_trivially_copyable_v<PacketMeta> &&
              std::is_trivially_copyable_v<ReplicaSet> &&
              std::is_trivially_copyable_v<Pull> &&
              std::is_trivially_copyable_v<State> &&
              std::is_trivially_copyable_v<Takeover> &&
              std::is_trivially_copyable_v<TakeoverAck> &&
              std::is_trivially_copyable_v<EndFlow> &&
              std::is_trivially_copyable_v<DrainReport>);

}  // namespace snf

#endif  // SNF_BASE_MESSAGES_MESSAGES_H_
