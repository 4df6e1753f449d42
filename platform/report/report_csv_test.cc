// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/report/report.h"
#include "platform/report/test_report.h"
#include "platform/run/figures/figures.h"

namespace snf {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string Contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class CsvTest : public testing::Test {
 protected:
  CsvTest()
      : directory_(
            std::filesystem::path(testing::TempDir()) /
            (std::string("snf_csv_") +
             testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(directory_);
  }
  ~CsvTest() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path directory_;
};

TEST_F(CsvTest, HasALineForEachEpoch) {
  RunResult result = Result();
  result.first_packet = result.first_packet + Milliseconds(30);
  const auto deeper = directory_ / "deeper";
  ASSERT_TRUE(WriteCsv(deeper, Options(), result).ok());
  EXPECT_EQ(Contents(deeper / "bandwidth.csv"),
            "start_s,offered_bps,drained_bps,provisioned_bps,units,"
            "dropped_packets\n"
            "0.000000000,150000000,150000000,175000000,1.7500,0\n"
            "0.100000000,150000000,150000000,175000000,1.7500,0\n"
            "0.200000000,150000000,150000000,175000000,1.7500,5\n");
}

TEST_F(CsvTest, ProvisionsNothingWithoutACapacity) {
  ASSERT_TRUE(WriteCsv(directory_, Options(), Result(), nullptr, true).ok());
  EXPECT_THAT(Contents(directory_ / "bandwidth.csv"),
              HasSubstr("\n0.000000000,150000000,150000000,,1.7500,0\n"));
  const std::string figures = Contents(directory_ / "figures.csv");
  EXPECT_THAT(figures, Not(HasSubstr("capacity_used")));
  EXPECT_THAT(figures, Not(HasSubstr("utilisation")));
}

TEST_F(CsvTest, LeavesNoSeriesOfAnEarlierRun) {
  std::filesystem::create_directories(directory_);
  for (const char* name : {"units.csv", "unit_series.csv", "mine.csv"}) {
    std::ofstream(directory_ / name) << "earlier";
  }
  ASSERT_TRUE(WriteCsv(directory_, Options(), Result()).ok());
  EXPECT_FALSE(std::filesystem::exists(directory_ / "units.csv"));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "unit_series.csv"));
  EXPECT_EQ(Contents(directory_ / "mine.csv"), "earlier");
}

TEST_F(CsvTest, LeavesEmptyWhatNobodyMeasuredOfUnits) {
  RunResult result = Result();
  result.unit_ns_with_traffic = 0;
  ASSERT_TRUE(WriteCsv(directory_, Options(), result).ok());
  EXPECT_THAT(Contents(directory_ / "bandwidth.csv"),
              HasSubstr("\n0.000000000,150000000,150000000,,,0\n"));
  const std::string figures = Contents(directory_ / "figures.csv");
  EXPECT_THAT(figures, HasSubstr("\nunits_used_max,2,units\n"));
  for (const char* key : {"units_used_mean", "capacity_used", "utilisation"}) {
    EXPECT_THAT(figures, Not(HasSubstr(key)));
  }
}

TEST_F(CsvTest, HasTheQuantilesOfLatency) {
  RunResult result = Result();
  result.latency_ns.Reset();
  for (int64_t i = 0; i <= 100; ++i) result.latency_ns.Record(i);
  ASSERT_TRUE(WriteCsv(directory_, Options(), result).ok());
  EXPECT_EQ(Contents(directory_ / "latency.csv"),
            "quantile,latency_ns\n0.00000,0\n0.01000,1\n0.10000,10\n"
            "0.25000,25\n0.50000,50\n0.75000,75\n0.90000,90\n0.95000,95\n"
            "0.99000,99\n0.99900,100\n0.99990,100\n1.00000,100\n");
}

TEST_F(CsvTest, HasTheQuantilesOfWaiting) {
  ASSERT_TRUE(WriteCsv(directory_, Options(), Result()).ok());
  EXPECT_EQ(Contents(directory_ / "wait.csv"),
            "quantile,wait_ns\n0.00000,0\n0.01000,0\n0.10000,0\n0.25000,0\n"
            "0.50000,0\n0.75000,0\n0.90000,0\n0.95000,10007\n0.99000,34015\n"
            "0.99900,40000\n0.99990,40000\n1.00000,40000\n");
}

TEST_F(CsvTest, HasEachFigureThatIsANumber) {
  ASSERT_TRUE(WriteCsv(directory_, Options(), Result()).ok());
  const std::string figures = Contents(directory_ / "figures.csv");
  EXPECT_THAT(figures,
              StartsWith("figure,value,unit\npackets_in,10000,packets\n"));
  EXPECT_THAT(figures, HasSubstr("\nunits_used_mean,1.75,units\n"));
  EXPECT_THAT(figures, HasSubstr("\nflowlets_by.gap,1000,flowlets\n"));
  EXPECT_THAT(figures, HasSubstr("\nsound,true,\n"));
  EXPECT_THAT(figures, Not(HasSubstr("latency_ns")));
  EXPECT_THAT(figures, Not(HasSubstr("pools")));
}

TEST_F(CsvTest, HasALineForEachNumberOfTheTableOfFigures) {
  RunResult result = WithAliases();
  result.real.threads = 3;
  result.real.starts.is_pooled = true;
  result.loggers.entries = 1;
  result.state.units.records_shown = 1;
  result.faults.kills = 1;
  result.controller_faults.kills = 1;
  result.cluster.controllers = 2;
  result.store.reads = 1;
  result.recovery.samples = 1;
  const ReportFigures derived = FiguresOf(Options(), result);
  ASSERT_TRUE(WriteCsv(directory_, Options(), result).ok());
  const std::string figures = Contents(directory_ / "figures.csv");
  for (const Figure& figure : Figures()) {
    const FigureValue value = ValueOf(figure, result, derived);
    const bool is_number = !std::holds_alternative<std::monostate>(value) &&
                           !std::holds_alternative<const Histogram*>(value);
    const std::string line = "\n" + std::string(figure.key) + ",";
    const bool has_line = figures.find(line) != figures.npos;
    EXPECT_EQ(has_line, is_number && figure.is_in_report()) << figure.key;
  }
}

TEST_F(CsvTest, ReplacesItsOwnFilesOnly) {
  std::filesystem::create_directories(directory_);
  std::ofstream(directory_ / "bandwidth.csv") << std::string(10'000, 'x');
  std::ofstream(directory_ / "mine.csv") << "mine";
  ASSERT_TRUE(WriteCsv(directory_, Options(), RunResult{}).ok());
  EXPECT_EQ(Contents(directory_ / "bandwidth.csv"),
            "start_s,offered_bps,drained_bps,provisioned_bps,units,"
            "dropped_packets\n");
  EXPECT_EQ(Contents(directory_ / "latency.csv"), "quantile,latency_ns\n");
  EXPECT_EQ(Contents(directory_ / "mine.csv"), "mine");
}

TEST_F(CsvTest, NamesThePathThatItCannotWrite) {
  std::filesystem::create_directories(directory_ / "bandwidth.csv");
  const absl::Status status = WriteCsv(directory_, Options(), Result());
  EXPECT_THAT(std::string(status.message()),
              HasSubstr((directory_ / "bandwidth.csv").string()));
  EXPECT_THAT(std::string(status.message()), HasSubstr("Is a directory"));

  std::ofstream(directory_ / "file") << "x";
  const absl::Status no_directory =
      WriteCsv(directory_ / "file" / "in_it", Options(), Result());
  EXPECT_THAT(std::string(no_directory.message()),
              HasSubstr((directory_ / "file" / "in_it").string()));
  EXPECT_THAT(std::string(no_directory.message()),
              HasSubstr("Not a directory"));
}

TEST_F(CsvTest, SaysWhenTheDiskIsFull) {
  std::filesystem::create_directories(directory_);
  std::filesystem::create_symlink("/dev/full", directory_ / "bandwidth.csv");
  EXPECT_THAT(std::string(WriteCsv(directory_, Options(), Result()).message()),
              HasSubstr("No space left on device"));
}

}  // namespace
}  // namespace snf
