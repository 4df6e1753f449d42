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

}  // namespace snf
