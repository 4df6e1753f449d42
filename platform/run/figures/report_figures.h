// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_FIGURES_REPORT_FIGURES_H_
#define SNF_PLATFORM_RUN_FIGURES_REPORT_FIGURES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "platform/run/run.h"

namespace snf {

// Holds what reports derive from a result. Ratios without a denominator are 0.
struct ReportFigures {
  Nanos duration;                 // first to last packet
  uint64_t epochs_forgotten = 0;  // of the time series
  Nanos busy;                     // epochs of 100 ms that saw an IP packet
  int64_t mean_rate_bps = 0;      // over the duration
  int64_t busy_rate_bps = 0;      // of IP packets, over `busy`
  int64_t peak_rate_bps = 0;      // of the busiest 100 ms
  double mean_packet_bytes = 0;
  double flowlets_per_flow = 0;
  // Drained over provisioned, 0 … 1; time in which units lie idle behind all
  // traffic does not count.
  double capacity_used = 0;
  // State pushed ahead of flowlets, over `busy`: of each push the message
  // (State) and the record.
  int64_t replication_bps = 0;
  // Flowlets that are not the first of their flow.
  uint64_t flowlets_movable = 0;
  uint64_t flowlets_by_new_flow = 0;
  uint64_t aliases_refused_unknown = 0;  // flow or clock were not known

  // Members of the result in the units of the report.
  double duration_s = 0;
  double wall_s = 0;  // RealFigures::wall
  double units_mean = 0;
  double utilisation_p50 = 0;  // 0 … 1
  double utilisation_p99 = 0;
  bool conserved = false;
  bool sound = false;  // the checker saw no violation either

  // Most of the time there was no traffic.
  bool sparse() const { return busy.ns > 0 && duration.ns / 2 > busy.ns; }
};

ReportFigures FiguresOf(const RunOptions& options, const RunResult& result);

// Returns false if units worked, and the times at which units were up are not
// known, as where controllers lease units in real time: then units_mean,
// capacity_used and utilisations are not known either.
bool UnitsAreMeasured(const RunResult& result);
// Returns true if units showed or looked for states in memory of the host.
bool UsedHostRecords(const RunResult& result);
// Returns true if the NF keeps nothing of a flow, so that records are empty;
// false too if none was sent, or states were in memory of the host.
bool KeepsNoState(const RunResult& result);
// Names that which flowlets that moved are held for: "state", "their turn".
std::string_view HeldFor(const RunResult& result);

// Says what a unit can process: "300 Mbit/s", "300 Mbit/s and 1.00 Mpps".
std::string UnitCapacity(const ControllerOptions& options);

// Drops for one reason; `index` is its DropReason, or counts the NF's reasons.
struct DropCount {
  bool by_nf = false;
  size_t index = 0;
  std::string name;  // "unit_queue_full", "nf:odd_length"
  uint64_t packets = 0;
};

// Lists all reasons, those of the platform first; also with 0 packets.
std::vector<DropCount> DropCounts(const RunResult& result);

// Explains a drop to people: "the unit's queue of 1,024 packets was full".
std::string Explain(const DropCount& drop, const RunOptions& options);

// Names a counter: "odd", in a chain "drop_odd.odd".
std::string NameOf(const RunResult::NfCounter& counter);

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_FIGURES_REPORT_FIGURES_H_
