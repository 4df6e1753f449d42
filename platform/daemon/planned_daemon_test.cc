// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/planned_daemon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace snf {
namespace {

using testing::HasSubstr;

constexpr char kEdge[] = R"(port: "inside=lan0"
port: "outside=tap:wan0"
chain { name: "edge" text: "policer(rate=8Mbps) | monitor" max_units: 3
        unit_capacity: "50Mbps" }
setting { name: "alpha" value: "0.25" }
setting { name: "log" value: "/var/log/a \"b\".log" }
setting { name: "keep" value: "10s" }
setting { name: "isolation" value: "process" }
setting { name: "loggers" value: "on" }
)";

void Parse(const PlannedDaemon::Input& input, PlannedDaemon& daemon) {
  absl::Status status = daemon.Parse(input);
  ASSERT_TRUE(status.ok()) << status;
  status = daemon.Check();
  ASSERT_TRUE(status.ok()) << status;
}

std::map<std::string, std::string> SettingsOf(const PlannedDaemon& daemon) {
  const auto settings = daemon.settings();
  return {settings.begin(), settings.end()};
}

TEST(PlannedDaemon, IsAsTheFileAndTheCommandLineSay) {
  PlannedDaemon daemon;
  Parse({.command_line = {"--config=edge.conf", "--alpha=0.5"},
         .file = "",
         .text = kEdge},
        daemon);
  EXPECT_EQ(daemon.ports(), "inside=lan0, outside=tap:wan0");
  EXPECT_EQ(daemon.options().config.chains.front().nf.text(),
            "policer(rate=8Mbps) | monitor");
  const auto settings = SettingsOf(daemon);
  EXPECT_EQ(settings.at("alpha"), "0.5");
  EXPECT_EQ(settings.at("keep"), "10s");
  for (const char* left_out : {"port", "config", "nf", "name", "upgrade"}) {
    EXPECT_FALSE(settings.contains(left_out)) << left_out;
  }
  EXPECT_TRUE(daemon.may_change("alpha"));
  EXPECT_TRUE(daemon.may_change("log_level"));
  EXPECT_FALSE(daemon.may_change("keep"));
}

TEST(PlannedDaemon, ShowsAFileThatGivesTheSame) {
  PlannedDaemon first;
  Parse({.command_line = {}, .file = "edge.conf", .text = kEdge}, first);
  const std::string text = first.Text();
  EXPECT_THAT(text, HasSubstr("\nsetting { name: \"alpha\" value: \"0.25\" }"));
  EXPECT_THAT(text, HasSubstr("\n# setting { name: \"max_units\" value: \"3"));
  PlannedDaemon second;
  Parse({.command_line = {}, .file = "again.conf", .text = text}, second);
  EXPECT_EQ(SettingsOf(second), SettingsOf(first));
  EXPECT_EQ(second.ports(), first.ports());
  EXPECT_EQ(second.options().config.chains.front().max_units, 3u);
  EXPECT_EQ(second.options().config.chains.front().unit_capacity_bps,
            50'000'000);
  EXPECT_EQ(second.Text(), text);
}

TEST(PlannedDaemon, ShowsAChainOfTheCommandLine) {
  PlannedDaemon first;
  Parse({.command_line = {"--port=inside=a", "--port=outside=b",
                          "--nf=policer:rate=8Mbps"},
         .file = ""},
        first);
  PlannedDaemon second;
  Parse({.command_line = {}, .file = "again.conf", .text = first.Text()},
        second);
  EXPECT_EQ(second.options().config.chains.front().nf.text(),
            first.options().config.chains.front().nf.text());
}

TEST(PlannedDaemon, HasWhatWasSetSince) {
  PlannedDaemon daemon;
  Parse({.command_line = {"--alpha=0.5"},
         .file = "edge.conf",
         .text = kEdge,
         .set = {{"alpha", "0.75"}, {"log_level", "error"}},
         .chains = {{"edge", "passthrough"}}},
        daemon);
  EXPECT_EQ(SettingsOf(daemon).at("alpha"), "0.75");
  EXPECT_EQ(SettingsOf(daemon).at("log_level"), "error");
  EXPECT_EQ(daemon.options().config.chains.front().nf.text(), "passthrough");
}

TEST(PlannedDaemon, NamesThePlaceOfFlagsOfTheDaemon) {
  PlannedDaemon daemon;
  const std::string text = std::string(kEdge) +
                           "setting { name: \"foreground\" "
                           "value: \"true\" }";
  EXPECT_EQ(
      std::string(
          daemon.Parse({.command_line = {}, .file = "edge.conf", .text = text})
              .message()),
      "edge.conf:10:30: foreground is for the command line, not for a "
      "file");
  PlannedDaemon other;
  std::string threads(kEdge);
  threads.replace(threads.find("process"), 7, "thread");
  ASSERT_TRUE(
      other.Parse({.command_line = {}, .file = "edge.conf", .text = threads})
          .ok());
  EXPECT_THAT(std::string(other.Check().message()),
              testing::StartsWith("edge.conf:7:24: --keep: wants"));
}

}  // namespace
}  // namespace snf
