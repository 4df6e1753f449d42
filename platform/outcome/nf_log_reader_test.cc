// SPDX-License-Identifier: Apache-2.0
#include "platform/outcome/nf_log_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string LineAt(int second, const std::string& rest = "") {
  return "{\"timestamp\":\"2026-11-27T22:31:" + std::to_string(10 + second) +
         ".000000+0000\",\"event\":\"" + rest + "\"}\n";
}

// A directory of logs, and a reader of it.
class NfLogReaderTest : public testing::Test {
 protected:
  NfLogReaderTest()
      : folder_(std::filesystem::path(testing::TempDir()) /
                ("logs-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~NfLogReaderTest() override { std::filesystem::remove_all(folder_); }

  std::string PathOf(const std::string& log) const {
    return folder_ / (log + ".log");
  }
  void Append(const std::string& log, const std::string& text) const {
    std::ofstream(PathOf(log), std::ios::app) << text;
  }
  NfLogReader Open(std::vector<std::string> logs = {}) const {
    auto reader = NfLogReader::Open(folder_, std::move(logs));
    EXPECT_TRUE(reader.ok()) << reader.status();
    return *std::move(reader);
  }
  static std::string AllOf(NfLogReader& reader) {
    std::string all;
    while (true) {
      const auto lines = reader.Next();
      EXPECT_TRUE(lines.ok()) << lines.status();
      if (!lines.ok() || lines->empty()) return all;
      all += *lines;
    }
  }

  const std::filesystem::path folder_;
};

TEST_F(NfLogReaderTest, MergesFilesByTime) {
  Append("nat.bindings", LineAt(1) + LineAt(3));
  Append("ids.alerts", LineAt(2, "a") + LineAt(4, "b"));
  Append("other", "no time\n");
  NfLogReader reader = Open();
  EXPECT_EQ(AllOf(reader), "no time\n" + LineAt(1) + LineAt(2, "a") +
                               LineAt(3) + LineAt(4, "b"));
  EXPECT_THAT(reader.found(),
              ElementsAre("ids.alerts", "nat.bindings", "other"));
  Append("ids.alerts", LineAt(6));
  Append("nat.bindings", LineAt(5));
  EXPECT_EQ(AllOf(reader), LineAt(5) + LineAt(6));
  EXPECT_EQ(AllOf(reader), "");
}

TEST_F(NfLogReaderTest, ReadsNamedLogsAloneAlsoOnesThatComeLate) {
  Append("nat.bindings", LineAt(1));
  NfLogReader reader = Open({"ids.alerts"});
  EXPECT_EQ(AllOf(reader), "");
  EXPECT_THAT(reader.found(), ElementsAre());
  Append("ids.alerts", LineAt(2));
  Append("nat.bindings", LineAt(3));
  EXPECT_EQ(AllOf(reader), LineAt(2));
  EXPECT_THAT(reader.found(), ElementsAre("ids.alerts"));
}

TEST_F(NfLogReaderTest, ReturnsNoLineBeforeItsEnd) {
  Append("a.b", "begin");
  NfLogReader reader = Open();
  EXPECT_EQ(AllOf(reader), "");
  Append("a.b", "ning\nrest");
  EXPECT_EQ(AllOf(reader), "beginning\n");
  Append("a.b", "\n");
  EXPECT_EQ(AllOf(reader), "rest\n");
}

TEST_F(NfLogReaderTest, FollowsAFileThatIsRotated) {
  Append("a.b", LineAt(1));
  NfLogReader reader = Open();
  EXPECT_EQ(AllOf(reader), LineAt(1));
  // The writer still has the file that was renamed.
  std::ofstream writer(PathOf("a.b"), std::ios::app);
  std::filesystem::rename(PathOf("a.b"), PathOf("a.b") + ".1");
  writer << LineAt(2) << std::flush;
  EXPECT_EQ(AllOf(reader), LineAt(2));
  writer << LineAt(3) << "torn" << std::flush;
  Append("a.b", LineAt(4));
  EXPECT_EQ(AllOf(reader), LineAt(3) + "torn\n" + LineAt(4));
  Append("a.b", LineAt(5));
  EXPECT_EQ(AllOf(reader), LineAt(5));
  EXPECT_THAT(reader.found(), ElementsAre("a.b"));
}

TEST_F(NfLogReaderTest, FollowsAFileThatIsEmptied) {
  Append("a.b", LineAt(1) + LineAt(2));
  NfLogReader reader = Open();
  EXPECT_EQ(AllOf(reader), LineAt(1) + LineAt(2));
  std::filesystem::resize_file(PathOf("a.b"), 0);
  Append("a.b", LineAt(3));
  EXPECT_EQ(AllOf(reader), LineAt(3));
}

TEST_F(NfLogReaderTest, ReadsMoreThanItReturnsAtOnce) {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += LineAt(1, std::to_string(i));
  Append("a.b", text);
  Append("a.c", std::string(2 * NfLogReader::kLongestLine, 'x') + "\n");
  NfLogReader reader = Open({"a.b"});
  EXPECT_EQ(AllOf(reader), text);
  NfLogReader other = Open({"a.c"});
  EXPECT_GE(AllOf(other).size(), 2 * NfLogReader::kLongestLine);
}

TEST_F(NfLogReaderTest, NamesWhatCannotBeRead) {
  const auto none = NfLogReader::Open(folder_ / "none", {});
  EXPECT_THAT(std::string(none.status().message()),
              HasSubstr("none: No such file or directory"));
  std::filesystem::create_directories(PathOf("a.b"));
  NfLogReader reader = Open();
  EXPECT_THAT(std::string(reader.Next().status().message()),
              HasSubstr("a.b.log: Is a directory"));
}

}  // namespace
}  // namespace snf
