// SPDX-License-Identifier: Apache-2.0
#include "runtime/shell/entry_maker.h"

#include <cstring>
#include <new>
#include <utility>

#include "runtime/logger/table_update.h"

namespace snf {
namespace {

// Returns nothing for a command that does not say what a clock did with its
// packet.
std::optional<LogEntry::Outcome> LoggedOutcome(const UnitCommand& command) {
  using Kind = UnitCommand::Kind;
  using Outcome = LogEntry::Outcome;
  switch (command.kind) {
    case Kind::kRelease:
      return Outcome::kRelease;
    case Kind::kNfDrop:
      return Outcome::kNfDrop;
    case Kind::kConsume:
      return Outcome::kConsume;
    case Kind::kDrop:
    case Kind::kAdvance:
      // A duplicate is of a clock that was applied before.
      if (command.reason == DropReason::kDuplicateClock) return std::nullopt;
      // Nor does one of a flow that is given up.
      if (command.reason == DropReason::kUnitFailed) return std::nullopt;
      return command.kind == Kind::kDrop ? Outcome::kDrop : Outcome::kNone;
    default:
      return std::nullopt;
  }
}

}  // namespace

EntryMaker::EntryMaker(uint32_t incarnation, const StateSchema& schema,
                       std::span<const TableShape> tables)
    : schema_(&schema), incarnation_(incarnation), updates_(tables.size()) {
  bytes_.resize(MaxLogEntryBytes(schema, tables));
  parts_.updates.reserve(MaxUpdateBytes(tables));
  parts_.pieces.reserve(kMaxPieceUses);
  parts_.emitted.reserve(kMaxLogEmits);
}

EntryMaker::Taken EntryMaker::Take(const UnitCommand& command,
                                   const Unit& unit) {
  using Kind = UnitCommand::Kind;
  if (const auto outcome = LoggedOutcome(command); outcome.has_value()) {
    parts_.packet = command.packet;
    parts_.outcome = *outcome;
    parts_.reason = command.reason;
    parts_.nf_reason = command.nf_reason;
    return Taken::kPart;
  }
  switch (command.kind) {
    case Kind::kEmit:
      parts_.emitted.push_back(command.packet);
      return Taken::kPart;
    case Kind::kSendNote:
      parts_.over |= command.note.over;
      if (command.note.idle_timeout.ns >= 0) {
        parts_.idle_timeout = command.note.idle_timeout;
      }
      return Taken::kPart;
    case Kind::kSendAlias:
      parked_ = command.meta.flow;
      parts_.alias = unit.alias(parked_);
      Append(unit);
      return Taken::kNot;
    case Kind::kLog:
      Join(command.meta.flow);
      Append(unit);
      MakeClock(command.meta, unit.change());
      return Taken::kEntry;
    case Kind::kPiecesCame:
      MakeBlock(LogEntry::Kind::kGrant, command.pieces);
      return Taken::kEntry;
    case Kind::kReturnPieces:
      MakeBlock(LogEntry::Kind::kReturn, command.pieces);
      return Taken::kEntry;
    case Kind::kSendTakeoverAck: {
      Begin(LogEntry::Kind::kForget, command.takeover_ack.flow,
            command.takeover_ack.clock)
          .block.unit = command.unit;
      End();
      return Taken::kEntry;
    }
    default:
      return Taken::kNot;
  }
}

void EntryMaker::EndCall() {
  if (parked_ == kNoFlow) return;
  waiting_[parked_] = std::exchange(parts_, {});
  parked_ = kNoFlow;
}

void EntryMaker::on_alias_ack(const AliasAck& ack) {
  const auto waiting = waiting_.find(ack.flow);
  if (waiting == waiting_.end() || !waiting->second.alias.has_value()) return;
  if (waiting->second.alias->clock == ack.clock &&
      ack.result != AliasResult::kGranted) {
    waiting->second.alias.reset();
  }
}

void EntryMaker::MakeTold(uint64_t number) {
  Begin(LogEntry::Kind::kTold, kNoFlow, {}).argument = number;
  End();
}

void EntryMaker::MakeEnded(FlowId flow, Clock clock) {
  Begin(LogEntry::Kind::kEnded, flow, clock);
  End();
}

std::vector<std::byte> EntryMaker::StandIn(const LogEntryView& entry,
                                           const Unit& unit) const {
  LogEntry header = *entry;
  std::vector<PieceUse> pieces;
  for (size_t i = 0; i < header.pieces; ++i) pieces.push_back(entry.piece(i));
  std::vector<PacketHandle> emitted;
  for (size_t i = 0; i < header.emitted; ++i) {
    emitted.push_back(entry.emitted(i));
  }
  std::span<const std::byte> state = entry.delta();
  const Unit::Change whole = header.kind == LogEntry::Kind::kClock
                                 ? unit.whole(header.meta.flow)
                                 : Unit::Change{};
  if (whole.clock >= header.meta.clock && whole.clock > Clock{}) {
    header.flags |= LogEntry::kWhole;
    header.state = whole.clock;
    header.timer = whole.timer;
    header.link = whole.link;
    header.delta_bytes = static_cast<uint32_t>(whole.bytes.size());
    state = whole.bytes;
  }
  Alias alias;
  if (header.is(LogEntry::kHasAlias)) alias = entry.alias();
  std::vector<std::byte> bytes(bytes_.size());
  bytes.resize(WriteLogEntry(header, pieces, emitted,
                             header.is(LogEntry::kHasAlias) ? &alias : nullptr,
                             state, bytes, entry.updates()));
  return bytes;
}

void EntryMaker::Append(const Unit& unit) {
  const std::span<const PieceUse> pieces = unit.piece_uses();
  parts_.pieces.insert(parts_.pieces.end(), pieces.begin(), pieces.end());
  const std::span<const std::byte> updates = unit.table_updates();
  parts_.updates.insert(parts_.updates.end(), updates.begin(), updates.end());
}

std::span<const std::byte> EntryMaker::updates() const {
  const LogEntry& entry = header();
  const size_t at = sizeof entry + entry.pieces * sizeof(PieceUse) +
                    entry.emitted * sizeof(PacketHandle);
  return this->entry().subspan(at, entry.update_bytes());
}

// Updates get their numbers as late as their entry does, so that both have one
// order.
void EntryMaker::NumberUpdates() {
  size_t at = 0;
  while (at < parts_.updates.size()) {
    auto update = LoadAs<TableUpdate>(&parts_.updates[at]);
    update.number = ++updates_[update.table];
    std::memcpy(&parts_.updates[at], &update, sizeof update);
    at += sizeof update + update.words * sizeof(uint64_t);
  }
}

// Puts the parts of the earlier call, which asked for the alias, in front.
void EntryMaker::Join(FlowId flow) {
  if (waiting_.empty()) return;
  const auto waiting = waiting_.find(flow);
  if (waiting == waiting_.end()) return;
  Parts& first = waiting->second;
  parts_.pieces.insert(parts_.pieces.begin(), first.pieces.begin(),
                       first.pieces.end());
  parts_.emitted.insert(parts_.emitted.begin(), first.emitted.begin(),
                        first.emitted.end());
  parts_.updates.insert(parts_.updates.begin(), first.updates.begin(),
                        first.updates.end());
  parts_.alias = first.alias;
  parts_.over |= first.over;
  if (parts_.idle_timeout.ns < 0) parts_.idle_timeout = first.idle_timeout;
  waiting_.erase(waiting);
}

// Makes the header of a new entry where the entry will be.
LogEntry& EntryMaker::Begin(LogEntry::Kind kind, FlowId flow, Clock clock) {
  LogEntry& entry = *new (bytes_.data()) LogEntry;
  entry.number = ++number_;
  entry.meta.flow = flow;
  entry.meta.clock = clock;
  entry.schema = schema_->hash();
  entry.incarnation = incarnation_;
  entry.kind = kind;
  return entry;
}

void EntryMaker::MakeClock(const PacketMeta& meta, const Unit::Change& change) {
  LogEntry& entry = Begin(LogEntry::Kind::kClock, meta.flow, meta.clock);
  entry.meta = meta;
  entry.base = Clock{value(meta.clock) - 1};
  entry.state = meta.clock;
  entry.timer = change.timer;
  entry.idle_timeout = parts_.idle_timeout;
  entry.packet = parts_.packet;
  entry.delta_bytes = static_cast<uint32_t>(change.bytes.size());
  entry.outcome = parts_.outcome;
  entry.reason = parts_.reason;
  entry.nf_reason = parts_.nf_reason;
  entry.link = change.link;
  const auto set = [&](bool is, uint8_t flag) {
    entry.flags |= is ? flag : uint8_t{0};
  };
  set(change.is_whole, LogEntry::kWhole);
  set(parts_.alias.has_value(), LogEntry::kHasAlias);
  set(parts_.over, LogEntry::kOver);
  set((meta.flags & PacketMeta::kEnd) != 0, LogEntry::kEnd);
  NumberUpdates();
  entry.argument = parts_.updates.size();
  entry.pieces = static_cast<uint16_t>(parts_.pieces.size());
  entry.emitted = static_cast<uint8_t>(parts_.emitted.size());
  size_ = WriteLogEntry(entry, parts_.pieces, parts_.emitted,
                        parts_.alias.has_value() ? &*parts_.alias : nullptr,
                        change.bytes, bytes_, parts_.updates);
  parts_.updates.clear();
  parts_.pieces.clear();
  parts_.emitted.clear();
  parts_.alias.reset();
  parts_.idle_timeout = Nanos{-1};
  parts_.over = false;
  parts_.packet = kNoPacket;
  parts_.outcome = LogEntry::Outcome::kNone;
}

void EntryMaker::MakeBlock(LogEntry::Kind kind, const PieceBlock& block) {
  LogEntry& entry = Begin(kind, kNoFlow, {});
  entry.block = block;
  if (kind == LogEntry::Kind::kGrant) entry.argument = ++grants_;
  End();
}

// Ends an entry that is a header only.
void EntryMaker::End() { size_ = sizeof(LogEntry); }

}  // namespace snf
