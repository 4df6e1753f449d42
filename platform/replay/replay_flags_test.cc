// SPDX-License-Identifier: Apache-2.0
#include "platform/replay/replay_flags.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace snf {
namespace {

RunOptions RunOf(const std::vector<std::string>& arguments) {
  FlagSet flags;
  ReplayFlags replay(flags);
  EXPECT_TRUE(flags.ParseCommandLine(arguments).ok());
  EXPECT_TRUE(replay.Settle().ok());
  return replay.options().run;
}

uint64_t HashSeedOf(const std::vector<std::string>& arguments) {
  const RunOptions run = RunOf(arguments);
  EXPECT_EQ(run.flow.fragments.hash_seed, run.controller.hash_seed);
  return run.controller.hash_seed;
}

TEST(ReplayFlags, HashesByTheSeedInVirtualTime) {
  EXPECT_EQ(HashSeedOf({}), 1u);
  EXPECT_EQ(HashSeedOf({"--seed=7"}), 7u);
}

TEST(ReplayFlags, HashesByASecretSeedInRealTimeUnlessOneIsGiven) {
  const uint64_t one = HashSeedOf({"--clock=real"});
  const uint64_t other = HashSeedOf({"--clock=real"});
  EXPECT_NE(one, other);
  EXPECT_EQ(RunOf({"--clock=real"}).controller.seed, 1u);
  EXPECT_EQ(HashSeedOf({"--clock=real", "--seed=1"}), 1u);
  EXPECT_EQ(HashSeedOf({"--clock=real", "--seed=7"}), 7u);
}

absl::Status SettledPorts(const std::vector<std::string>& arguments) {
  FlagSet flags;
  ReplayFlags run(flags, ReplayFlags::Input::kPorts);
  const absl::StatusOr<bool> parsed = flags.ParseCommandLine(arguments);
  return parsed.ok() ? run.Settle() : parsed.status();
}

TEST(ReplayFlags, RunsPortsInRealTimeAsFastAsItCan) {
  FlagSet flags;
  ReplayFlags run(flags, ReplayFlags::Input::kPorts);
  ASSERT_TRUE(flags
                  .ParseCommandLine(std::vector<std::string>{
                      "--port", "outside=wan0", "--port=inside=tap:lan0"})
                  .ok());
  ASSERT_TRUE(run.Settle().ok());
  const ReplayOptions& options = run.options();
  ASSERT_EQ(options.ports.size(), 2u);
  EXPECT_EQ(options.ports[0].text(), "outside=wan0");
  EXPECT_EQ(options.ports[1].text(), "inside=tap:lan0");
  EXPECT_EQ(flags.Printed("port"), "--port=outside=wan0,inside=tap:lan0");
  EXPECT_TRUE(options.files.empty());
  EXPECT_TRUE(options.is_real_time);
  EXPECT_TRUE(options.real.unpaced);
  EXPECT_FALSE(options.real.wait_for_room);
}

TEST(ReplayFlags, SharesPortsAsTheControllerThatItIs) {
  FlagSet flags;
  ReplayFlags run(flags, ReplayFlags::Input::kPorts);
  ASSERT_TRUE(flags
                  .ParseCommandLine(std::vector<std::string>{
                      "--port=outside=wan0", "--port=inside=lan0",
                      "--controller=1/3", "--nf=nat(ip=198.51.100.1)"})
                  .ok());
  ASSERT_TRUE(run.Settle().ok());
  const ReplayOptions& options = run.options();
  EXPECT_EQ(options.run.controller.controller_id, 1);
  EXPECT_EQ(options.real.controllers, 3u);
  for (const PortSpec& port : options.ports) {
    EXPECT_EQ(port.steering->controller().text(), "1/3");
    EXPECT_TRUE(port.steering->has_external());
  }
}

TEST(ReplayFlags, RefusesToShareWhatCannotBeShared) {
  const std::string inside = "--port=inside=a", outside = "--port=outside=b";
  EXPECT_TRUE(SettledPorts({inside, outside, "--controller=0/2"}).ok());
  for (const char* flag :
       {"--port=inside=tap:c", "--port=inside=xdp:c", "--state=external",
        "--nf=nat(ip=198.51.100.1,ports=1024-1080)"}) {
    EXPECT_FALSE(SettledPorts({inside, outside, "--controller=0/2", flag}).ok())
        << flag;
    EXPECT_TRUE(SettledPorts({inside, outside, flag}).ok()) << flag;
  }
  EXPECT_FALSE(SettledPorts({inside, outside, "--controller=2/2"}).ok());
}

TEST(ReplayFlags, KeepsCapturesAndPortsApart) {
  const std::string inside = "--port=inside=a", outside = "--port=outside=b";
  EXPECT_TRUE(SettledPorts({inside, outside}).ok());
  EXPECT_FALSE(SettledPorts({inside}).ok());
  EXPECT_FALSE(SettledPorts({inside, outside, "cap.pcap"}).ok());
  for (const char* flag : {"--clock=real", "--speed=1x", "--loop=2",
                           "--explain=top", "--chaos=state_loss=0.1"}) {
    EXPECT_FALSE(SettledPorts({inside, outside, flag}).ok()) << flag;
  }
  FlagSet flags;
  ReplayFlags replay(flags);
  EXPECT_FALSE(
      flags.ParseCommandLine(std::vector<std::string>{inside, outside}).ok());
}

}  // namespace
}  // namespace snf
