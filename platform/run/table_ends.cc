// SPDX-License-Identifier: Apache-2.0
#include "platform/run/table_ends.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

namespace snf {
namespace {

using Value = std::array<uint64_t, TableShape::kMaxValueBytes / 8>;

std::vector<TableCopy*> TablesOf(const NetworkFunction& nf) {
  std::vector<TableCopy*> tables;
  for (const NetworkFunction::Part& part : nf.parts()) {
    for (const auto& table : part.nf->tables()) tables.push_back(table.get());
  }
  return tables;
}

void Load(const TableHome& home, TableCopy& copy) {
  for (uint32_t i = 0; i < home.size(); ++i) {
    copy.on_told(home.key(i), home.version(), home.total(i), false);
  }
  copy.on_told(nullptr, home.version(), home.rest(), false);
}

// In words; empty for none.
std::string DifferenceOf(const TableHome& home, const TableCopy& copy) {
  const uint32_t words = home.shape().value_words();
  if (copy.size() != home.size()) {
    return fmt::format("has {} entries, should have {}", copy.size(),
                       home.size());
  }
  Value value{};
  for (uint32_t i = 0; i < home.size(); ++i) {
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

TableOptions TableOptionsOf(const RunOptions& options) {
  return {.period = options.table_period,
          .retry_after = options.state_retry,
          .hash_seed = options.controller.hash_seed};
}

UnitTables::UnitTables(UnitId unit, const NetworkFunction& nf,
                       const TableOptions& options)
    : copies_(TablesOf(nf)) {
  for (uint16_t table = 0; table < copies_.size(); ++table) {
    replicas_.emplace_back(table, unit, *copies_[table], options);
  }
}

TableHomes::TableHomes(const NetworkFunction& example, uint32_t max_units,
                       const TableOptions& options) {
  for (const NetworkFunction::Part& part : example.parts()) {
    for (const auto& table : part.nf->tables()) {
      const auto number = static_cast<uint16_t>(homes_.size());
      const TableShape& shape = table->shape();
      homes_.push_back(
          {.home = TableHome(number, shape, max_units, options),
           .figures = {.nf = std::string(part.name), .name = shape.name}});
    }
  }
}

void TableHomes::Count(const TableMessage& message) {
  Home& home = homes_[message.table];
  ++home.figures.messages;
  home.figures.bytes += message.bytes(home.home.shape());
}

void TableHomes::Finish(const std::vector<const UnitTables*>& units,
                        const NetworkFunction& nf, RunResult& result) {
  const std::vector<TableCopy*> merged = TablesOf(nf);
  for (size_t table = 0; table < homes_.size(); ++table) {
    auto& [home, figures] = homes_[table];
    figures.entries = home.size();
    figures.max_entries = home.shape().max_entries;
    figures.refused = home.refused();
    figures.repeated = home.repeated();
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
    Load(home, *merged[table]);
    result.tables.push_back(std::move(figures));
  }
}

}  // namespace snf
