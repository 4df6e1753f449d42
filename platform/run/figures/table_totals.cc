// SPDX-License-Identifier: Apache-2.0
#include "platform/run/figures/table_totals.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/keyed_hash.h"
#include "platform/run/figures/run_totals.h"

namespace snf {
namespace {

using Value = std::array<uint64_t, TableShape::kMaxValueBytes / 8>;

// Sums up over entries, which may come in any order.
class TableDigest {
 public:
  explicit TableDigest(const TableShape& shape) : shape_(shape) {}
  void Add(const uint64_t* key, const uint64_t* value) {
    uint64_t digest = 0;
    for (uint32_t i = 0; i < shape_.key_words(); ++i) Mix(digest, key[i]);
    entries_ += Of(value, digest);
  }
  uint64_t entries() const { return entries_; }
  uint64_t Of(const uint64_t* value, uint64_t digest = 0) const {
    for (uint32_t i = 0; i < shape_.value_words(); ++i) Mix(digest, value[i]);
    return digest;
  }

 private:
  static void Mix(uint64_t& digest, uint64_t word) {
    digest = Fold(digest ^ 0x9e37'79b9'7f4a'7c15, word ^ 0xd1b5'4a32'd192'ed03);
  }
  const TableShape& shape_;
  uint64_t entries_ = 0;
};

// Says in words how a copy differs; empty if it does not.
std::string DifferenceOf(const TableHome& home, const TableCopyFigures& copy) {
  if (copy.entries != home.size()) {
    return fmt::format("has {} entries, should have {}", copy.entries,
                       home.size());
  }
  TableDigest digest(home.shape());
  for (uint32_t i = 0; i < home.slots(); ++i) {
    if (home.IsEntry(i)) digest.Add(home.key(i), home.total(i));
  }
  if (digest.entries() != copy.entries_digest) return "differs in an entry";
  const bool same = digest.Of(home.rest()) == copy.rest_digest;
  return same ? "" : "differs in the rest";
}

// Adds the figures of the home, whose totals `merged` takes.
void AddHome(const TableHome& home, TableCopy& merged, TableFigures& figures) {
  figures.entries = home.size();
  figures.refused += home.refused();
  figures.forgotten += home.forgotten();
  figures.repeated += home.repeated();
  LoadTotals(home, merged);
}

}  // namespace

void LoadTotals(const TableHome& home, TableCopy& copy) {
  copy.Clear();
  for (uint32_t i = 0; i < home.slots(); ++i) {
    if (!home.IsEntry(i)) continue;
    copy.on_told(home.key(i), home.version(), home.total(i), false);
  }
  copy.on_told(nullptr, home.version(), home.rest(), false);
}

TableCopyFigures FiguresOf(const TableReplica& replica, const TableCopy& copy) {
  TableDigest digest(copy.shape());
  copy.ForEach([&](const uint64_t* key, const uint64_t* value) {
    digest.Add(key, value);
  });
  Value rest{};
  copy.ReadRest(rest.data());
  return {.updates = copy.updates(),
          .refused = copy.refused(),
          .repeated = replica.repeated(),
          .joined = replica.joined() ? 1u : 0u,
          .entries = copy.size(),
          .entries_digest = digest.entries(),
          .rest_digest = digest.Of(rest.data())};
}

std::vector<TableCopyFigures> FiguresOf(const UnitTables& unit) {
  std::vector<TableCopyFigures> tables;
  for (size_t i = 0; !unit.are_logged() && i < unit.size(); ++i) {
    tables.push_back(FiguresOf(*unit.replica(i), unit.copy(i)));
  }
  return tables;
}

void AddTables(const TableHomes& homes,
               std::span<const std::vector<TableCopyFigures>> units,
               const NetworkFunction& nf, RunResult& result) {
  size_t table = 0;
  for (const NetworkFunction::Part& part : nf.parts()) {
    for (const auto& merged : part.nf->tables()) {
      const TableHome& home = homes.home(table);
      TableFigures figures = {.nf = std::string(part.name),
                              .name = home.shape().name,
                              .max_entries = home.shape().max_entries,
                              .messages = homes.traffic(table).messages,
                              .bytes = homes.traffic(table).bytes};
      for (size_t i = 0; i < units.size(); ++i) {
        if (units[i].empty()) continue;
        const TableCopyFigures& copy = units[i][table];
        figures.updates += copy.updates;
        figures.refused += copy.refused;
        figures.repeated += copy.repeated;
        if (copy.joined == 0) continue;
        const std::string wrong = DifferenceOf(home, copy);
        if (wrong.empty()) continue;
        ++result.violations;
        result.violation_messages.push_back(fmt::format(
            "table {}: the copy of unit {} {}", figures.name, i, wrong));
      }
      if (!homes.are_of_cluster()) AddHome(home, *merged, figures);
      result.tables.push_back(std::move(figures));
      ++table;
    }
  }
}

void AddClusterTables(const ClusterHomes& homes, const NetworkFunction& nf,
                      RunResult& result) {
  size_t table = 0;
  for (const NetworkFunction::Part& part : nf.parts()) {
    for (const auto& merged : part.nf->tables()) {
      AddHome(homes.home(table), *merged, result.tables[table]);
      ++table;
    }
  }
  result.nf_reports.clear();
  AddNfReports(nf, result);
}

}  // namespace snf
