// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LOGGER_LOG_ENTRY_H_
#define SNF_RUNTIME_LOGGER_LOG_ENTRY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

#include "base/byte_order.h"
#include "base/ids.h"
#include "base/messages/drop_reason.h"
#include "base/messages/messages.h"
#include "base/packet/link_type.h"
#include "base/time.h"
#include "runtime/sdk/state.h"
#include "runtime/sdk/state_schema.h"
#include "runtime/sdk/table_copy.h"

namespace snf {

// Theory of operation. A unit sends its logger one entry for each clock that it
// applied, and one for each other change of what both keep (proto/protocol.md
// L1, U12, U13). An entry is this header and, without gaps, `pieces` PieceUses,
// `emitted` packet handles of 4 bytes, updates of shared tables
// (table_update.h), an Alias if kHasAlias is set, and `delta_bytes` of state: a
// delta (delta.h), or the record without the zeros at its end if the entry is
// whole. Integers are in the machine's byte order.
//
// Worked example: clock 5 of flow 7 counts a packet and takes a port. Its entry
// is 144 bytes of header (base 4, clock 5, state 5), 8 of a PieceUse, and 24 of
// a delta with one slot.
//
// Entries of one incarnation are numbered 1, 2, 3 … A number keeps its entry,
// but where the entry was lost or refused, another takes its place: whole, and
// possibly without its packets (kPacketsLost) and of a newer `state` than its
// clock, since the unit may have processed more packets (L4).
struct LogEntry {
  enum class Kind : uint8_t {
    kClock,    // `meta.clock` of `meta.flow` was applied
    kForget,   // a Takeover of `meta.clock` of the flow came from `block.unit`
    kEnded,    // the controller acknowledged the end of the flow at that clock
    kGrant,    // the unit got the pieces of `block`; `argument` numbers the
               // grants
    kReturn,   // the pieces of `block` go back to the controller
    kTold,     // the controller acknowledged the messages of entries up to
               // `argument`
    kUpdates,  // for Restore: updates of tables that are not at a home yet; of
               // table `block.pool`, the first `block.mask` are
    kCount,
  };
  // The outcome of the packet.
  enum class Outcome : uint8_t {
    kNone,  // there was none, or only a clock (a tombstone, a null packet)
    kRelease,
    kNfDrop,  // for `nf_reason`
    kDrop,    // for `reason`
    kConsume,
    kCount,
  };

  uint64_t number = 0;
  PacketMeta meta;  // of the packet; only flow and clock for other kinds
  Clock base{};     // of a partial delta
  Clock state{};    // of the state that the bytes lead to
  Instant timer = Instant::max();  // the NF's timer, as of `state`
  Nanos idle_timeout{-1};          // as in FlowNote
  uint64_t schema = 0;             // StateSchema::hash()
  uint64_t argument = 0;     // see Kind; of kClock: bytes of table updates
  PieceBlock block;          // see Kind
  uint32_t incarnation = 0;  // of the unit
  PacketHandle packet = kNoPacket;
  uint32_t delta_bytes = 0;
  Kind kind = Kind::kClock;
  Outcome outcome = Outcome::kNone;
  DropReason reason{};
  uint8_t nf_reason = 0;
  LinkType link = LinkType::kEthernet;
  uint8_t flags = 0;
  uint16_t pieces = 0;
  uint8_t emitted = 0;
  std::array<uint8_t, 3> reserved{};

  // Bits of `flags`.
  static constexpr uint8_t kWhole = 1 << 0;        // the record, not a delta
  static constexpr uint8_t kPacketsLost = 1 << 1;  // it had packets
  static constexpr uint8_t kHasAlias = 1 << 2;
  static constexpr uint8_t kOver = 1 << 3;  // FlowNote::over
  static constexpr uint8_t kEnd = 1 << 4;   // an end packet: a mark stays (U11)
  static constexpr uint8_t kAllFlags = (1 << 5) - 1;

  bool is(uint8_t flag) const { return (flags & flag) != 0; }
  // Returns the bytes that updates of shared tables take in the entry.
  uint64_t update_bytes() const {
    return kind == Kind::kClock || kind == Kind::kUpdates ? argument : 0;
  }
  // Returns true if the entry has a message for the controller, which
  // acknowledges it by the entry's number.
  bool tells() const {
    return kind == Kind::kReturn || is(kOver | kEnd) || idle_timeout.ns >= 0;
  }
};
static_assert(sizeof(LogEntry) == 144);
static_assert(std::is_trivially_copyable_v<LogEntry>);

// A piece that the NF took out of the unit's set, or gave to it.
struct PieceUse {
  uint32_t piece = 0;
  uint16_t pool = 0;
  uint16_t gives = 0;  // 0 or 1
};
static_assert(sizeof(PieceUse) == 8);

// Most piece uses of an entry: a chain that ends gives back the pieces of all
// its connections.
inline constexpr size_t kMaxPieceUses = 2'048;
inline constexpr size_t kMaxLogEmits = 2 * size_t{FlowState::kMaxEmits};

// Returns the bytes that an entry takes at most, with updates of `tables`.
uint32_t MaxLogEntryBytes(const StateSchema& schema,
                          std::span<const TableShape> tables = {});

// The limits that the parts of a valid entry obey.
struct LogEntryLimits {
  uint64_t schema = 0;           // StateSchema::hash()
  uint32_t max_delta_bytes = 0;  // a whole or partial delta's
  uint32_t packets = 0;          // handles are below it
  uint16_t pools = 0;
  uint32_t max_update_bytes = 0;
};

// An entry that was read, as far as it can be judged by itself. It refers to
// the bytes that it was read from.
class LogEntryView {
 public:
  // Reads an entry that takes all of the bytes. They come from elsewhere:
  // returns nothing if a length, kind, flag, reason, handle or pool cannot be.
  static std::optional<LogEntryView> Parse(const LogEntryLimits& limits,
                                           std::span<const std::byte> bytes);

  const LogEntry& operator*() const { return entry_; }
  const LogEntry* operator->() const { return &entry_; }
  PieceUse piece(size_t i) const {
    return LoadAs<PieceUse>(&tail_[i * sizeof(PieceUse)]);
  }
  PacketHandle emitted(size_t i) const {
    return LoadAs<PacketHandle>(
        &tail_[entry_.pieces * sizeof(PieceUse) + i * sizeof(PacketHandle)]);
  }
  // There must be one.
  Alias alias() const {
    return LoadAs<Alias>(
        &tail_[tail_.size() - entry_.delta_bytes - sizeof(Alias)]);
  }
  // Returns the updates of shared tables (ForEachUpdate).
  std::span<const std::byte> updates() const {
    return tail_.subspan(entry_.pieces * sizeof(PieceUse) +
                             entry_.emitted * sizeof(PacketHandle),
                         entry_.update_bytes());
  }
  std::span<const std::byte> delta() const {
    return tail_.last(entry_.delta_bytes);
  }

 private:
  LogEntry entry_;
  std::span<const std::byte> tail_;  // the parts behind the header
};

// Writes an entry to `to`, which has room for it, and may begin with `entry`.
// The counts and lengths of `entry` must be those of the parts; `alias` is null
// without kHasAlias. Returns the bytes written. No allocation.
uint32_t WriteLogEntry(const LogEntry& entry, std::span<const PieceUse> pieces,
                       std::span<const PacketHandle> emitted,
                       const Alias* alias, std::span<const std::byte> delta,
                       std::span<std::byte> to,
                       std::span<const std::byte> updates = {});

}  // namespace snf

#endif  // SNF_RUNTIME_LOGGER_LOG_ENTRY_H_
