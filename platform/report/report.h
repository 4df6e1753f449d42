// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_REPORT_H_
#define SNF_PLATFORM_REPORT_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "platform/explain/explain_story.h"
#include "platform/report/chart.h"
#include "platform/run/run.h"

namespace snf {

// What surrounds a result: how the run was asked for, and what was noticed.
struct RunInfo {
  struct Flag {
    std::string name;   // without dashes
    std::string value;  // as the command line takes it: "500us", "1Gbps"
    // It was given and shapes the result, so that a proposed command repeats
    // it. False for defaults and for where the output goes.
    bool repeat = false;
  };

  std::string command = "./snf replay";  // what proposed commands begin with
  std::string version;
  uint64_t seed = 0;
  std::string nf;
  std::string policy;
  std::vector<std::string> files = {};     // as named on the command line
  std::vector<Flag> flags = {};            // all, in the order of --help
  std::vector<std::string> warnings = {};  // of the captures
  double elapsed_s = 0;                    // wall clock
  std::vector<FlowStory> stories = {};     // that were asked for
};

// True if nothing is wrong with the run itself: packets add up and the checker
// found no violation. Otherwise the exit code is 1.
bool RunIsSound(const RunResult& result);

// The report for people: problems first, then traffic, packets by the rule of
// conservation as a sum, flows, state, what NFs counted, units, latency, a
// chart, the digest, one sentence on what it means and three commands to try
// next. Lines end with '\n'.
std::string TextReport(const RunOptions& options, const RunResult& result,
                       const RunInfo& info, const Terminal& terminal);

// The report for programs: one JSON object, indented, in UTF-8 (bytes of file
// names that are none are replaced), and '\n'. Its keys, in this order:
//
//   packets_in, packets_generated, packets_released, packets_consumed,
//   packets_passed_through     integers
//   packets_dropped            object: reason → integer, every reason of the
//                              platform, and "nf:NAME" for those of the NF
//   flows, flowlets, decisions integers
//   units_used_max             integer
//   units_used_mean            number, over the time that one was up
//   overcommitted              integer: flowlets placed where there was no room
//   latency_ns                 object: p50 p90 p99 p999 max, arrival to release
//   digest                     16 hexadecimal digits
//   seed                       integer
//   flags                      object: name → text, as the command line takes
//                              it, of every flag that has a value
//   version                    text
//   elapsed_s                  number, wall clock; the only key that differs
//                              between two runs of the same input
//
// and behind them: sound, conserved (true, false), violations,
// violation_messages, i6_compared, i6_not_compared (packets, RunResult); nf,
// counters (object: what NFs counted, as "odd", or in a chain "drop_odd.odd" →
// integer), tables (object: shared tables, named alike → object of entries,
// max_entries, updates, refused, messages, bytes, repeated; staleness_ns, until
// all units know an update that read the table, and spread_ns, until all do,
// with p50 p99 max), nf_reports (object: titles of what NFs report → array of
// objects), policy, files, warnings; duration_s, bytes_in, bit_rate_mean_bps (0
// for a single packet), late_packets;
// flowlets_by (object: new_flow gap bytes); about state: flowlets_movable (not
// the first of their flow), flowlets_moved, flowlets_seamless,
// flowlets_pulled, wait_ns (object as latency_ns, of those that moved),
// wait_worst (null, or object flow clock unit wait_ns; flow is "" if it was
// forgotten by then), state_pushes,
// state_pulls, state_answers, state_bytes, state_pushed_bytes,
// replication_bps, held_packets_max, tombstones, flows_handed_over,
// state_messages_lost, state_messages_duplicated, replicas_taken,
// replicas_evicted, replicas_expired, pulls_repeated, takeovers_repeated,
// takeovers_said_once, state_refused (object: reason → messages); starts_cold,
// starts_warm; of a run in real time, real (object: threads, wall_s from the
// first packet until the last had left, late_ns as latency_ns of how late
// packets were taken, null without a schedule, worker_sleeps); capacity_used
// (0 … 1, drained over provisioned), utilisation (object p50 p99, 0 … 1, per
// unit and 100 ms); of an NF whose flows are inside endpoints, aliases (object:
// granted, at_once_max, refused by conflict, group_full or unknown,
// packets_offered to the controller by alias, packets_found of these,
// packets_hairpinned, which began once more); of one with pools, pools (object:
// pools, pieces_out_max, blocks_granted, requests_refused, reclaim_rounds);
// explain (array of objects: the flows of --explain, with their flowlets one by
// one); parse_results (object: how far the parser came → packets),
// fragments_unmatched.
std::string JsonReport(const RunOptions& options, const RunResult& result,
                       const RunInfo& info);

// Writes into `directory`, which is made if need be, replacing files of these
// names:
//
//   bandwidth.csv  a line per 100 ms: start_s (since the first packet; the
//                  first epoch began before it), offered_bps, drained_bps,
//                  provisioned_bps, units (mean in the epoch),
//                  dropped_packets. Epochs in which nothing happened are left
//                  out.
//   latency.csv    quantile (0 … 1), latency_ns
//   wait.csv       quantile (0 … 1), wait_ns: for state, of flowlets that moved
//
// Errors name the path and the reason.
absl::Status WriteCsv(const std::string& directory, const RunOptions& options,
                      const RunResult& result);

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_REPORT_H_
