// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/lxd/host_launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "resource_manager/lxd/test_lxd.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

HostLauncher::Host HostNamed(const std::string& name) {
  return {.name = name,
          .address = "10.88.0.11",
          .prefix_bits = 24,
          .gateway = "",
          .command = {"/usr/bin/snf", "host", "run", name,
                      "--listen=10.88.0.11:7000", "--from=10.88.0.10",
                      "--etcd=10.88.0.1:2379,[fd00::1]:2379", "--units=4"}};
}

class HostLaunch : public testing::Test {
 protected:
  HostLauncher Launcher(const std::string& target = "") {
    return HostLauncher(client_, {.cluster = "office",
                                  .image = "snf",
                                  .target = target,
                                  .profiles = {"default"},
                                  .removal = Milliseconds(1)});
  }
  // Launches "a" as a test's world is; returns the launch's error, or OK.
  absl::Status LaunchOne(const std::string& target = "") {
    HostLauncher launcher = Launcher(target);
    if (absl::Status s = launcher.Prepare(); !s.ok()) return s;
    return launcher.Launch(HostNamed("a")).status();
  }

  TestLxd lxd_;
  LxdClient client_{lxd_};
};

TEST_F(HostLaunch, AsksForAnEphemeralContainerThatLxdNeverStartsByItself) {
  HostLauncher launcher = Launcher("@edge");
  ASSERT_TRUE(launcher.Prepare().ok());
  const auto launched = launcher.Launch(HostNamed("a"));
  ASSERT_TRUE(launched.ok()) << launched.status();
  EXPECT_TRUE(launched->is_new);
  EXPECT_EQ(launched->location, "one");
  EXPECT_THAT(
      lxd_.changes(),
      ElementsAre(R"(POST /1.0/instances?target=%40edge {"config":{)"
                  R"("boot.autostart":"false",)"
                  R"("raw.lxc":"lxc.init.cmd = /usr/bin/snf host run a )"
                  R"(--listen=10.88.0.11:7000 --from=10.88.0.10 )"
                  R"(--etcd=10.88.0.1:2379,[fd00::1]:2379 --units=4\n)"
                  R"(lxc.signal.halt = SIGTERM\n)"
                  R"(lxc.net.0.ipv4.address = 10.88.0.11/24\n",)"
                  R"("user.snf.address":"10.88.0.11",)"
                  R"("user.snf.cluster":"office"},"ephemeral":true,"name":"a",)"
                  R"("profiles":["default"],)"
                  R"("source":{"fingerprint":"f00d","type":"image"},)"
                  R"("type":"container"})",
                  R"(PUT /1.0/instances/a/state {"action":"start"})"));
}

// --- Images. ---

TEST_F(HostLaunch, GivesAnImageItsNameUnlessTheNameIsOfAnother) {
  const auto give = [this](const std::string& name) {
    return HostLauncher::GiveImage(client_, "/images/snf.tar", "beef", name);
  };
  EXPECT_EQ(give("new").value(), true);
  EXPECT_EQ(give("new").value(), false);
  EXPECT_EQ(give("snf").value(), true);
  EXPECT_EQ(lxd_.aliases["snf"], "beef");
  lxd_.images["cafe"] = {};
  lxd_.aliases["debian"] = "cafe";
  lxd_.Forget();
  const absl::Status refused = give("debian").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--image: "));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("left as it is"));
  EXPECT_THAT(lxd_.changes(), IsEmpty());
}

// Another client names its image between this one's look and its change.
TEST_F(HostLaunch, GivesAnImageItsNameThoughOthersDoSoMeanwhile) {
  lxd_.images["beef"] = lxd_.images["cafe"] = lxd_.images["f00d"];
  const auto give = [this](const std::string& name) {
    return HostLauncher::GiveImage(client_, "/images/snf.tar", "beef", name);
  };
  const std::string post = "POST /1.0/images/aliases";
  lxd_.before[post] = [this] { lxd_.aliases["same"] = "beef"; };
  EXPECT_EQ(give("same").value(), false);
  lxd_.before[post] = [this] { lxd_.aliases["other"] = "cafe"; };
  EXPECT_EQ(give("other").value(), true);
  EXPECT_EQ(lxd_.aliases["other"], "beef");
  lxd_.before["PUT /1.0/images/aliases/snf"] = [this] {
    lxd_.aliases.erase("snf");
  };
  EXPECT_EQ(give("snf").value(), true);
  EXPECT_EQ(lxd_.aliases["snf"], "beef");
}

TEST_F(HostLaunch, LeavesANameThatAnotherImageGetsMeanwhile) {
  lxd_.images["cafe"] = {};
  lxd_.before["POST /1.0/images/aliases"] = [this] {
    lxd_.aliases["new"] = "cafe";
  };
  const auto given =
      HostLauncher::GiveImage(client_, "/images/snf.tar", "beef", "new");
  EXPECT_TRUE(absl::IsFailedPrecondition(given.status())) << given.status();
  EXPECT_EQ(lxd_.aliases["new"], "cafe");
}

// A server that always says so is not asked for ever.
TEST_F(HostLaunch, GivesUpANameThatIsAlwaysTakenMeanwhile) {
  lxd_.instead["POST /1.0/images/aliases"] =
      TestLxd::Error(409, "Alias already exists");
  const auto given =
      HostLauncher::GiveImage(client_, "/images/snf.tar", "beef", "new");
  EXPECT_TRUE(absl::IsAlreadyExists(given.status())) << given.status();
  EXPECT_THAT(std::string(given.status().message()), HasSubstr("\"new\""));
}

// --- Hosts. ---

TEST_F(HostLaunch, LeavesAHostThatRunsAlone) {
  ASSERT_TRUE(LaunchOne().ok());
  lxd_.Forget();
  HostLauncher again = Launcher();
  ASSERT_TRUE(again.Prepare().ok());
  const auto launched = again.Launch(HostNamed("a"));
  ASSERT_TRUE(launched.ok()) << launched.status();
  EXPECT_FALSE(launched->is_new);
  EXPECT_THAT(lxd_.changes(), IsEmpty());
}

TEST_F(HostLaunch, RefusesOtherFlagsProfilesAndImagesOfAHostThatRuns) {
  ASSERT_TRUE(LaunchOne().ok());
  lxd_.Forget();
  const TestLxd::Instance made = lxd_.instances["a"];

  lxd_.instances["a"].config["raw.lxc"] += "x";
  EXPECT_THAT(std::string(LaunchOne().message()), HasSubstr("other flags"));
  lxd_.instances["a"] = made;
  lxd_.instances["a"].profiles = {"gold"};
  EXPECT_THAT(std::string(LaunchOne().message()), HasSubstr("other profiles"));
  lxd_.instances["a"] = made;
  lxd_.images["beef"] = {{"snf.version", "0.2.0"}};
  lxd_.aliases["snf"] = "beef";
  EXPECT_THAT(std::string(LaunchOne().message()), HasSubstr("another image"));
  EXPECT_THAT(lxd_.changes(), IsEmpty());
}

TEST_F(HostLaunch, NeverChangesAnInstanceThatIsNotOfItsCluster) {
  for (const std::string status : {"Running", "Stopped"}) {
    for (const std::string cluster : {"", "home"}) {
      lxd_.instances = {{"a", {.status = status}}};
      if (!cluster.empty()) {
        lxd_.instances["a"].config["user.snf.cluster"] = cluster;
      }
      const absl::Status launched = LaunchOne();
      EXPECT_TRUE(absl::IsFailedPrecondition(launched)) << launched;
      EXPECT_THAT(std::string(launched.message()), HasSubstr("as it is"));
      const auto stopped = Launcher().Stop("a", Seconds(1));
      EXPECT_TRUE(absl::IsFailedPrecondition(stopped.status()));
      EXPECT_THAT(*Launcher().List(), IsEmpty());
    }
  }
  EXPECT_THAT(lxd_.changes(), IsEmpty());
}

// A launcher without a cluster's name has no instances, and not all of them.
TEST_F(HostLaunch, AnInstanceWithoutTheKeyIsNotOfTheClusterWithoutAName) {
  lxd_.instances = {{"a", {}}};
  HostLauncher nameless(
      client_, {.cluster = "", .image = "snf", .target = "", .profiles = {}});
  EXPECT_FALSE(nameless.Stop("a", Seconds(1)).ok());
  EXPECT_THAT(*nameless.List(), IsEmpty());
  EXPECT_THAT(lxd_.changes(), IsEmpty());
}

TEST_F(HostLaunch, MakesAHostAnewWhoseContainerHasStopped) {
  ASSERT_TRUE(LaunchOne().ok());
  lxd_.instances["a"].status = "Stopped";
  lxd_.Forget();
  ASSERT_TRUE(LaunchOne().ok());
  ASSERT_EQ(lxd_.changes().size(), 3U);
  EXPECT_EQ(lxd_.changes()[0], "DELETE /1.0/instances/a");
  EXPECT_TRUE(lxd_.instances["a"].status == "Running");
}

TEST_F(HostLaunch, RefusesAHostThatIsNeitherRunningNorStopped) {
  ASSERT_TRUE(LaunchOne().ok());
  lxd_.instances["a"].status = "Error";
  lxd_.Forget();
  EXPECT_THAT(std::string(LaunchOne().message()), HasSubstr("Error"));
  EXPECT_THAT(lxd_.changes(), IsEmpty());
}

TEST_F(HostLaunch, RemovesAContainerThatDoesNotStart) {
  lxd_.failures["PUT /1.0/instances/a/state"] =
      "Failed to start device eth0: Parent device br0 doesn't exist";
  const absl::Status launched = LaunchOne();
  EXPECT_TRUE(absl::IsFailedPrecondition(launched)) << launched;
  EXPECT_THAT(std::string(launched.message()),
              HasSubstr("Parent device br0 doesn't exist"));
  EXPECT_THAT(lxd_.instances, IsEmpty());
}

TEST_F(HostLaunch, TellsOfALauncherThatWasFaster) {
  lxd_.failures["POST /1.0/instances"] =
      "Failed creating instance record: Instance already exists";
  const absl::Status launched = LaunchOne();
  EXPECT_TRUE(absl::IsAlreadyExists(launched)) << launched;
  EXPECT_THAT(std::string(launched.message()), HasSubstr("\"a\""));
}

TEST_F(HostLaunch, NamesWhatLxdDoesNotHave) {
  EXPECT_THAT(std::string(LaunchOne("@far").message()),
              HasSubstr("target @far: LXD's cluster has no group"));
  EXPECT_THAT(std::string(LaunchOne("three").message()),
              HasSubstr("target three: LXD's cluster has no member"));
  lxd_.is_clustered = false;
  EXPECT_THAT(std::string(LaunchOne("@edge").message()),
              HasSubstr("target @edge: LXD 5.0.2 here is no cluster's"));
  lxd_.profiles = {};
  EXPECT_THAT(std::string(LaunchOne().message()),
              HasSubstr("profile default: LXD has none"));
  lxd_.profiles = {"default"};
  lxd_.images["f00d"] = {{"os", "Debian"}};
  EXPECT_THAT(std::string(LaunchOne().message()),
              HasSubstr("image snf: was not made by snf host image"));
  lxd_.aliases = {};
  EXPECT_THAT(std::string(LaunchOne().message()),
              HasSubstr("image snf: LXD has none"));
  EXPECT_THAT(lxd_.changes(), IsEmpty());
}

TEST_F(HostLaunch, ChecksNamesAddressesAndWords) {
  EXPECT_TRUE(HostLauncher::Check(HostNamed("a-1")).ok());
  for (const std::string& name :
       {std::string(), std::string("1a"), std::string("a_b"), std::string("a-"),
        std::string("a.b"), std::string("ä"), std::string(64, 'a')}) {
    const absl::Status checked = HostLauncher::Check(HostNamed(name));
    EXPECT_TRUE(absl::IsInvalidArgument(checked)) << name;
  }
  HostLauncher::Host host = HostNamed("a");
  host.address = "10.0.0";
  EXPECT_FALSE(HostLauncher::Check(host).ok());
  host = HostNamed("a");
  host.prefix_bits = 33;
  EXPECT_FALSE(HostLauncher::Check(host).ok());
  host = HostNamed("a");
  host.gateway = "router";
  EXPECT_FALSE(HostLauncher::Check(host).ok());
  // Each could become another word, or another key of LXC.
  for (const std::string word :
       {"", "--from=a b", "--from=a\nlxc.hook.start-host = /bin/sh", "a\"b",
        "a'b", "$(id)", "a;b", "a\\b", "#a"}) {
    host = HostNamed("a");
    host.command.push_back(word);
    EXPECT_TRUE(absl::IsInvalidArgument(HostLauncher::Check(host))) << word;
  }
}

TEST_F(HostLaunch, StopsByASignalAndKillsAfterThat) {
  ASSERT_TRUE(LaunchOne().ok());
  lxd_.Forget();
  EXPECT_TRUE(*Launcher().Stop("a", Seconds(25)));
  EXPECT_EQ(lxd_.changes().front(),
            R"(PUT /1.0/instances/a/state )"
            R"({"action":"stop","force":false,"timeout":25})");
  EXPECT_FALSE(*Launcher().Stop("a", Seconds(25)));

  ASSERT_TRUE(LaunchOne().ok());
  lxd_.Forget();
  lxd_.failures["PUT /1.0/instances/a/state"] =
      "Failed shutting down instance, status is \\\"Running\\\"";
  EXPECT_TRUE(*Launcher().Stop("a", Seconds(25)));
  ASSERT_GE(lxd_.changes().size(), 2U);
  EXPECT_EQ(lxd_.changes()[1], R"(PUT /1.0/instances/a/state )"
                               R"({"action":"stop","force":true,"timeout":0})");
  EXPECT_THAT(lxd_.instances, IsEmpty());
}

TEST_F(HostLaunch, ListsTheClustersHosts) {
  lxd_.instances = {
      {"x", {}},
      {"b", {.config = {{"user.snf.cluster", "office"}}}},
      {"c", {.config = {{"user.snf.cluster", "home"}}}},
      {"a", {.status = "Stopped", .config = {{"user.snf.cluster", "office"}}}}};
  const auto list = Launcher().List();
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->size(), 2U);
  EXPECT_EQ((*list)[0].name, "a");
  EXPECT_EQ((*list)[1].name, "b");
}

}  // namespace
}  // namespace snf
