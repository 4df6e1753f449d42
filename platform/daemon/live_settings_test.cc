// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/live_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "controller/core/controller.h"
#include "controller/core/placement.h"
#include "platform/options/run_flags.h"

namespace snf {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;
using Values = std::map<std::string, std::string>;

// The command line of a daemon: flags of a run, and flags of its own.
class CommandLine {
 public:
  explicit CommandLine(std::vector<std::string> words)
      : run_(flags_, RunFlags::Input::kPorts) {
    flags_.Text("manager", manager_, "NAME", "of the daemon");
    flags_.Switch("upgrade", upgrade_, "of the daemon");
    words.insert(words.end(), {"--port=inside=a", "--port=outside=b"});
    EXPECT_TRUE(flags_.ParseCommandLine(words).ok());
    if (flags_.given("manager")) {  // ManagerMembership::Settle
      flags_.Give("max_units", {"4"});
      flags_.Give("unit_capacity", {"10Mbps"});
    }
    const absl::Status settled = run_.Settle();
    EXPECT_TRUE(settled.ok()) << settled;
  }
  RunRequest options() const {
    RunRequest options = run_.options();
    options.run.controller.leased = flags_.given("manager");
    return options;
  }

 private:
  FlagSet flags_;
  RunFlags run_;
  std::string manager_ = "none";
  bool upgrade_ = false;
};

LiveSettings SettingsOf(const std::vector<std::string>& words) {
  return {CommandLine(words).options(), LogLevel::kInfo};
}

std::string WhyNot(const LiveSettings& settings, const Values& values) {
  return std::string(settings.Check(values).status().message());
}

TEST(LiveSettings, ChecksAChangeAsTheCommandLineWouldBe) {
  const LiveSettings settings =
      SettingsOf({"--alpha=0.25", "--flowlet_timeout=200us"});
  const auto options = settings.Check({{"alpha", "0.5"}});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->at("").alpha_1024, 512u);
  EXPECT_EQ(options->at("").flowlet_timeout, Microseconds(200));
  EXPECT_THAT(WhyNot(settings, {{"flow_timeout", "100us"}}),
              HasSubstr("--flowlet_timeout=200us"));
}

TEST(LiveSettings, LeavesOutFlagsOfTheDaemon) {
  for (const char* flag : {"--manager=m", "--upgrade"}) {
    const LiveSettings settings = SettingsOf({flag, "--alpha=0.25"});
    EXPECT_EQ(WhyNot(settings, {{"alpha", "0.5"}}), "") << flag;
    EXPECT_TRUE(settings.OptionsWith({{"", "passthrough"}}).ok()) << flag;
  }
}

TEST(LiveSettings, KeepsTheUnitsOfAResourceManager) {
  const LiveSettings settings = SettingsOf({"--manager=m"});
  EXPECT_THAT(WhyNot(settings, {{"max_units", "2"}}),
              HasSubstr("resource manager"));
  const auto options = settings.Check({{"push_delay", "1ms"}});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->at("").max_units, 4u);
  EXPECT_EQ(options->at("").unit_capacity_bps, 10'000'000);
}

TEST(LiveSettings, WritesTheCommandLineAgainWithoutOutputsAndDefaults) {
  const LiveSettings settings = SettingsOf(
      {"--alpha=0.25", "--json=report.json", "--quiet", "--manager=m"});
  EXPECT_THAT(settings.CommandLine(),
              UnorderedElementsAre("--port=inside=a", "--port=outside=b",
                                   "--alpha=0.25", "--max_units=4",
                                   "--unit_capacity=10Mbit/s"));
}

TEST(LiveSettings, NamesWhatIsNoSettingAndWhatCannotChange) {
  const LiveSettings settings = SettingsOf({});
  EXPECT_THAT(WhyNot(settings, {{"alhpa", "1"}}), HasSubstr("no setting"));
  EXPECT_THAT(WhyNot(settings, {{"manager", "m"}}), HasSubstr("no setting"));
  EXPECT_THAT(WhyNot(settings, {{"unit_queue", "1"}}),
              HasSubstr("cannot change"));
  EXPECT_THAT(WhyNot(settings, {{"log_level", "loud"}}), HasSubstr("loud"));
}

TEST(LiveSettings, HasNoMoreThanItWasStartedWith) {
  const LiveSettings settings = SettingsOf({"--max_units=8", "--replicas=2"});
  EXPECT_THAT(WhyNot(settings, {{"max_units", "9"}}), HasSubstr("with 8"));
  EXPECT_THAT(WhyNot(settings, {{"replicas", "3"}}), HasSubstr("with 2"));
  EXPECT_EQ(WhyNot(settings, {{"max_units", "3"}}), "");
}

TEST(LiveSettings, ListsAcceptedValuesAndChecksLaterOnesWithThem) {
  LiveSettings settings = SettingsOf({});
  settings.Accept({{"flowlet_timeout", "5ms"}, {"log_level", "error"}});
  EXPECT_EQ(settings.List().at("flowlet_timeout"), "5ms");
  EXPECT_EQ(settings.List().at("log_level"), "error");
  EXPECT_THAT(WhyNot(settings, {{"flow_timeout", "4ms"}}),
              HasSubstr("--flowlet_timeout=5ms"));
}

TEST(LiveSettings, KnowsWhatChangedSinceTheStartOrTheFile) {
  LiveSettings settings = SettingsOf({"--alpha=0.25", "--flow_timeout=60s"});
  EXPECT_TRUE(settings.changed().empty());
  settings.Accept(
      {{"alpha", "0.5"}, {"replicas", "2"}, {"log_level", "error"}});
  EXPECT_EQ(
      settings.changed(),
      (Values{{"alpha", "0.5"}, {"replicas", "2"}, {"log_level", "error"}}));
  settings.Accept({{"alpha", "0.25"}});
  EXPECT_EQ(settings.changed(),
            (Values{{"replicas", "2"}, {"log_level", "error"}}));
  settings.AcceptConfig("edge.conf", "", {{"replicas", "2"}},
                        {{"", "passthrough"}});
  EXPECT_TRUE(settings.changed().empty());
  EXPECT_EQ(settings.flags(), (Values{{"replicas", "2"}}));
  EXPECT_EQ(settings.chains(), (Values{{"", "passthrough"}}));
}

// Returns what the controller keeps in itself, besides tables.
std::vector<unsigned char> BytesOf(const Controller& controller) {
  std::vector<unsigned char> bytes(sizeof controller);
  std::memcpy(bytes.data(), static_cast<const void*>(&controller),
              sizeof controller);
  return bytes;
}

TEST(LiveSettings, TheControllerTakesEachOver) {
  const Values others = {{"alpha", "0.5"},
                         {"demand_floor", "7ms"},
                         {"evict_after", "7s"},
                         {"ewma_delta", "0.25"},
                         {"flow_timeout", "7s"},
                         {"flowlet_bytes", "7KB"},
                         {"flowlet_timeout", "700us"},
                         {"keep_warm", "7s"},
                         {"max_units", "7"},
                         {"push_delay", "7ms"},
                         {"reassign_period", "7ms"},
                         {"replicas", "1"},
                         {"start_timeout", "7s"},
                         {"unit_idle_timeout", "70ms"}};
  const RunRequest request =
      CommandLine({"--policy=smart_flow", "--max_units=8"}).options();
  const LiveSettings settings(request, LogLevel::kInfo);
  const ControllerOptions& began = request.run.controller;
  const auto controller =
      std::make_unique<Controller>(began, *FindPlacementPolicy("smart_flow"));
  for (const auto& [name, value] : settings.List()) {
    if (name == "log_level") continue;
    ASSERT_TRUE(others.contains(name)) << name;
    const auto options = settings.Check({{name, others.at(name)}});
    ASSERT_TRUE(options.ok()) << options.status();
    ASSERT_TRUE(controller->Tune(Instant{}, began));
    const auto before = BytesOf(*controller);
    ASSERT_TRUE(controller->Tune(Instant{}, began));
    ASSERT_EQ(BytesOf(*controller), before);
    ASSERT_TRUE(controller->Tune(Instant{}, options->at("")));
    EXPECT_NE(BytesOf(*controller), before) << name;
  }
}

}  // namespace
}  // namespace snf
