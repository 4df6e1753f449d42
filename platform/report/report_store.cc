// SPDX-License-Identifier: Apache-2.0
#include "platform/report/report_store.h"

#include <utility>

#include "base/quantity.h"
#include "fmt/format.h"

namespace snf {

void AddStore(const StoreFigures& store, Page& page) {
  if (store.reads + store.writes == 0) return;
  page.Count("Store", store.reads, "states read");
  page.Count("", store.read_again, "times more, as they were not there yet");
  page.Count("", store.writes, "states written");
  const auto quantile = [&store](uint32_t per_100000) {
    return FormatDuration(Nanos{store.round_trip_ns.Quantile(per_100000)});
  };
  page.Row("", "", quantile(50'000),
           fmt::format("from a request to its answer, p50; p99 {}",
                       quantile(99'000)));
  const std::pair<uint64_t, const char*> troubles[] = {
      {store.timeouts, "requests sent again for want of an answer"},
      {store.silent, "times that packets were given up, as no answer came"},
      {store.writes_lost, "writes lost"},
      {store.refused, "answers that cannot be"},
      {store.reconnects, "connections made anew"}};
  for (const auto& [count, what] : troubles) {
    if (count > 0) page.Count("", count, what);
  }
  page.Blank();
}

void AddRecovery(const RecoveryFigures& recovery, Page& page) {
  if (recovery.samples == 0) return;
  page.Count("Recovery", recovery.samples, "deaths of units thought through");
  const auto add = [&page](uint64_t p50, uint64_t p99, uint64_t path,
                           const char* what) {
    const auto text = [](uint64_t ns) {
      return FormatDuration(Nanos{static_cast<int64_t>(ns)});
    };
    page.Row("", "", text(p50),
             fmt::format("p50 with {}; p99 {}, and {} a packet, p99", what,
                         text(p99), text(path)));
  };
  add(recovery.logger_p50, recovery.logger_p99, recovery.logger_path_p99,
      "output loggers");
  add(recovery.checkpoint_p50, recovery.checkpoint_p99,
      recovery.checkpoint_path_p99, "checkpoints every 50 ms");
  add(recovery.datastore_p50, recovery.datastore_p99,
      recovery.datastore_path_p99, "a datastore");
  page.Blank();
}

}  // namespace snf
