// SPDX-License-Identifier: Apache-2.0
#include "runtime/logger/update_log.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "runtime/logger/logger_rules.h"

namespace snf {

UpdateLog::UpdateLog(std::span<const TableShape> tables, uint32_t incarnation)
    : incarnation_(incarnation) {
  for (const TableShape& table : tables) tables_.push_back({.shape = table});
}

bool UpdateLog::Follows(std::span<const std::byte> updates) const {
  if (updates.empty()) return true;
  std::vector<uint64_t> newest;
  for (uint16_t i = 0; i < tables_.size(); ++i)
    newest.push_back(this->newest(i));
  bool follows = true;
  ForEachUpdate(updates, [&](const TableUpdate& update, const std::byte*) {
    follows = follows && update.table < tables_.size() &&
              update.words == tables_[update.table].shape.entry_words() &&
              update.number <= newest[update.table] + 1;
    if (!follows) return;
    newest[update.table] = std::max(newest[update.table], update.number);
  });
  return follows;
}

void UpdateLog::Add(uint64_t entry, std::span<const std::byte> updates) {
  ForEachUpdate(updates, [&](const TableUpdate& update,
                             const std::byte* words) {
    if (SNF_LOGGER_RULE(kUpdateOnce, update.number <= newest(update.table))) {
      return;
    }
    Table& table = tables_[update.table];
    table.newest = update.number;
    Update& added = table.updates.emplace_back(
        Update{.entry = entry,
               .at = {.incarnation = incarnation_, .number = update.number},
               .is_rest = update.is_rest != 0,
               .erases = update.erases != 0,
               .words = {}});
    added.words.resize(update.words);
    std::memcpy(added.words.data(), words, update.words * sizeof(uint64_t));
    ++kept_;
  });
}

void UpdateLog::BeginBehind(uint16_t table, uint64_t number) {
  SNF_CHECK(tables_[table].updates.empty());
  tables_[table].newest = number;
}

UpdateLog::Position UpdateLog::merged(uint16_t table) const {
  const Table& of = tables_[table];
  if (of.updates.empty()) return {incarnation_, of.newest};
  const Position first = of.updates.front().at;
  return {first.incarnation, first.number - 1};
}

void UpdateLog::PopFront(Table& table) {
  table.updates.pop_front();
  ++table.gone;
  --kept_;
}

void UpdateLog::on_merged(uint16_t table, Position last) {
  Table& merged = tables_[table];
  while (!merged.updates.empty() && merged.updates.front().at <= last) {
    PopFront(merged);
  }
}

void UpdateLog::on_entries_merged(uint64_t entry) {
  for (Table& table : tables_) {
    while (!table.updates.empty() && table.updates.front().entry <= entry) {
      PopFront(table);
    }
  }
}

void UpdateLog::Begin(uint32_t incarnation) {
  incarnation_ = incarnation;
  for (Table& table : tables_) {
    table.newest = 0;
    for (Update& update : table.updates) update.entry = 0;
  }
}

bool UpdateLog::has_earlier() const {
  return std::ranges::any_of(tables_, [](const Table& table) {
    return !table.updates.empty() && table.updates.front().entry == 0;
  });
}

uint64_t UpdateLog::entries_merged(uint64_t taken) const {
  for (const Table& table : tables_) {
    if (table.updates.empty()) continue;
    const uint64_t entry = table.updates.front().entry;
    taken = std::min(taken, entry == 0 ? 0 : entry - 1);
  }
  return taken;
}

}  // namespace snf
