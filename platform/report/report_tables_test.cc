// SPDX-License-Identifier: Apache-2.0
#include "platform/report/report_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "nlohmann/json.hpp"

namespace snf {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunResult Result() {
  RunResult result;
  TableFigures table = {.nf = "monitor",
                        .name = "hosts",
                        .entries = 2,
                        .max_entries = 65'536,
                        .updates = 1'234,
                        .refused = 5,
                        .forgotten = 9,
                        .messages = 20,
                        .bytes = 3'000,
                        .repeated = 1};
  table.staleness_ns.Record(2'000'000);
  table.spread_ns.Record(3'000'000);
  result.tables.push_back(table);
  NfReport report;
  report.tables.push_back(
      {.title = "Top talkers",
       .columns = {"host", "bytes_sent"},
       .rows = {{"10.0.0.1", uint64_t{12'345}}, {"192.0.2.123", uint64_t{7}}}});
  result.nf_reports.push_back({.nf = "monitor", .report = report});
  return result;
}

TEST(ReportTables, TellsOfTablesAndOfWhatNfsReport) {
  Page page(Terminal{.columns = 100});
  AddTables(Result(), page);
  const std::string text = page.Take();
  EXPECT_THAT(text, HasSubstr("monitor.hosts: 2 of 65,536 entries; 1,234 "
                              "updates in 20 messages"));
  EXPECT_THAT(text, HasSubstr(", 5 into"));
  EXPECT_THAT(text, HasSubstr(", 9 entries into the rest because old"));
  EXPECT_THAT(text, HasSubstr("2.00 ms, and everywhere after max 3.00 ms"));
  EXPECT_THAT(text, HasSubstr("Top talkers (monitor)\n"
                              "  host         bytes sent\n"
                              "  10.0.0.1         12,345\n"
                              "  192.0.2.123           7\n"));
}

TEST(ReportTables, TellsOfLogsAndTheirLosses) {
  RunResult result;
  result.nf_logs = {{.name = "ids.alerts", .released = 1'234, .no_room = 2},
                    {.name = "nat.bindings"}};
  result.nf_log = {.released = 1'234,
                   .no_room = 2,
                   .batches_lost = 3,
                   .batches_refused = 4,
                   .queue_full = 5,
                   .write_failed = 6};
  result.state.units.records_refused = 7;
  Page page(Terminal{.columns = 100});
  AddNfLogs(result, page);
  const std::string text = page.Take();
  EXPECT_THAT(text, HasSubstr("1,234  records of ids.alerts\n"));
  EXPECT_THAT(text, HasSubstr("2  more of ids.alerts did not fit"));
  EXPECT_THAT(text, HasSubstr("7  records lost: their unit had no buffer"));
  EXPECT_THAT(text, HasSubstr("3  packets lost with their records"));
  EXPECT_THAT(text, HasSubstr("4  packets' records refused"));
  EXPECT_THAT(text, HasSubstr("5  records not written"));
  EXPECT_THAT(text, HasSubstr("6  lines not written"));
  EXPECT_THAT(text, Not(HasSubstr("nat.bindings")));
}

TEST(ReportTables, SaysNothingWhereThereIsNone) {
  Page page(Terminal{});
  AddTables(RunResult{}, page);
  AddNfLogs(RunResult{}, page);
  EXPECT_EQ(page.Take(), "");
}

TEST(ReportTables, TellsProgramsTheSame) {
  const nlohmann::ordered_json json = {
      {"tables", JsonOfTables(Result())},
      {"nf_reports", JsonOfNfReports(Result())}};
  EXPECT_EQ(json, nlohmann::ordered_json::parse(R"({
    "tables": {"monitor.hosts": {
      "entries": 2, "max_entries": 65536, "updates": 1234, "refused": 5,
      "forgotten": 9,
      "messages": 20, "bytes": 3000, "repeated": 1,
      "staleness_ns": {"p50": 2000000, "p99": 2000000, "max": 2000000},
      "spread_ns": {"p50": 3000000, "p99": 3000000, "max": 3000000}}},
    "nf_reports": {"monitor.Top talkers": [
      {"host": "10.0.0.1", "bytes_sent": 12345},
      {"host": "192.0.2.123", "bytes_sent": 7}]}})"));
}

TEST(ReportTables, TellsWhatCameAndLeftByPorts) {
  RunResult result;
  result.live = {.ports = {{.name = "inside",
                            .interface = "lan0",
                            .received = 1'200,
                            .split = 34,
                            .merged = 9,
                            .sent = 56},
                           {.name = "outside",
                            .interface = "wan0",
                            .received = 60,
                            .refused = 7,
                            .kernel_drops = 8,
                            .sent = 1'190,
                            .send_drops = 9,
                            .too_long = 4}},
                 .filtered = 12,
                 .unrouted = 3,
                 .copies = 2};
  Page page(Terminal{.columns = 100});
  page.set_number_columns(7);
  AddPorts(result, page);
  EXPECT_EQ(page.Take(),
            R"(Port            1,200  received by inside (lan0)
                   34  frames, of several packets each, split into these
                    9  frames among these, of several packets each, kept whole
                   56  sent
Port               60  received by outside (wan0)
                    7  frames refused: cut, or not to be split
                    8  frames dropped by the kernel: too fast
                1,190  sent
                    5  not taken by the kernel: too fast, or it is down
                    4  not sent: longer than the MTU
                    2  copies, of packets that left by several ports of a side
                   12  between hosts of one side: filtered
                    3  made by the NF, its receiver and sender unseen: not sent

)");
  result.live = {.ports = {{.name = "inside",
                            .interface = "lan0",
                            .received = 5,
                            .sent = 4,
                            .send_drops = 3,
                            .router = {{"arp_answered", 2}, {"group", 0}}}}};
  Page routed(Terminal{.columns = 100});
  routed.set_number_columns(7);
  AddPorts(result, routed);
  EXPECT_EQ(routed.Take(),
            R"(Port                5  received by inside (lan0)
                    4  sent
                    3  not sent for other reasons, which the next lines name
                    2  arp_answered

)");
  Page none(Terminal{.columns = 100});
  AddPorts({}, none);
  EXPECT_EQ(none.Take(), "");
}

TEST(ReportTables, WritesTheFilesThatNfsMade) {
  RunResult result = Result();
  const std::string path = testing::TempDir() + "snf-report-tables";
  result.nf_reports[0].report.files.push_back({path, std::string("a\0b", 3)});
  ASSERT_TRUE(WriteNfFiles(result).ok());
  std::ifstream file(path, std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}),
            std::string("a\0b", 3));
  std::remove(path.c_str());
  result.nf_reports[0].report.files[0].path = path + "/none/file";
  EXPECT_THAT(std::string(WriteNfFiles(result).message()),
              HasSubstr(path + "/none/file: cannot create: "));
}

}  // namespace
}  // namespace snf
