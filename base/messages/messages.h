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

// The messages between cores (proto/decisions.md 2) are plain structs:
// trivially copyable, of pinned sizes and without pointers, so that they can
// lie in shared memory, or go between processes of one machine as they are.

namespace snf {

// Tells where the state is that a flowlet's first packet needs.
enum class StateSource : uint8_t {
  kNone,    // nowhere: the flow is new, its state is null
  kUnit,    // at the unit `source`, which got the packet of the clock before
  kLogger,  // at the sealed logger of the unit `source`, which has failed (F5)
};

// Travels with a packet from the controller to a unit (proto/protocol.md §3).
struct PacketMeta {
  FlowId flow{};
  Clock clock{};
  Instant arrival;               // when the packet reached the controller
  uint64_t channel_number = 0;   // 1, 2, 3 … per controller and unit (U10)
  uint32_t flowlet = 0;          // 1, 2, 3 … within the flow
  uint32_t original_length = 0;  // bytes on the wire, whatever was captured
  UnitId source = kNoUnit;       // valid unless kNone
  uint16_t chain = 0;            // which NF chain; 0 while there is one
  StateSource source_kind = StateSource::kNone;
  uint8_t flags = 0;
  uint16_t reserved = 0;

  // Bits of `flags`.
  static constexpr uint8_t kFirstOfFlowlet = 1 << 0;  // the source is valid
  static constexpr uint8_t kNewFlow = 1 << 1;  // first packet of its flow
  static constexpr uint8_t kMoved = 1 << 2;  // the flowlet before ran elsewhere
  // A packet with one of the next two flags carries a clock and nothing else.
  // It takes a slot of the channel but no buffer, is not shown to the NF, and
  // changes and releases nothing.
  static constexpr uint8_t kTombstone = 1 << 3;  // the clock's packet is lost
  static constexpr uint8_t kNull = 1 << 4;       // moves the state (U8)
  // A null packet may carry one more effect: the NF's timer runs, if it is due
  // at the packet's arrival (U11).
  static constexpr uint8_t kTimer = 1 << 5;
  // A null packet that is the end of its flow, so far only in entries of output
  // loggers: its clock is the one after the last.
  static constexpr uint8_t kEnd = 1 << 6;
  bool has_payload() const { return (flags & (kTombstone | kNull)) == 0; }
  bool runs_timer() const { return (flags & (kTimer | kTombstone)) == kTimer; }
};
static_assert(sizeof(PacketMeta) == 48);

// The controller tells a flow's unit where to push the flow's state when the
// flow idles (U3). It goes down the channel ahead of a flowlet's first packet.
struct ReplicaSet {
  FlowId flow{};
  std::array<UnitId, kMaxReplicas> units{};  // `count` of them are valid
  uint8_t count = 0;
  uint32_t flowlet = 0;  // as in PacketMeta

  std::span<const UnitId> span() const { return {units.data(), count}; }
};
static_assert(sizeof(ReplicaSet) == 48);

// A unit asks another for a flow's state, once that unit has applied `need`
// (U5).
struct Pull {
  FlowId flow{};
  Clock need{};
  UnitId requester = kNoUnit;
  // The record itself is to come, not its name (State::named).
  bool by_bytes = false;
};

// A unit sends another the state of a flow as `applied` left it, either ahead
// of the next flowlet (U3) or in answer to a Pull (U5). The first `bytes` bytes
// of the record travel beside this message; all others are 0. `timer` is the
// NF's pending timer, or Instant::max() if it has none, as always in a push.
// `link` is the framing of the flow's packets. With `delta`, which only a push
// has, the bytes beside this message are a delta to the record, for a unit that
// has an older copy (push_bases.h).
struct State {
  FlowId flow{};
  Clock applied{};
  Instant timer = Instant::max();
  uint64_t schema = 0;  // StateSchema::hash() of the record
  uint32_t bytes = 0;   // of the record, a multiple of 8; or of the delta
  LinkType link = LinkType::kEthernet;
  bool pushed = false;
  // No bytes travel: the record of that flow and clock is shown by its unit to
  // all units of the host (U16).
  bool named = false;
  bool delta = false;
};
static_assert(sizeof(State) == 40);

// A unit tells the unit that it took a flow's state over from, and the
// controller, that `clock` has been processed at `taker`: copies that have
// applied less are no longer needed (U7). The old unit acknowledges.
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

// A unit tells the controller that a timer of the NF is due in a flow that it
// owns, of which it has applied all clocks up to `applied` (U11). The answer is
// a timer packet, with the next clock; there is none if the flow had a packet
// meanwhile, for then its unit asks again.
struct TimerDue {
  FlowId flow{};
  Clock applied{};
  UnitId unit = kNoUnit;
};

// The controller tells the owner that the flow has been idle for its timeout,
// and that `last` was its last clock. The unit forgets the flow once it has
// applied `last`.
struct EndFlow {
  FlowId flow{};
  Clock last{};
};

// A unit reports to the controller the packets that left it since its last
// report; their slots of the channel are free again.
struct DrainReport {
  UnitId unit = kNoUnit;
  uint32_t packets = 0;
  uint64_t bytes = 0;  // original lengths
};

// A unit that handles the packet of `clock` asks the controller to take packets
// that come to `key` for the flow's as well (U9, proto/decisions.md 20). It
// replaces the flow's alias before. At most `group_limit` flows of one group
// may have an alias; 0 sets no limit. Until the answer, the unit neither
// releases the packet nor runs another of the flow.
struct Alias {
  FlowKey key;
  FlowId flow{};
  Clock clock{};
  uint64_t group = 0;  // the NF's own number, of an inside host say
  uint32_t group_limit = 0;
  UnitId unit = kNoUnit;  // asks
  uint16_t reserved = 0;
};
static_assert(sizeof(Alias) == 72);

enum class AliasResult : uint8_t {
  kGranted,
  kConflict,   // another flow has this alias
  kGroupFull,  // the group has as many aliases as it may
  kUnknown,    // the controller knows no such flow
};

// The controller answers the unit that asked for an alias.
struct AliasAck {
  FlowId flow{};
  Clock clock{};
  AliasResult result = AliasResult::kGranted;
};

// A unit passes on a note of its NF about a flow, made at `clock`, to the
// controller. The note does not overtake the aliases that the unit asked for
// before.
struct FlowNote {
  FlowId flow{};
  Clock clock{};
  // The flow ends after this time without packets, instead of after the
  // controller's flow_timeout. A value below 0 changes nothing.
  Nanos idle_timeout{-1};
  // The flow loses its alias, and ends unless packets of it came since `clock`
  // (proto/decisions.md 16).
  bool over = false;
};

// Pools of pieces that an NF, or a whole chain of NFs, may have at most: they
// are numbered from 0 in 16 bits, of which one value stays free to mean none.
inline constexpr size_t kMaxPools = 65'535;

// Grants a unit pieces of a pool, or returns them to the controller
// (proto/decisions.md 18). A pool is a resource that is split among flows, such
// as the ports of an address. Each piece lies at one place: the controller, the
// set of a unit, or the state of a flow. A piece freed at a unit is that
// unit's. Bit i of `mask` stands for piece 64 · word + i.
struct PieceBlock {
  uint32_t word = 0;
  uint16_t pool = 0;
  UnitId unit = kNoUnit;  // gets or returns them
  uint64_t mask = 0;
};
static_assert(sizeof(PieceBlock) == 16);

// A unit asks the controller for pieces of a pool, with one request open for
// each pool. The answer is a PieceBlock; its mask is 0 if none are left. If no
// packet waits for them, the unit asks ahead of need: then other units are not
// asked to return theirs.
struct PieceRequest {
  uint16_t pool = 0;
  UnitId unit = kNoUnit;
  bool is_ahead = false;
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
              std::is_trivially_copyable_v<TimerDue> &&
              std::is_trivially_copyable_v<EndFlow> &&
              std::is_trivially_copyable_v<DrainReport>);

}  // namespace snf

#endif  // SNF_BASE_MESSAGES_MESSAGES_H_
