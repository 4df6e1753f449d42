// SPDX-License-Identifier: Apache-2.0
#include "runtime/logger/update_log.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "runtime/logger/logger_rules.h"

namespace snf {

UpdateLog::UpdateLog(std::span<const TableShape> tables) {
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
    Update& added = table.updates.emplace_back(
        Update{.entry = entry, .is_rest = update.is_rest != 0, .words = {}});
    added.words.resize(update.words);
    std::memcpy(added.words.data(), words, update.words * sizeof(uint64_t));
    ++kept_;
  });
}

void UpdateLog::BeginBehind(uint16_t table, uint64_t number) {
  SNF_CHECK(tables_[table].updates.empty());
  tables_[table].merged = number;
}

void UpdateLog::on_merged(uint16_t table, uint64_t number) {
  Table& merged = tables_[table];
  while (merged.merged < number && !merged.updates.empty()) {
    merged.updates.pop_front();
    ++merged.merged;
    --kept_;
  }
}

void UpdateLog::on_entries_merged(uint64_t entry) {
  for (uint16_t i = 0; i < tables_.size(); ++i) {
    const std::deque<Update>& updates = tables_[i].updates;
    while (!updates.empty() && updates.front().entry <= entry) {
      on_merged(i, merged(i) + 1);
    }
  }
}

void UpdateLog::EndIncarnation() {
  for (Table& table : tables_) {
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
