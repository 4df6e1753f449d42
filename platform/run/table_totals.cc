// SPDX-License-Identifier: Apache-2.0
#include "platform/run/table_totals.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace snf {
namespace {

using Value = std::array<uint64_t, TableShape::kMaxValueBytes / 8>;

void Load(const TableHome& home, TableCopy& copy) {
  for (uint32_t i = 0; i < home.slots(); ++i) {
    if (!home.IsEntry(i)) continue;
    copy.on_told(home.key(i), home.version(), home.total(i), false);
  }
  copy.on_told(nullptr, home.version(), home.rest(), false);
}

// Says in words how they differ; empty if they do not.
std::string DifferenceOf(const TableHome& home, const TableCopy& copy) {
  const uint32_t words = home.shape().value_words();
  if (copy.size() != home.size()) {
    return fmt::format("has {} entries, should have {}", copy.size(),
                       home.size());
  }
  Value value{};
  for (uint32_t i = 0; i < home.slots(); ++i) {
    if (!home.IsEntry(i)) continue;
    if (!copy.Read(home.key(i), value.data()) ||
        !std::equal(value.data(), value.data() + words, home.total(i))) {
      return fmt::format("differs in entry {}", i + 1);
    }
  }
  copy.ReadRest(value.data());
  const bool same = std::equal(value.data(), value.data() + words, home.rest());
  return same ? "" : "differs in the rest";
}

}  // namespace

void AddTables(const TableHomes& homes,
               std::span<const UnitTables* const> units,
               const NetworkFunction& nf, RunResult& result) {
  size_t table = 0;
  for (const NetworkFunction::Part& part : nf.parts()) {
    for (const auto& merged : part.nf->tables()) {
      const TableHome& home = homes.home(table);
      TableFigures figures = {.nf = std::string(part.name),
                              .name = home.shape().name,
                              .entries = home.size(),
                              .max_entries = home.shape().max_entries,
                              .refused = home.refused(),
                              .forgotten = home.forgotten(),
                              .messages = homes.traffic(table).messages,
                              .bytes = homes.traffic(table).bytes,
                              .repeated = home.repeated()};
      for (size_t i = 0; i < units.size(); ++i) {
        if (units[i] == nullptr) continue;
        const TableReplica& replica = units[i]->replica(table);
        const TableCopy& copy = units[i]->copy(table);
        figures.updates += copy.updates();
        figures.refused += copy.refused();
        figures.repeated += replica.repeated();
        if (!replica.joined()) continue;
        const std::string wrong = DifferenceOf(home, copy);
        if (wrong.empty()) continue;
        ++result.violations;
        result.violation_messages.push_back(fmt::format(
            "table {}: the copy of unit {} {}", figures.name, i, wrong));
      }
      Load(home, *merged);
      result.tables.push_back(std::move(figures));
      ++table;
    }
  }
}

}  // namespace snf
