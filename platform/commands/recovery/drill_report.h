// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_RECOVERY_DRILL_REPORT_H_
#define SNF_PLATFORM_COMMANDS_RECOVERY_DRILL_REPORT_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/histogram.h"
#include "base/time.h"
#include "platform/commands/recovery/recovery_drill.h"
#include "platform/run/run.h"
#include "runtime/sdk/nf_spec.h"
#include "traces/loaded_capture.h"

namespace snf {

struct DrillOptions {
  RunOptions run;
  uint32_t deaths = 100;  // of each way
  uint64_t seed = 1;      // of their times
  uint32_t timed = 3;     // runs of each way whose time is taken
};

// Sums up the deaths of one way.
struct WayFigures {
  std::string_view name;
  uint64_t deaths = 0;
  uint64_t records = 0;  // compared, of all deaths
  uint64_t records_wrong = 0;
  uint64_t records_anew = 0;  // Death::records_anew
  uint64_t pieces_wrong = 0;  // deaths after which other pieces were free
  uint64_t outputs_suppressed = 0;
  uint64_t outputs_differ = 0;  // of those
  uint64_t outputs_released = 0;
  // Each value is of one death; times are in ns.
  Histogram recovery;  // network and executed
  Histogram executed;
  Histogram at_pace;  // network and service: run again as fast as the unit is
  Histogram packets;  // run again
  Histogram bytes;    // moved
  // CPU time of a packet, with the unit and the controller, in ns: the least of
  // the runs; and what is more than without any way.
  double cpu_ns = 0;
  double path_ns = 0;

  bool is_good() const {
    return records_wrong + pieces_wrong + outputs_differ == 0;
  }
};

struct DrillResult {
  std::vector<WayFigures> ways;
  DrillTotals totals;
  double bare_cpu_ns = 0;  // CPU time of a packet if nothing is kept
  uint32_t record_bytes = 0;
  Instant first;
  Instant last;
};

// Runs the capture with each way, with deaths at times that are drawn from the
// seed, the same for all, and without, to take the time. The NF must be OK and
// the capture not empty.
DrillResult RunDrills(const NfSpec& nf, const LoadedCapture& capture,
                      const DrillOptions& options);

// Draws DrillOptions::deaths times between the capture's first packet and its
// last, in order.
std::vector<Instant> DrawDeaths(const LoadedCapture& capture,
                                const DrillOptions& options);

// Return the report as a table and as JSON. Flags have values.
std::string TextOf(const DrillResult& result, const DrillOptions& options);
std::string JsonOf(const DrillResult& result,
                   std::span<const std::pair<std::string, std::string>> flags);

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_RECOVERY_DRILL_REPORT_H_
