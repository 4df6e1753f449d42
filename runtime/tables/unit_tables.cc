// SPDX-License-Identifier: Apache-2.0
#include "runtime/tables/unit_tables.h"

#include <array>
#include <cstring>

#include "runtime/logger/table_update.h"

namespace snf {

std::vector<TableShape> LoggedTablesOf(const NetworkFunction& nf) {
  std::vector<TableShape> shapes;
  for (const TableCopy* const table : TablesOf(nf)) {
    shapes.push_back(table->shape());
  }
  return shapes;
}

UnitTables::UnitTables(UnitId unit, const NetworkFunction& nf,
                       const TableOptions& options, bool are_logged)
    : are_logged_(are_logged) {
  for (TableCopy* const copy : TablesOf(nf)) {
    const auto number = static_cast<uint16_t>(tables_.size());
    Table& table = tables_.emplace_back(Table{.copy = copy});
    if (are_logged && copy->shape().for_reports) continue;
    if (are_logged) {
      table.view = std::make_unique<TableView>(copy->shape());
      copy->SetView(*table.view);
    }
    table.replica.emplace(number, unit,
                          are_logged ? table.view->totals() : *copy, options);
  }
}

void UnitTables::on_logged(std::span<const std::byte> updates) {
  std::array<uint64_t, TableMessage::kMaxWords> words{};
  ForEachUpdate(updates, [&](const TableUpdate& update, const std::byte* from) {
    const Table& table = tables_[update.table];
    if (table.view == nullptr) return;
    std::memcpy(words.data(), from, update.words * sizeof(uint64_t));
    table.view->Add(update.number, update.is_rest != 0 ? nullptr : words.data(),
                    update.erases != 0,
                    &words[table.copy->shape().key_words()]);
  });
}

// The totals told have the unit's updates up to told.merged.
void UnitTables::Forget(const TableMessage& told, bool ends_sweep,
                        TableView& view) {
  for (uint32_t i = 0; i < told.entries; ++i) {
    view.on_told(
        i == told.rest ? nullptr : told.entry(view.totals().shape(), i),
        told.merged);
  }
  if (ends_sweep) view.EndSweep(told.merged);
}

}  // namespace snf
