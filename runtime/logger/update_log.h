// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LOGGER_UPDATE_LOG_H_
#define SNF_RUNTIME_LOGGER_UPDATE_LOG_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "runtime/logger/table_update.h"
#include "runtime/sdk/table_copy.h"

namespace snf {

// Theory of operation. Keeps a unit's updates of shared tables until the homes
// of the tables have merged them (proto/protocol.md §8). A logger has one, from
// which it sends the updates to the homes; its unit has another, from which a
// new logger gets the updates of a failed one. The updates of a table are
// numbered 1, 2, 3 … in each incarnation of the unit, and a number counts once.
// Updates of an earlier incarnation stay in front of later updates.
//
// Worked example: entry 5 has the updates 8 and 9 of a table, and entry 6 has
// 10. The home says that it has merged all up to 9: the log keeps 10, and all
// updates of entries up to 5 are merged.
//
// A value; owner-thread only. Memory grows with the updates that are kept.
class UpdateLog {
 public:
  // A logger that keeps this many updates takes no further ones for now.
  static constexpr size_t kMaxUpdates = 65'536;

  // The place of an update among all of its unit and table.
  struct Position {
    uint32_t incarnation = 0;
    uint64_t number = 0;
    auto operator<=>(const Position&) const = default;
  };
  struct Update {
    uint64_t entry;  // its number; 0 if it is of an earlier incarnation
    Position at;
    bool is_rest;
    bool erases;                  // the value so far goes into the rest first
    std::vector<uint64_t> words;  // the key and the delta
  };

  explicit UpdateLog(std::span<const TableShape> tables = {},
                     uint32_t incarnation = 0);

  // Returns true if an entry may have these updates: their tables exist, and
  // their numbers are known or next.
  bool Follows(std::span<const std::byte> updates) const;
  // Adds an entry's updates that are not known; Follows() must be true.
  void Add(uint64_t entry, std::span<const std::byte> updates);
  // Begins a table's updates behind this number. Nothing of it may be here.
  void BeginBehind(uint16_t table, uint64_t number);
  // The table's home has merged the updates up to this one.
  void on_merged(uint16_t table, Position last);
  // The homes have merged all updates of entries up to this number.
  void on_entries_merged(uint64_t entry);
  // The incarnation has ended; entries and updates of the next one begin with
  // 1.
  void Begin(uint32_t incarnation);

  size_t tables() const { return tables_.size(); }
  const TableShape& shape(uint16_t table) const { return tables_[table].shape; }
  // The updates of a table that are kept are those behind merged(), up to the
  // number newest() of this incarnation.
  Position merged(uint16_t table) const;
  uint64_t newest(uint16_t table) const { return tables_[table].newest; }
  // Count the updates of a table that have been added and merged so far.
  uint64_t added(uint16_t table) const {
    return tables_[table].gone + tables_[table].updates.size();
  }
  uint64_t gone(uint16_t table) const { return tables_[table].gone; }
  const std::deque<Update>& updates(uint16_t table) const {
    return tables_[table].updates;
  }
  bool empty() const { return kept_ == 0; }
  bool is_full() const { return kept_ >= kMaxUpdates; }
  // Returns true if updates of earlier incarnations are kept.
  bool has_earlier() const;
  // Returns the entry up to which all updates of the incarnation's entries are
  // merged, of entries up to `taken`.
  uint64_t entries_merged(uint64_t taken) const;

 private:
  struct Table {
    TableShape shape;
    uint64_t newest = 0;  // of this incarnation
    uint64_t gone = 0;
    std::deque<Update> updates{};
  };

  void PopFront(Table& table);

  uint32_t incarnation_;
  std::vector<Table> tables_;
  size_t kept_ = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_LOGGER_UPDATE_LOG_H_
