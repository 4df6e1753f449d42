// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LOGGER_TABLE_UPDATE_H_
#define SNF_RUNTIME_LOGGER_TABLE_UPDATE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "base/byte_order.h"
#include "runtime/sdk/table_copy.h"

namespace snf {

// The update of one key of a shared table by a clock, in an entry of a log
// (proto/protocol.md T1). `words` words follow: the key, zeros for the rest,
// and the delta. An update that erases moves the key's value into the rest
// before its delta counts.
struct TableUpdate {
  uint64_t number = 0;  // in the unit's updates of the table: 1, 2, 3 …
  uint16_t table = 0;
  uint8_t is_rest = 0;  // 0 or 1
  uint8_t erases = 0;   // 0 or 1; not of the rest
  uint32_t words = 0;
};
static_assert(sizeof(TableUpdate) == 16);
static_assert(std::is_trivially_copyable_v<TableUpdate>);

// Returns the most bytes of updates in an entry. A packet that waited for its
// alias may have made updates twice.
inline uint32_t MaxUpdateBytes(std::span<const TableShape> tables) {
  uint32_t bytes = 0;
  for (const TableShape& table : tables) {
    bytes += 2 * (TableCopy::kMaxTentative + 1) *
             static_cast<uint32_t>(sizeof(TableUpdate) +
                                   table.entry_words() * sizeof(uint64_t));
  }
  return bytes;
}

// Appends an update, of `update.words` words, to the bytes.
inline void AppendUpdate(const TableUpdate& update, const uint64_t* words,
                         std::vector<std::byte>& bytes) {
  const auto append = [&](std::span<const std::byte> more) {
    bytes.insert(bytes.end(), more.begin(), more.end());
  };
  append(std::as_bytes(std::span(&update, 1)));
  append(std::as_bytes(std::span(words, update.words)));
}

// Calls visit(const TableUpdate&, const std::byte* words) for each update.
// `bytes` must be sound (AreUpdates).
template <typename Visit>
void ForEachUpdate(std::span<const std::byte> bytes, const Visit& visit) {
  while (!bytes.empty()) {
    const auto update = LoadAs<TableUpdate>(bytes.data());
    visit(update, bytes.data() + sizeof update);
    bytes = bytes.subspan(sizeof update + update.words * sizeof(uint64_t));
  }
}

// Returns true if the bytes, which come from elsewhere, are whole updates.
inline bool AreUpdates(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (bytes.size() < sizeof(TableUpdate)) return false;
    const auto update = LoadAs<TableUpdate>(bytes.data());
    const uint64_t size = sizeof update + update.words * sizeof(uint64_t);
    if (bytes.size() < size || update.number == 0 || update.is_rest > 1 ||
        update.erases > 1 - update.is_rest) {
      return false;
    }
    bytes = bytes.subspan(size);
  }
  return true;
}

}  // namespace snf

#endif  // SNF_RUNTIME_LOGGER_TABLE_UPDATE_H_
