// SPDX-License-Identifier: Apache-2.0
#include "platform/options/fault_flag.h"

#include <gtest/gtest.h>

#include <string>

namespace snf {
namespace {

TEST(FaultFlag, IsAListOfKills) {
  const auto faults = ParseFaults(
      " kill unit 3 at 1.2s;kill any p=0.25; kill any at 0; kill unit 0 p=1 ");
  ASSERT_TRUE(faults.ok()) << faults.status();
  ASSERT_EQ(faults->kills.size(), 4u);
  EXPECT_EQ(faults->kills[0].unit, UnitId{3});
  EXPECT_EQ(faults->kills[0].at, Milliseconds(1'200));
  EXPECT_EQ(faults->kills[1].unit, kNoUnit);
  EXPECT_LT(faults->kills[1].at.ns, 0);
  EXPECT_EQ(faults->kills[1].chance_65536, 16'384u);
  EXPECT_EQ(faults->kills[2].at, Nanos{0});
  EXPECT_EQ(faults->kills[3].unit, UnitId{0});
  EXPECT_EQ(faults->kills[3].chance_65536, 65'536u);
  EXPECT_TRUE(faults->any());
  EXPECT_FALSE(FaultOptions{}.any());
}

TEST(FaultFlag, NamesLoggersAndTheirProcesses) {
  const std::string text =
      "kill logger 3 at 1s; kill any logger p=0.001; kill process of logger 0 "
      "p=1; kill process of any logger at 2s";
  const auto faults = ParseFaults(text + ";kill any unit at 3s");
  ASSERT_TRUE(faults.ok()) << faults.status();
  ASSERT_EQ(faults->kills.size(), 5u);
  EXPECT_EQ(faults->kills[0].victim, Kill::Victim::kLoggerHost);
  EXPECT_EQ(faults->kills[0].unit, UnitId{3});
  EXPECT_EQ(faults->kills[1].victim, Kill::Victim::kLoggerHost);
  EXPECT_EQ(faults->kills[1].unit, kNoUnit);
  EXPECT_EQ(faults->kills[2].victim, Kill::Victim::kLoggerProcess);
  EXPECT_EQ(faults->kills[3].victim, Kill::Victim::kLoggerProcess);
  EXPECT_EQ(faults->kills[4].victim, Kill::Victim::kUnit);
  EXPECT_TRUE(faults->any_of_loggers());
  EXPECT_FALSE(ParseFaults("kill any at 1s")->any_of_loggers());
  EXPECT_EQ(FormatFaults(*faults), text + "; kill any at 3s");
}

TEST(FaultFlag, NamesHosts) {
  const std::string text =
      "kill host 3 at 1s; kill any host p=0.001; kill host 0 p=1; kill any "
      "host at 2s";
  const auto faults = ParseFaults(text);
  ASSERT_TRUE(faults.ok()) << faults.status();
  ASSERT_EQ(faults->kills.size(), 4u);
  EXPECT_TRUE(faults->kills[0].is_of_host());
  EXPECT_EQ(faults->kills[0].host, 3);
  EXPECT_EQ(faults->kills[0].unit, kNoUnit);
  EXPECT_EQ(faults->kills[1].host, Kill::kAnyHost);
  EXPECT_EQ(faults->kills[2].host, 0);
  EXPECT_TRUE(faults->any_of_units());
  EXPECT_TRUE(faults->any_of_loggers());
  EXPECT_EQ(FormatFaults(*faults), text);
  EXPECT_FALSE(ParseFaults("kill any at 1s")->any_of_hosts());
  for (const char* bad : {"kill host at 1s", "kill host 1",
                          "kill hosts 1 at "
                          "1s",
                          "kill host any at 1s", "kill host 1 2 at 1s"}) {
    EXPECT_FALSE(ParseFaults(bad).ok()) << bad;
  }
  EXPECT_EQ(ParseFaults("kill host -1 at 1s").status().message(),
            "\"kill host -1 at 1s\" names host \"-1\"; want a number from 0 to "
            "65534");
}

TEST(FaultFlag, IsFormattedAsItIsRead) {
  const std::string text =
      "kill unit 3 at 1.2s; kill any p=0.001; kill any at 20us; kill unit 12 "
      "p=1; kill controller at 2s; kill controller p=0.01";
  const auto faults = ParseFaults(text);
  ASSERT_TRUE(faults.ok()) << faults.status();
  EXPECT_EQ(FormatFaults(*faults), text);
  EXPECT_EQ(FormatFaults({}), "");
}

TEST(FaultFlag, NamesControllersOfSeveral) {
  const std::string text =
      "kill controller 2 at 200ms; kill controller 12 p=0.001; add controller "
      "at 300ms; remove controller 1 at 400ms; remove controller at 500ms";
  const auto faults = ParseFaults(text);
  ASSERT_TRUE(faults.ok()) << faults.status();
  ASSERT_EQ(faults->kills.size(), 2u);
  EXPECT_TRUE(faults->any_controller());
  EXPECT_EQ(faults->kills[0].controller, 2);
  EXPECT_EQ(faults->kills[1].controller, 12);
  ASSERT_EQ(faults->changes.size(), 3u);
  EXPECT_TRUE(faults->changes[0].joins);
  EXPECT_EQ(faults->changes[0].at, Milliseconds(300));
  EXPECT_FALSE(faults->changes[1].joins);
  EXPECT_EQ(faults->changes[1].controller, 1);
  EXPECT_EQ(faults->changes[2].controller, Kill::kAnyController);
  EXPECT_EQ(FormatFaults(*faults), text);
  EXPECT_FALSE(ParseFaults("add controller at 1s")->any());
}

TEST(FaultFlag, NamesTheResourceManager) {
  const std::string text =
      "kill resource_manager at 30ms; kill resource_manager p=0.001";
  const auto faults = ParseFaults(text);
  ASSERT_TRUE(faults.ok()) << faults.status();
  ASSERT_EQ(faults->kills.size(), 2u);
  EXPECT_TRUE(faults->kills[0].is_of_manager());
  EXPECT_EQ(faults->kills[0].at, Milliseconds(30));
  EXPECT_FALSE(faults->any_of_loggers());
  // Nobody has to recover what units had.
  EXPECT_FALSE(faults->any());
  EXPECT_EQ(FormatFaults(*faults), text);
}

// What is said of a text that is refused.
std::string Refusal(const std::string& text) {
  const auto faults = ParseFaults(text);
  return faults.ok() ? "taken" : std::string(faults.status().message());
}

TEST(FaultFlag, NamesWhatItCannotRead) {
  const std::string want =
      " is no fault; want for example \"kill unit 3 at 1.2s\", \"kill any "
      "logger p=0.001\" or \"kill controller at 2s\"";
  for (const std::string text :
       {"", "kill", "kill any", "kill unit 3", "kill 3 at 1s", "stop any at 1s",
        "kill any loggers at 1s", "kill process of unit 3 at 1s",
        "kill process of any logger", "kill any at 1s 2s", "kill any in 1s",
        "kill any 0.1", "kill any at", "add controller",
        "add controller 1 at 1s", "add controller p=1", "remove controller 1",
        "remove unit 1 at 1s", "remove controller 1 2 at 1s"}) {
    EXPECT_EQ(Refusal(text), "\"" + text + "\"" + want);
  }
  EXPECT_EQ(Refusal("kill any at 1s;"), "\"\"" + want);
  EXPECT_EQ(Refusal("kill any at 1s; kil any at 2s"),
            "\"kil any at 2s\"" + want);
  EXPECT_EQ(Refusal("kill unit x at 1s"),
            "\"kill unit x at 1s\" names unit \"x\"; want a number from 0 to " +
                std::to_string(kMaxUnits - 1));
  EXPECT_EQ(Refusal("kill controller x at 1s"),
            "\"kill controller x at 1s\" names controller \"x\"; want a number "
            "from 0 to 255");
  EXPECT_EQ(Refusal("remove controller 256 at 1s"),
            "\"remove controller 256 at 1s\" names controller \"256\"; want a "
            "number from 0 to 255");
  EXPECT_NE(Refusal("add controller at soon").find("has a bad time"),
            std::string::npos);
  EXPECT_NE(Refusal("kill unit -1 at 1s").find("names unit \"-1\""),
            std::string::npos);
  EXPECT_NE(Refusal("kill unit 65535 at 1s").find("names unit \"65535\""),
            std::string::npos);
  EXPECT_NE(Refusal("kill any at soon").find("has a bad time"),
            std::string::npos);
  EXPECT_NE(Refusal("kill any at -1s").find("time"), std::string::npos);
  for (const char* p : {"1.1", "-0.1", "", "many", "1e-3", "2"}) {
    EXPECT_EQ(Refusal(std::string("kill any p=") + p),
              "\"kill any p=" + std::string(p) + "\" has p=\"" + p +
                  "\", which is not a probability from 0 to 1");
  }
  EXPECT_NE(Refusal("kill any p=0.000001").find("least is 0.00001"),
            std::string::npos);
}

TEST(FaultFlag, HasALimit) {
  std::string text = "kill any at 1s";
  for (size_t i = 1; i < kMaxKills; ++i) text += ";kill any at 1s";
  EXPECT_EQ(Refusal(text), "taken");
  EXPECT_EQ(Refusal(text + ";kill any at 2s"),
            "\"kill any at 2s\" is more than the 1000 faults that can be");
}

}  // namespace
}  // namespace snf
