// SPDX-License-Identifier: Apache-2.0
#include "runtime/logger/log_keeper.h"

#include <algorithm>
#include <array>

namespace snf {

LogKeeper::LogKeeper(const StateSchema& schema,
                     std::span<const NetworkFunction::Pool> pools,
                     std::span<const TableShape> tables)
    : schema_(schema.hash()), updates_(tables) {
  for (const NetworkFunction::Pool& pool : pools) {
    pools_.emplace_back(pool.words());
  }
}

void LogKeeper::on_made(const LogEntryView& entry) {
  last_ = entry->number;
  const PieceBlock& block = entry->block;
  for (size_t i = 0; i < entry->pieces; ++i) Use(entry.piece(i));
  updates_.Add(entry->number, entry.updates());
  switch (entry->kind) {
    case LogEntry::Kind::kGrant:
      pools_[block.pool].Add(block.word, block.mask);
      last_grant_ = entry->argument;
      break;
    case LogEntry::Kind::kReturn:
      pools_[block.pool].Remove(block.word, block.mask);
      break;
    case LogEntry::Kind::kTold:
      on_told(entry->argument);
      break;
    case LogEntry::Kind::kEnded:
      ends_.erase(entry->meta.flow);
      break;
    default:
      break;
  }
  if (entry->is(LogEntry::kEnd)) {
    ends_[entry->meta.flow] = {entry->number, entry->meta.clock};
  }
  if (entry->tells()) tells_.push_back(*entry);
}

void LogKeeper::on_told(uint64_t number) {
  while (!tells_.empty() && tells_.front().number <= number) {
    tells_.pop_front();
  }
}

void LogKeeper::Use(PieceUse use) {
  PieceSet& set = pools_[use.pool];
  const uint64_t mask = uint64_t{1} << use.piece % 64;
  if (use.gives != 0) {
    set.Add(use.piece / 64, mask);
  } else {
    set.Remove(use.piece / 64, mask);
  }
}

void LogKeeper::ForEach(uint32_t incarnation, uint64_t released,
                        const Visit& visit) const {
  LogEntry entry;
  entry.incarnation = incarnation;
  entry.schema = schema_;
  ShowUpdates(entry, visit);
  if (last_ == 0) return;
  ShowPieces(entry, visit);
  for (const auto& [flow, end] : ends_) {
    const bool is_released = end.number <= released;
    LogEntry mark = entry;
    mark.number = end.number;
    mark.meta.flow = flow;
    mark.meta.clock = mark.state = end.clock;
    mark.base = is_released ? end.clock : Clock{value(end.clock) - 1};
    mark.flags = LogEntry::kWhole | LogEntry::kEnd;
    Show(mark, visit);
  }
  for (const LogEntry& told : tells_) {
    LogEntry tell = entry;
    tell.number = told.number;
    tell.kind = told.kind;
    tell.meta = told.meta;
    tell.idle_timeout = told.idle_timeout;
    tell.block = told.block;
    if (tell.kind == LogEntry::Kind::kClock) {
      tell.base = Clock{value(told.meta.clock) - 1};
      tell.state = told.meta.clock;
      tell.flags = told.flags & (LogEntry::kOver | LogEntry::kEnd);
    }
    Show(tell, visit);
  }
}

void LogKeeper::ShowPieces(LogEntry entry, const Visit& visit) const {
  entry.number = last_;
  entry.kind = LogEntry::Kind::kGrant;
  entry.argument = last_grant_;
  for (uint16_t pool = 0; pool < pools_.size(); ++pool) {
    const PieceSet& set = pools_[pool];
    for (uint32_t word = 0; word < set.words(); ++word) {
      // The first word comes even if it has none: the last grant's number does.
      if (set.word(word) == 0 && word > 0) continue;
      entry.block = {.word = word, .pool = pool, .mask = set.word(word)};
      Show(entry, visit);
    }
  }
}

// Shows first the number behind which a table's updates begin.
void LogKeeper::ShowUpdates(LogEntry entry, const Visit& visit) const {
  entry.kind = LogEntry::Kind::kUpdates;
  std::vector<std::byte> update;
  std::vector<std::byte> bytes;
  for (uint16_t table = 0; table < updates_.tables(); ++table) {
    const uint64_t number = updates_.merged(table).number;
    entry.number = std::max<uint64_t>(last_, 1);
    entry.block = {.pool = table, .mask = number};
    entry.argument = 0;
    Show(entry, visit);
    for (const UpdateLog::Update& kept : updates_.updates(table)) {
      const TableUpdate header = {
          .number = kept.at.number,
          .table = table,
          .is_rest = kept.is_rest ? uint8_t{1} : uint8_t{0},
          .erases = kept.erases ? uint8_t{1} : uint8_t{0},
          .words = static_cast<uint32_t>(kept.words.size())};
      update.clear();
      AppendUpdate(header, kept.words.data(), update);
      entry.number = kept.entry;
      entry.argument = update.size();
      bytes.resize(sizeof entry + update.size());
      WriteLogEntry(entry, {}, {}, nullptr, {}, bytes, update);
      visit(bytes);
    }
  }
}

void LogKeeper::Show(const LogEntry& entry, const Visit& visit) {
  std::array<std::byte, sizeof(LogEntry)> bytes;
  const uint32_t size = WriteLogEntry(entry, {}, {}, nullptr, {}, bytes);
  visit(std::span(bytes).first(size));
}

}  // namespace snf
