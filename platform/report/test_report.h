// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_TEST_REPORT_H_
#define SNF_PLATFORM_REPORT_TEST_REPORT_H_

#include <cstddef>
#include <cstdint>

#include "base/packet/flow_key_text.h"
#include "platform/report/report.h"

// A run by hand, for the tests of what is printed about it.
namespace snf {

inline constexpr int64_t kFirstEpoch = 17'000'000'000;  // in 2023

inline uint64_t& Dropped(RunResult& result, DropReason reason) {
  return result.dropped[static_cast<size_t>(reason)];
}

inline RunOptions Options() {
  RunOptions options;
  options.controller.unit_capacity_bps = 100'000'000;
  return options;
}

// Of 300 flowlets that moved 280 found their state.
inline StateFigures Moves() {
  StateFigures state;
  state.seamless = 280;
  state.pulled = 20;
  for (int64_t i = 0; i < 300; ++i) {
    state.wait_ns.Record(i < 280 ? 0 : (i - 279) * 2'000);
  }
  state.worst = {.key = *ParseFlowKey("udp 10.0.0.1:5000 > 192.0.2.9:53"),
                 .flow = MakeFlowId(0, 5, 1),
                 .clock = Clock{17},
                 .wait = Microseconds(40),
                 .unit = UnitId{1}};
  state.pushes = 1'200;
  state.pulls = 20;
  state.answers = 20;
  state.bytes = 122'000;
  state.pushed_bytes = 120'000;
  return state;
}

// 300 ms at 150 Mbit/s that ran on two units without loss.
inline RunResult Result() {
  RunResult result;
  result.packets_in = 10'000;
  result.bytes_in = 5'625'000;
  result.packets_released = 9'990;
  result.packets_passed_through = 10;
  result.first_packet = {kFirstEpoch * Provisioning::kEpochNs};
  result.last_packet = result.first_packet + Milliseconds(300);
  result.controller = {.flows = 400,
                       .flowlets = 1'500,
                       .flowlets_by_gap = 1'000,
                       .flowlets_by_bytes = 100,
                       .flowlets_moved = 300,
                       .moved_without_replica = 12,
                       .moved_elsewhere = 9,
                       .moved_too_soon = 1,
                       .decisions = 1'502,
                       .pieces = {},
                       .failures = {}};
  result.classifier.results[static_cast<size_t>(ParseResult::kComplete)] =
      9'990;
  result.classifier.results[static_cast<size_t>(ParseResult::kNotIp)] = 8;
  result.classifier.results[static_cast<size_t>(ParseResult::kIpBadVersion)] =
      2;
  result.cold_starts = 2;
  result.warm_starts = 1;
  result.state = Moves();
  result.held_packets_max = 7;
  for (int64_t i = 1; i <= 1'000; ++i) result.latency_ns.Record(i * 1'000);
  result.units_max = 2;
  result.units_mean_1000 = 1'750;
  result.unit_ns_with_traffic = 3 * 175'000'000;
  for (int i = 0; i < 6; ++i) result.utilisation_1000.Record(800 + i * 10);
  for (int64_t i = 0; i < 3; ++i) {
    result.epochs.push_back({.epoch = kFirstEpoch + i,
                             .offered_bytes = 1'875'000,
                             .drained_bytes = 1'875'000,
                             .dropped_packets = i == 2 ? 5u : 0u,
                             .unit_ns = 175'000'000});
  }
  result.digest = result.digest_up_to_renaming = 0x0123456789abcdef;
  return result;
}

// The same through an NF with two sides and pools.
inline RunResult WithAliases() {
  RunResult result = Result();
  result.packets_released = 9'976;
  Dropped(result, DropReason::kNoAlias) = 2;
  Dropped(result, DropReason::kAliasConflict) = 8;
  Dropped(result, DropReason::kNotTranslated) = 10;
  result.aliases = {.has_sides = true,
                    .pools = 6,
                    .packets_offered = 3'002,
                    .packets_found = 3'000,
                    .packets_hairpinned = 6,
                    .at_once_max = 90};
  result.controller.aliases_granted = 120;
  result.controller.aliases_conflict = 8;
  result.controller.pieces = {.blocks_granted = 10,
                              .requests_refused = 3,
                              .reclaim_rounds = 2,
                              .pieces_out = 128,
                              .pieces_out_max = 640,
                              .pieces_faulty = 0,
                              .messages_faulty = 0};
  return result;
}

// The same through a chain that counts.
inline RunResult WithCounters() {
  RunResult result = Result();
  result.nf_counters = {
      {.nf = "firewall",
       .name = "admitted",
       .help = "packets that a rule admits",
       .value = 9'990},
      {.nf = "ids",
       .name = "alerts",
       .help = "payloads that look like one of the patterns of an attack",
       .value = 0}};
  return result;
}

inline RunInfo Info() {
  return {.version = "1.2.3",
          .seed = 7,
          .nf = "passthrough",
          .policy = "snf",
          .files = {"cap.pcap"},
          .flags = {{"nf", "passthrough", false},
                    {"unit_capacity", "100Mbps", true}},
          .elapsed_s = 0.5};
}

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_TEST_REPORT_H_
