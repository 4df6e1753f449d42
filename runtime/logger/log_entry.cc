// SPDX-License-Identifier: Apache-2.0
#include "runtime/logger/log_entry.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "runtime/logger/delta.h"
#include "runtime/logger/table_update.h"

namespace snf {
namespace {

size_t TailBytes(const LogEntry& entry) {
  return entry.pieces * sizeof(PieceUse) +
         entry.emitted * sizeof(PacketHandle) + entry.update_bytes() +
         (entry.is(LogEntry::kHasAlias) ? sizeof(Alias) : 0) +
         size_t{entry.delta_bytes};
}

bool IsHandle(PacketHandle packet, uint32_t packets) {
  return value(packet) < packets;
}

// Returns true if the packet is possible with the entry's outcome.
bool HasPossiblePacket(const LogEntry& entry, uint32_t packets) {
  if (entry.outcome == LogEntry::Outcome::kNone) {
    return entry.packet == kNoPacket;
  }
  return IsHandle(entry.packet, packets) && !entry.is(LogEntry::kPacketsLost);
}

bool IsPossibleClock(const LogEntry& entry, const LogEntryLimits& limits) {
  if (entry.schema != limits.schema || value(entry.meta.clock) == 0) {
    return false;
  }
  if (entry.meta.flow == kNoFlow || entry.state < entry.meta.clock) {
    return false;
  }
  if (entry.is(LogEntry::kPacketsLost) && entry.emitted > 0) return false;
  // A delta is the change of a single clock.
  return entry.is(LogEntry::kWhole) ||
         (entry.state == entry.meta.clock && entry.base + 1 == entry.state);
}

// The other kinds have nothing of a clock.
bool IsPossibleOther(const LogEntry& entry, const LogEntryLimits& limits) {
  if (entry.flags != 0 || entry.pieces != 0 || entry.emitted != 0 ||
      entry.delta_bytes != 0 || entry.idle_timeout.ns >= 0 ||
      entry.outcome != LogEntry::Outcome::kNone) {
    return false;
  }
  switch (entry.kind) {
    case LogEntry::Kind::kGrant:
    case LogEntry::Kind::kReturn:
      return entry.block.pool < limits.pools;
    case LogEntry::Kind::kUpdates:
      return true;
    case LogEntry::Kind::kTold:
      return entry.argument < entry.number;
    default:
      return entry.meta.flow != kNoFlow;
  }
}

bool IsPossible(const LogEntry& entry, const LogEntryLimits& limits) {
  if (entry.kind >= LogEntry::Kind::kCount ||
      entry.outcome >= LogEntry::Outcome::kCount ||
      entry.reason >= DropReason::kCount || !IsLinkType(entry.link) ||
      (entry.flags & ~LogEntry::kAllFlags) != 0 || entry.number == 0 ||
      entry.pieces > kMaxPieceUses || entry.emitted > kMaxLogEmits ||
      entry.delta_bytes > limits.max_delta_bytes ||
      entry.update_bytes() > limits.max_update_bytes ||
      !HasPossiblePacket(entry, limits.packets)) {
    return false;
  }
  return entry.kind == LogEntry::Kind::kClock ? IsPossibleClock(entry, limits)
                                              : IsPossibleOther(entry, limits);
}

uint32_t MostBytesOfState(const StateSchema& schema) {
  return std::max(schema.record_bytes(), MaxDeltaBytes(schema));
}

}  // namespace

uint32_t MaxLogEntryBytes(const StateSchema& schema,
                          std::span<const TableShape> tables) {
  return static_cast<uint32_t>(
             sizeof(LogEntry) + kMaxPieceUses * sizeof(PieceUse) +
             kMaxLogEmits * sizeof(PacketHandle) + sizeof(Alias)) +
         MostBytesOfState(schema) + MaxUpdateBytes(tables);
}

std::optional<LogEntryView> LogEntryView::Parse(
    const LogEntryLimits& limits, std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(LogEntry)) return std::nullopt;
  LogEntryView view;
  view.entry_ = LoadAs<LogEntry>(bytes.data());
  view.tail_ = bytes.subspan(sizeof(LogEntry));
  const LogEntry& entry = view.entry_;
  if (!IsPossible(entry, limits) || view.tail_.size() != TailBytes(entry)) {
    return std::nullopt;
  }
  for (size_t i = 0; i < entry.pieces; ++i) {
    const PieceUse use = view.piece(i);
    if (use.pool >= limits.pools || use.gives > 1) return std::nullopt;
  }
  for (size_t i = 0; i < entry.emitted; ++i) {
    if (!IsHandle(view.emitted(i), limits.packets)) return std::nullopt;
  }
  if (!AreUpdates(view.updates())) return std::nullopt;
  return view;
}

uint32_t WriteLogEntry(const LogEntry& entry, std::span<const PieceUse> pieces,
                       std::span<const PacketHandle> emitted,
                       const Alias* alias, std::span<const std::byte> delta,
                       std::span<std::byte> to,
                       std::span<const std::byte> updates) {
  SNF_CHECK(entry.pieces == pieces.size() && entry.emitted == emitted.size());
  SNF_CHECK(entry.delta_bytes == delta.size());
  SNF_CHECK(entry.update_bytes() == updates.size());
  SNF_CHECK(entry.is(LogEntry::kHasAlias) == (alias != nullptr));
  const size_t bytes = sizeof entry + TailBytes(entry);
  SNF_CHECK(bytes <= to.size());
  std::byte* next = to.data();
  const auto write = [&](const void* from, size_t size) {
    if (size == 0) return;
    std::memcpy(next, from, size);
    next += size;
  };
  if (to.data() == reinterpret_cast<const std::byte*>(&entry)) {
    next += sizeof entry;
  } else {
    write(&entry, sizeof entry);
  }
  write(pieces.data(), pieces.size_bytes());
  write(emitted.data(), emitted.size_bytes());
  write(updates.data(), updates.size());
  if (alias != nullptr) write(alias, sizeof *alias);
  write(delta.data(), delta.size());
  return static_cast<uint32_t>(bytes);
}

}  // namespace snf
