// SPDX-License-Identifier: Apache-2.0
#include "platform/options/config_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "platform/options/config.h"
#include "platform/options/run_flags.h"
#include "traces/fixture_folder.h"

namespace snf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using Words = std::vector<std::string>;

// A command line of live traffic, and what a file gives to it.
class Given {
 public:
  explicit Given(const std::string& text, Words words = {})
      : run(flags, RunFlags::Input::kPorts) {
    EXPECT_TRUE(flags.ParseCommandLine(words).ok());
    auto parsed = ConfigSettings::Parse(text, "edge.conf");
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    settings = *std::move(parsed);
    wrong = settings.GiveTo(flags);
  }

  FlagSet flags;
  RunFlags run;
  ConfigSettings settings;
  Words wrong;
};

TEST(ConfigSettings, GivesFlagsTheValuesOfTheFile) {
  const Given given(R"(
port: "inside=lan0"
port: "outside=tap:wan0"
port: "outside=wan1"
setting { name: "alpha" value: "0.25" }
setting { name: "pin" value: "true" })");
  EXPECT_THAT(given.wrong, IsEmpty());
  EXPECT_THAT(given.settings.overridden(), IsEmpty());
  EXPECT_EQ(given.flags.Printed("port"),
            "--port=inside=lan0,outside=tap:wan0,outside=wan1");
  EXPECT_EQ(given.flags.Printed("alpha"), "--alpha=0.25");
  EXPECT_EQ(given.flags.Printed("pin"), "--pin=true");
  EXPECT_TRUE(given.flags.given("alpha"));
  EXPECT_TRUE(given.settings.gave("alpha"));
  EXPECT_FALSE(given.flags.given("max_units"));
}

TEST(ConfigSettings, AreTheSameInJson) {
  const Given given(R"({"port": ["inside=lan0", "outside=wan0"],
      "setting": [{"name": "alpha", "value": "0.25"}]})");
  EXPECT_THAT(given.wrong, IsEmpty());
  EXPECT_EQ(given.flags.Printed("port"), "--port=inside=lan0,outside=wan0");
  EXPECT_EQ(given.flags.Printed("alpha"), "--alpha=0.25");
}

TEST(ConfigSettings, TellWhatTheCommandLineOverrides) {
  const Given given(R"(
port: "inside=lan0"
port: "outside=wan0"
setting { name: "alpha" value: "0.25" }
setting { name: "max_units" value: "8" })",
                    {"--port=inside=lan1", "--port=outside=wan0", "--alpha=0.5",
                     "--max_units=8"});
  EXPECT_THAT(given.wrong, IsEmpty());
  EXPECT_EQ(given.flags.Printed("port"), "--port=inside=lan1,outside=wan0");
  EXPECT_EQ(given.flags.Printed("alpha"), "--alpha=0.5");
  EXPECT_FALSE(given.settings.gave("alpha"));
  EXPECT_THAT(given.settings.overridden(),
              ElementsAre("--alpha=0.5 instead of \"0.25\" at edge.conf:4:25",
                          "--port=inside=lan1,outside=wan0 instead of "
                          "\"inside=lan0,outside=wan0\" at edge.conf:2:1"));
}

TEST(ConfigSettings, NameThePlaceOfAllThatIsWrong) {
  const Given given(R"(port: "inside=lan/0"
setting { name: "alhpa" value: "0.25" }
setting { name: "max_units" value: "0" }
setting { name: "alpha" value: "0.25" }
setting { name: "alpha" value: "0.5" }
setting { name: "pin" value: "maybe" }
setting { name: "nf" value: "nat" }
setting { name: "port" value: "inside=lan0" }
setting { value: "3" }
setting { name: "flow_timeout" })");
  EXPECT_THAT(
      given.wrong,
      ElementsAre(
          "edge.conf:1:1: port: \"lan/0\" is not the name of an interface: "
          "want 1 to 15 characters, without blanks, / and :",
          "edge.conf:2:25: there is no setting \"alhpa\"",
          "edge.conf:3:29: max_units: \"0\" is out of range: 1 to 65535",
          "edge.conf:5:25: alpha is there twice, first at edge.conf:4:25",
          "edge.conf:6:23: pin: \"maybe\" is none of true, false",
          "edge.conf:7:22: nf is for the command line, not for a file",
          "edge.conf:8:24: port has a field of its own",
          "edge.conf:9:11: there is no setting \"\"",
          StartsWith("edge.conf:10:11: flow_timeout: ")));
}

TEST(ConfigSettings, OfJsonAreNamedByTheirIndex) {
  const Given given(R"({"setting": [{"name": "max_units", "value": "0"}]})");
  EXPECT_THAT(given.wrong,
              ElementsAre("edge.conf: setting[0]: max_units: \"0\" is out of "
                          "range: 1 to 65535"));
}

TEST(ConfigSettings, RefuseFieldsThatDoNotExist) {
  const auto parsed =
      ConfigSettings::Parse("\nsettings { name: \"a\" }", "edge.conf");
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(parsed.status().message()),
              StartsWith("edge.conf:2:"));
}

TEST(ConfigSettings, HaveAPlaceForErrorsOfFlags) {
  const Given given(R"(
port: "inside=lan0"
port: "outside=wan0"
port: "inside=tap:lan1"
setting { name: "alpha" value: "0.25" })",
                    {"--max_units=8"});
  const ConfigSettings& settings = given.settings;
  EXPECT_EQ(settings.Placed("--alpha=0.25 with --x: why"),
            "edge.conf:5:25: --alpha=0.25 with --x: why");
  EXPECT_EQ(settings.Placed("--port: lan0 is given twice"),
            "edge.conf:2:1: --port: lan0 is given twice");
  EXPECT_EQ(settings.Placed("--port: lan1 is given twice"),
            "edge.conf:4:1: --port: lan1 is given twice");
  EXPECT_EQ(settings.Placed("--max_units=8: why"), "--max_units=8: why");
  EXPECT_EQ(settings.Placed("why"), "why");
}

std::string With(const std::string& text,
                 const std::map<std::string, std::string>& values) {
  const auto changed = WithSettings(text, "edge.conf", values);
  EXPECT_TRUE(changed.ok()) << changed.status();
  return changed.ok() ? *changed : "";
}

TEST(ConfigEdit, ChangesTheValueAlone) {
  EXPECT_EQ(With("# ü: \"alpha\"\n"
                 "port: \"inside=lan0\" setting { name: 'alpha'\n"
                 "\tvalue  :\t'0.25' # a quarter\n"
                 "}\n"
                 "setting <value: \"8\"; name: \"max_units\">  # most\n",
                 {{"alpha", "0.5"}, {"max_units", "16"}}),
            "# ü: \"alpha\"\n"
            "port: \"inside=lan0\" setting { name: 'alpha'\n"
            "\tvalue: \"0.5\" # a quarter\n"
            "}\n"
            "setting <value: \"16\"; name: \"max_units\">  # most\n");
}

TEST(ConfigEdit, ReplacesValuesOfSeveralPieces) {
  EXPECT_EQ(With("setting { name: \"a\" value: \"1\"\n  \"2\" }\n"
                 "setting { name: \"b\" value: \"ü\" } chain { name: \"c\" }\n",
                 {{"a", "3"}, {"b", "4\"\\\n"}}),
            "setting { name: \"a\" value: \"3\" }\n"
            "setting { name: \"b\" value: \"4\\\"\\\\\\n\" } "
            "chain { name: \"c\" }\n");
}

TEST(ConfigEdit, AddsASettingAtTheEnd) {
  EXPECT_EQ(With("port: \"inside=lan0\"", {{"alpha", "0.5"}, {"beta", "1"}}),
            "port: \"inside=lan0\"\n"
            "setting { name: \"alpha\" value: \"0.5\" }\n"
            "setting { name: \"beta\" value: \"1\" }\n");
}

TEST(ConfigEdit, RefusesWhatItCannotKeep) {
  EXPECT_EQ(
      WithSettings("setting {", "edge.conf", {{"a", "1"}}).status().code(),
      absl::StatusCode::kDataLoss);
  const auto json = WithSettings(" {\"port\": []}", "edge.conf", {{"a", "1"}});
  EXPECT_EQ(json.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(json.status().message()), HasSubstr("edge.conf"));
}

TEST(ConfigEdit, KeepsLinkAndPermissionsOfTheFile) {
  namespace fs = std::filesystem;
  const TestFolder scratch;
  const fs::path folder = scratch.Path("");
  const fs::path file = folder / "real.conf";
  const fs::path link = folder / "edge.conf";
  std::ofstream(file) << "port: \"inside=lan0\"\n";
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("real.conf", link);
  ASSERT_TRUE(SaveSettings(link.string(), {{"alpha", "0.5"}}).ok());
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(fs::status(file).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  const auto text = ReadConfigFile(file.string());
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, HasSubstr("alpha"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 2);
  EXPECT_EQ(SaveSettings((folder / "none").string(), {}).code(),
            absl::StatusCode::kNotFound);
}

// The whole way of a file, as snf run goes it.
TEST(RunFlagsOfAFile, AreCheckedTogether) {
  FlagSet flags;
  RunFlags run(flags, RunFlags::Input::kPorts);
  ASSERT_TRUE(flags.ParseCommandLine(Words{"--config=edge.conf"}).ok());
  run.UseConfig(R"(chain { name: "a" text: "passthrough" }
port: "inside=lan0"
port: "outside=wan0"
setting { name: "flowlet_timeout" value: "200us" }
setting { name: "flow_timeout" value: "100us" })");
  ASSERT_TRUE(run.TakeConfig().ok());
  const absl::Status status = run.Settle();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(std::string(status.message()),
            "edge.conf:5:32: --flow_timeout=100us with "
            "--flowlet_timeout=200us: a flow must outlive its flowlets");
}

TEST(RunFlagsOfAFile, RefuseAnInterfaceThatIsThereTwice) {
  FlagSet flags;
  RunFlags run(flags, RunFlags::Input::kPorts);
  ASSERT_TRUE(flags.ParseCommandLine(Words{"--config=edge.conf"}).ok());
  run.UseConfig(R"(chain { name: "a" text: "passthrough" }
port: "inside=lan0"
port: "outside=wan0"
port: "inside=lan0")");
  ASSERT_TRUE(run.TakeConfig().ok());
  EXPECT_EQ(std::string(run.Settle().message()),
            "edge.conf:4:1: --port: lan0 is given twice");
}

// An operator's file may be anything: it is taken, or refused with its name in
// front.
TEST(ConfigFile, OfAnyBytesIsTakenOrRefusedByName) {
  const std::string good = R"(# edge
nf { name: "fw" type: "firewall" }
chain { name: "office" text: "fw | monitor" unit_capacity: "50Mbps" }
rule { match: "tcp from 10.0.0.0/8 to any port 80" chain: "office" }
port: "inside=lan0"
port: "outside=wan0"
setting { name: "alpha" value: "0.25" }
setting { name: "flow_timeout" value: "30s" })";
  constexpr std::string_view kPieces[] = {
      "{",   "}",    "\"",       "\\", ": ", "chain { ", "nf { ", "[",
      "\0x", "1e99", "\xff\xfe", "|",  "(",  ")",        "\n",    "office"};
  int taken = 0;
  int refused = 0;
  for (const uint64_t seed : TestSeeds(2'000, 100'000).all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    std::string text = good;
    for (uint64_t n = 1 + rng.Below(3); n > 0; --n) {
      const size_t at = rng.Below(text.size());
      if (rng.Below(2) == 0) {
        text[at] = static_cast<char>(rng.Below(256));
      } else {
        text.insert(at, kPieces[rng.Below(std::size(kPieces))]);
      }
    }
    const auto settings = ConfigSettings::Parse(text, "edge.conf");
    const auto config = ParseConfig(text, "edge.conf");
    for (const absl::Status& status : {settings.status(), config.status()}) {
      ++(status.ok() ? taken : refused);
      if (status.ok()) continue;
      ASSERT_THAT(std::string(status.message()), StartsWith("edge.conf"));
    }
  }
  EXPECT_GT(taken, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace snf
