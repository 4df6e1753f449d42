// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "platform/drivers/virtual_time/virtual_driver.h"
#include "platform/system_test/test_captures.h"
#include "platform/system_test/test_run.h"
#include "traces/merged_reader.h"

namespace snf {
namespace {

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
    PlaceByDemand(options.controller);
    options.controller.unit_capacity_bps = 5'000'000;
    options.controller.unit_queue_packets = 128;
    options.controller.start_buffer_packets = 32;
    return options;
  }

  static RunResult Replay(const std::string& file, const RunOptions& options) {
    auto reader = MergedReader::Open({CapturesDir() + "/" + file});
    EXPECT_TRUE(reader.ok()) << reader.status();
    VirtualDriver driver(options, *FindPlacementPolicy("snf"),
                         *FindNf("passthrough"), {});
    CapturedPacket packet;
    ReadResult result = (*reader)->Next(packet);
    for (; result == ReadResult::kPacket; result = (*reader)->Next(packet)) {
      driver.Offer(packet);
    }
    EXPECT_EQ(result, ReadResult::kEnd) << (*reader)->status();
    return driver.Finish();
  }

  std::vector<TableRow> rows_;
};

void ExpectSound(const RunResult& run) {
  EXPECT_TRUE(run.conserved());
  EXPECT_EQ(run.violations, 0u)
      << fmt::format("{}", fmt::join(run.violation_messages, "\n"));
}

TEST_F(SharedCaptures, HaveThePacketsFlowsAndFlowletsOfTheirTable) {
  uint64_t compared = 0;
  for (TableRow& row : rows_) {
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
  for (TableRow& row : rows_) {
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

// How many of the files below `folder` Wireshark reads packets from; -1 where
// it is not installed.
int CapinfosCount(const std::string& folder) {
  const std::string command =
      "command -v capinfos >/dev/null || exit 0; find '" + folder +
      "' -type f -print0 | xargs -0 capinfos -c -M 2>/dev/null | "
      "grep 'Number of packets' | grep -vc ' 0$'";
  std::FILE* pipe = popen(command.c_str(), "r");
  int count = -1;
  if (pipe == nullptr || std::fscanf(pipe, "%d", &count) != 1) count = -1;
  if (pipe != nullptr) pclose(pipe);
  return count;
}

// Bad data, or of a kind that is not read, in one line with file, offset and
// reason.
void ExpectTold(const absl::Status& status, const std::string& file) {
  const std::string message(status.message());
  EXPECT_TRUE(status.code() == absl::StatusCode::kDataLoss ||
              status.code() == absl::StatusCode::kUnimplemented)
      << message;
  EXPECT_EQ(message.find(file + ": offset "), 0u) << message;
  EXPECT_EQ(message.find('\n'), message.npos) << message;
}

// Files that broke other programs: what can be read of each is replayed.
TEST(FuzzSeeds, GoThroughAReplayAndAddUp) {
  const std::string seeds = CapturesDir() + "/fuzz-seeds.tar.zst";
  if (!std::filesystem::exists(seeds)) {
    GTEST_SKIP() << "no " << seeds << "; SNF_TRACES names its folder";
  }
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) /
      fmt::format("snf-fuzz-seeds-{}", getpid());
  std::filesystem::create_directory(folder);
  const std::string unpack =
      fmt::format("zstd -dc '{}' | tar -xf - -C '{}'", seeds, folder.string());
  ASSERT_EQ(std::system(unpack.c_str()), 0) << unpack;

  RunOptions options;
  options.controller.max_flows = 4'096;
  options.buffers = {.small = 4'096, .medium = 256, .large = 16};
  options.controller.max_units = 4;
  options.controller.unit_capacity_bps = 5'000'000;
  uint64_t files = 0, with_packets = 0, packets = 0, not_ip = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    SCOPED_TRACE(entry.path().string());
    ++files;
    auto reader = MergedReader::Open({entry.path().string()});
    if (!reader.ok()) {
      ExpectTold(reader.status(), entry.path().string());
      continue;
    }
    VirtualDriver driver(options, *FindPlacementPolicy("snf"),
                         *FindNf("passthrough"), {});
    CapturedPacket packet;
    while ((*reader)->Next(packet) == ReadResult::kPacket) {
      driver.Offer(packet);
    }
    const RunResult run = driver.Finish();
    ExpectSound(run);
    // Never nothing, and in silence.
    if (!(*reader)->status().ok()) {
      ExpectTold((*reader)->status(), entry.path().string());
    } else {
      EXPECT_GT(run.packets_in, 0u);
    }
    with_packets += run.packets_in > 0 ? 1 : 0;
    packets += run.packets_in;
    not_ip += run.packets_passed_through;
  }
  std::cout << files << " files, " << with_packets
            << " with packets (capinfos: " << CapinfosCount(folder.string())
            << "), " << packets << " packets, " << not_ip
            << " of them passed through\n";
  std::filesystem::remove_all(folder);
  EXPECT_GE(files, 3'000u);
  EXPECT_GE(with_packets, 2'800u);
}

}  // namespace
}  // namespace snf
