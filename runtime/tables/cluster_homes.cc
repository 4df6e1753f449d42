// SPDX-License-Identifier: Apache-2.0
#include "runtime/tables/cluster_homes.h"

#include <algorithm>

#include "base/check.h"

namespace snf {

ClusterHomes::ClusterHomes(const NetworkFunction& example, uint32_t controllers,
                           uint32_t max_units, const TableOptions& options)
    : controllers_(controllers), max_units_(max_units) {
  for (const TableCopy* const table : TablesOf(example)) {
    SNF_CHECK(uint64_t{controllers} * max_units <= kMaxUnits);
    homes_.emplace_back(static_cast<uint16_t>(homes_.size()), table->shape(),
                        max_units, options, controllers);
  }
}

bool ClusterHomes::on_message(Instant now, uint32_t controller,
                              const TableMessage& in, TableMessage& out) {
  if (value(in.unit) >= max_units_) return false;
  TableMessage message = in;
  message.unit = NumberOf(controller, in.unit);
  const bool has_out = homes_[in.table].on_message(now, message, out);
  if (has_out) out.unit = OwnOf(controller, out.unit);
  return has_out;
}

bool ClusterHomes::on_timers(Instant now, uint32_t controller, size_t table,
                             TableMessage& out) {
  const bool has_out = homes_[table].on_timers(now, out, controller);
  if (has_out) out.unit = OwnOf(controller, out.unit);
  return has_out;
}

void ClusterHomes::on_unit_failed(uint32_t controller, UnitId unit) {
  const UnitId number = NumberOf(controller, unit);
  for (TableHome& home : homes_) home.on_unit_failed(number);
}

void ClusterHomes::Leave(uint32_t controller) {
  for (uint32_t u = 0; u < max_units_; ++u) {
    on_unit_failed(controller, UnitId{static_cast<uint16_t>(u)});
  }
}

Instant ClusterHomes::next_wakeup(uint32_t controller) const {
  Instant wakeup = Instant::max();
  for (const TableHome& home : homes_) {
    wakeup = std::min(wakeup, home.next_wakeup(controller));
  }
  return wakeup;
}

uint64_t ClusterHomes::logged(uint32_t controller, size_t table,
                              UnitId unit) const {
  return homes_[table].logged(NumberOf(controller, unit));
}

uint32_t ClusterHomes::newest_incarnation() const {
  uint32_t newest = 0;
  for (const TableHome& home : homes_) {
    newest = std::max(newest, home.newest_incarnation());
  }
  return newest;
}

}  // namespace snf
