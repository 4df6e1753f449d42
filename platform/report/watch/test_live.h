// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_WATCH_TEST_LIVE_H_
#define SNF_PLATFORM_REPORT_WATCH_TEST_LIVE_H_

#include <cstdint>
#include <string>

#include "platform/run/figures/live_figures.h"

namespace snf {

// A run after ten seconds, and half a second later: 1,000 packets a second of
// 125 bytes, of which unit 0 takes three in five, and unit 1 the others.
inline LiveFigures LiveFiguresAfter(int64_t half_seconds) {
  const auto n = static_cast<uint64_t>(half_seconds);
  LiveFigures figures;
  figures.elapsed = Milliseconds(500 * half_seconds);
  figures.speed = {.kind = Speed::Kind::kPackets, .value = 1'000};
  figures.done_1000 = 417;
  RunResult result;
  result.packets_in = 500 * n;
  result.bytes_in = 62'500 * n;
  result.packets_released = 500 * n - 10;
  result.controller.flows = 10 * n;
  result.controller.flows_ended = 4 * n;
  result.controller.flowlets = 60 * n;
  result.controller.flowlets_moved = 12 * n;
  result.state.seamless = 8 * n;
  result.state.pulled = 4 * n;
  result.cold_starts = 2;
  figures.counts = FigureCounts(result);
  figures.drops = {{.name = "unit_queue_full", .packets = 0},
                   {.name = "no_mapping", .packets = 0},
                   {.by_nf = true, .name = "nf:denied", .packets = 0}};
  figures.units = {
      {.id = UnitId{0}, .is_up = true, .packets = 300 * n, .bytes = 37'500 * n},
      {.id = UnitId{1},
       .is_up = true,
       .packets = 200 * n,
       .bytes = 25'000 * n}};
  figures.unit_capacity_bps = 1'000'000;
  figures.latency = {.now = {.p50 = Microseconds(119), .p99 = {1'250'000}},
                     .all = {.p50 = Microseconds(120), .p99 = {1'760'000}},
                     .max = Milliseconds(3),
                     .count = 500 * n - 10,
                     .sum_ns = 1'500'000'042};
  figures.late = {.now = {.p50 = {900}, .p99 = Microseconds(12)},
                  .all = {.p50 = {800}, .p99 = Microseconds(14)},
                  .max = Microseconds(40),
                  .count = 500 * n,
                  .sum_ns = 1'000};
  return figures;
}

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_WATCH_TEST_LIVE_H_
