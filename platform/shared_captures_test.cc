// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "platform/virtual_driver.h"
#include "traces/merged_reader.h"

namespace snf {
namespace {

// Real captures that are not part of the project, with a table of what is in
// them: SNF_TRACES names their folder.
std::string CapturesDir() {
  const char* named = std::getenv("SNF_TRACES");
  return named != nullptr ? named : "../shared/traces";
}

using Row = std::map<std::string, std::string>;

// The rows of a tab-separated table by its heading; empty where there is none.
std::vector<Row> ReadTable(const std::string& path) {
  std::ifstream in(path);
  std::vector<std::string> heading;
  std::vector<Row> rows;
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> cells;
    std::istringstream split(line);
    for (std::string cell; std::getline(split, cell, '\t');) {
      cells.push_back(cell);
    }
    if (heading.empty()) {
      heading = cells;
      continue;
    }
    Row& row = rows.emplace_back();
    for (size_t i = 0; i < cells.size() && i < heading.size(); ++i) {
      row[heading[i]] = cells[i];
    }
  }
  return rows;
}

class SharedCaptures : public testing::Test {
 protected:
  void SetUp() override {
    rows_ = ReadTable(CapturesDir() + "/MANIFEST.tsv");
    if (rows_.empty()) {
      GTEST_SKIP() << "no MANIFEST.tsv in " << CapturesDir()
                   << ": the real captures are not here; name their folder "
                      "with SNF_TRACES";
    }
  }

  // Small units, so that flowlets move, wait and are dropped.
  static RunOptions SmallUnits() {
    RunOptions options;
    options.controller.unit_capacity_bps = 5'000'000;
    options.controller.unit_queue_packets = 128;
    options.controller.start_buffer_packets = 32;
    return options;
  }

  static RunResult Replay(const std::string& file, const RunOptions& options) {
    auto reader = MergedReader::Open({CapturesDir() + "/" + file});
    EXPECT_TRUE(reader.ok()) << reader.status();
    VirtualDriver driver(options, *FindPlacementPolicy("snf"),
                         *FindNf("passthrough"), nullptr, nullptr);
    CapturedPacket packet;
    ReadResult result = (*reader)->Next(packet);
    for (; result == ReadResult::kPacket; result = (*reader)->Next(packet)) {
      driver.Offer(packet);
    }
    EXPECT_EQ(result, ReadResult::kEnd) << (*reader)->status();
    return driver.Finish();
  }

  std::vector<Row> rows_;
};

void ExpectSound(const RunResult& run) {
  EXPECT_TRUE(run.conserved());
  EXPECT_EQ(run.violations, 0u) << run.violation_messages.front();
}

TEST_F(SharedCaptures, HaveThePacketsFlowsAndFlowletsOfTheirTable) {
  uint64_t compared = 0;
  for (Row& row : rows_) {
    SCOPED_TRACE(row["file"]);
    const bool tcp_and_udp_only =
        row["icmp"] == "0" && row["fragments"] == "0" && row["non_ip"] == "0";
    for (const auto& [kind, name] :
         {std::pair{FlowKeyKind::k5Tuple, "5tuple"},
          std::pair{FlowKeyKind::kConnection, "connection"}}) {
      if (kind == FlowKeyKind::kConnection && !tcp_and_udp_only) continue;
      for (const int timeout_us : {500, 100}) {
        const std::string column =
            fmt::format("flowlets_{}_T{}us", name, timeout_us);
        SCOPED_TRACE(column);
        RunOptions options;
        options.flow.kind = kind;
        options.controller.flowlet_timeout = Microseconds(timeout_us);
        options.controller.flow_timeout = Nanos::max();
        const RunResult run = Replay(row["file"], options);
        ExpectSound(run);
        EXPECT_EQ(std::to_string(run.packets_in), row["packets"]);
        EXPECT_EQ(
            std::to_string(run.controller.flows),
            row[kind == FlowKeyKind::k5Tuple ? "flows_5tuple" : "connections"]);
        // A few rows of one or two packets have no flowlet counts.
        if (row[column] == "-") continue;
        EXPECT_EQ(std::to_string(run.controller.flowlets), row[column]);
        ++compared;
      }
    }
  }
  std::cout << "flowlet counts compared: " << compared << "\n";
  EXPECT_GE(compared, 100u);
}

TEST_F(SharedCaptures, GiveTheSameDigestTwiceAndWithoutTheChecks) {
  uint64_t moved = 0;
  uint64_t dropped = 0;
  for (Row& row : rows_) {
    SCOPED_TRACE(row["file"]);
    RunOptions options = SmallUnits();
    const RunResult first = Replay(row["file"], options);
    const RunResult second = Replay(row["file"], options);
    options.check = false;
    const RunResult unchecked = Replay(row["file"], options);
    ExpectSound(first);
    ExpectSound(unchecked);
    EXPECT_EQ(first.digest, second.digest);
    EXPECT_EQ(first.digest, unchecked.digest);
    EXPECT_EQ(first.latency_ns, second.latency_ns);
    EXPECT_EQ(first.controller.decisions, unchecked.controller.decisions);
    moved += first.controller.flowlets_moved;
    dropped += first.packets_dropped();
  }
  std::cout << "flowlets moved: " << moved << ", packets dropped: " << dropped
            << "\n";
  EXPECT_GT(moved, 10'000u);
  EXPECT_GT(dropped, 1'000u);
}

}  // namespace
}  // namespace snf
