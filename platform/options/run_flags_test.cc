// SPDX-License-Identifier: Apache-2.0
#include "platform/options/run_flags.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace snf {
namespace {

RunOptions RunOf(const std::vector<std::string>& arguments) {
  FlagSet flags;
  RunFlags replay(flags);
  EXPECT_TRUE(flags.ParseCommandLine(arguments).ok());
  EXPECT_TRUE(replay.Settle().ok());
  return replay.options().run;
}

uint64_t HashSeedOf(const std::vector<std::string>& arguments) {
  const RunOptions run = RunOf(arguments);
  EXPECT_EQ(run.flow.fragments.hash_seed, run.controller.hash_seed);
  return run.controller.hash_seed;
}

TEST(RunFlags, HashesByTheSeedInVirtualTime) {
  EXPECT_EQ(HashSeedOf({}), 1u);
  EXPECT_EQ(HashSeedOf({"--seed=7"}), 7u);
}

TEST(RunFlags, HashesByASecretSeedInRealTimeUnlessOneIsGiven) {
  const uint64_t one = HashSeedOf({"--clock=real"});
  const uint64_t other = HashSeedOf({"--clock=real"});
  EXPECT_NE(one, other);
  EXPECT_EQ(RunOf({"--clock=real"}).controller.seed, 1u);
  EXPECT_EQ(HashSeedOf({"--clock=real", "--seed=1"}), 1u);
  EXPECT_EQ(HashSeedOf({"--clock=real", "--seed=7"}), 7u);
}

absl::Status SettledPorts(const std::vector<std::string>& arguments) {
  FlagSet flags;
  RunFlags run(flags, RunFlags::Input::kPorts);
  const absl::StatusOr<bool> parsed = flags.ParseCommandLine(arguments);
  return parsed.ok() ? run.Settle() : parsed.status();
}

TEST(RunFlags, RunsPortsInRealTimeAsFastAsItCan) {
  FlagSet flags;
  RunFlags run(flags, RunFlags::Input::kPorts);
  ASSERT_TRUE(flags
                  .ParseCommandLine(std::vector<std::string>{
                      "--port", "outside=wan0", "--port=inside=tap:lan0"})
                  .ok());
  ASSERT_TRUE(run.Settle().ok());
  const RunRequest& options = run.options();
  ASSERT_EQ(options.ports.size(), 2u);
  EXPECT_EQ(options.ports[0].text(), "outside=wan0");
  EXPECT_EQ(options.ports[1].text(), "inside=tap:lan0");
  EXPECT_EQ(flags.Printed("port"), "--port=outside=wan0,inside=tap:lan0");
  EXPECT_TRUE(options.files.empty());
  EXPECT_TRUE(options.is_real_time);
  EXPECT_TRUE(options.real.unpaced);
  EXPECT_FALSE(options.real.wait_for_room);
}

TEST(RunFlags, SharesPortsAsTheControllerThatItIs) {
  FlagSet flags;
  RunFlags run(flags, RunFlags::Input::kPorts);
  ASSERT_TRUE(flags
                  .ParseCommandLine(std::vector<std::string>{
                      "--port=outside=wan0", "--port=inside=lan0",
                      "--controller=1/3", "--nf=nat(ip=198.51.100.1)"})
                  .ok());
  ASSERT_TRUE(run.Settle().ok());
  const RunRequest& options = run.options();
  EXPECT_EQ(options.run.controller.controller_id, 1);
  EXPECT_EQ(options.real.controllers, 3u);
  for (const PortSpec& port : options.ports) {
    EXPECT_EQ(port.steering->controller().text(), "1/3");
    EXPECT_TRUE(port.steering->has_external());
  }
}

TEST(RunFlags, RefusesToShareWhatCannotBeShared) {
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

TEST(RunFlags, KeepsCapturesAndPortsApart) {
  const std::string inside = "--port=inside=a", outside = "--port=outside=b";
  EXPECT_TRUE(SettledPorts({inside, outside}).ok());
  EXPECT_FALSE(SettledPorts({inside}).ok());
  EXPECT_FALSE(SettledPorts({inside, outside, "cap.pcap"}).ok());
  for (const char* flag : {"--clock=real", "--speed=1x", "--loop=2",
                           "--explain=top", "--chaos=state_loss=0.1"}) {
    EXPECT_FALSE(SettledPorts({inside, outside, flag}).ok()) << flag;
  }
  FlagSet flags;
  RunFlags replay(flags);
  EXPECT_FALSE(
      flags.ParseCommandLine(std::vector<std::string>{inside, outside}).ok());
}

struct Refused {
  std::vector<std::string> flags;
  std::string why;
};

TEST(RunFlags, NamesFlagsThatCannotBeCombinedWithValuesAndReason) {
  for (const Refused& refused : std::vector<Refused>{
           {{"--flow_timeout=500us"},
            "--flow_timeout=500us with --flowlet_timeout=500us: a flow must "
            "outlive its flowlets"},
           {{"--warm_units=3", "--max_units=2"},
            "--warm_units=3 with --max_units=2: there are fewer units than "
            "that"},
           {{"--replicas=3", "--max_units=3"},
            "--replicas=3 with --max_units=3: a flow has at most one replica "
            "at each other unit"},
           {{"--push_delay=1ms", "--state=reactive"},
            "--push_delay=1ms with --state=reactive: only proactive has "
            "replicas"},
           {{"--logger_delay=1ms"},
            "--logger_delay=1ms with --loggers=off: there are no loggers"},
           {{"--leases=independent"},
            "--leases=independent with --controllers=1: a single controller "
            "leases nothing"},
           {{"--units_per_host=3", "--max_units=2"},
            "--units_per_host=3 with --max_units=2: there are fewer units than "
            "that"},
           {{"--local_handover=2us"},
            "--local_handover=2us with --units_per_host=1: no host has another "
            "unit"},
           {{"--units_per_host=2", "--controllers=2"},
            "--units_per_host=2 with --controllers=2: several controllers have "
            "units on hosts of their own"},
           {{"--units_per_host=2", "--state=external"},
            "--units_per_host=2 with --state=external: a store has the state, "
            "not a host"},
           {{"--host_state"},
            "--host_state=true with --clock=virtual: only real time has that"},
           {{"--host_state", "--clock=real", "--state=external"},
            "--host_state=true with --state=external: a store has the states, "
            "not the host"},
           {{"--units_per_host=2", "--clock=real"},
            "--units_per_host=2 with --clock=real: only virtual time has that"},
           {{"--loggers=on", "--units_per_host=4", "--max_units=9",
             "--faults=kill host 3 at 1s"},
            "--faults=kill host 3 at 1s with --units_per_host=4: there is no "
            "host 3, the last one is 2"},
           {{"--loggers=on", "--clock=real", "--isolation=process",
             "--faults=kill host 0 at 1s"},
            "--faults=kill host 0 at 1s with --clock=real: in real time all "
            "units and loggers are on one host"},
           {{"--faults=kill host 0 at 1s"},
            "--faults=kill host 0 at 1s with --loggers=off: without loggers "
            "the "
            "state of a failed unit is lost"},
           {{"--threads=2"},
            "--threads=2 with --clock=virtual: only real time has that"},
           {{"--busy_poll=1ms"},
            "--busy_poll=1ms with --clock=virtual: only real time has that"},
           {{"--warm_up=1s", "--clock=real"},
            "--warm_up=1s with --clock=real: only virtual time has that"},
           {{"--compare=snf"},
            "--compare=snf with --policy=snf: there is no other policy to "
            "compare with"},
           {{"--faults=kill unit 0 at 1s"},
            "--faults=kill unit 0 at 1s with --loggers=off: without loggers "
            "the state of a failed unit is lost"}}) {
    FlagSet flags;
    RunFlags replay(flags);
    ASSERT_TRUE(flags.ParseCommandLine(refused.flags).ok());
    const absl::Status status = replay.Settle();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), refused.why);
  }
}

TEST(RunFlags, RefusesHostsWithoutUnitsOrWithTooMany) {
  for (const std::string value : {"0", "129", "-1", "4.5", "many"}) {
    FlagSet flags;
    RunFlags replay(flags);
    const std::vector<std::string> arguments = {"--units_per_host=" + value};
    EXPECT_FALSE(flags.ParseCommandLine(arguments).ok()) << value;
  }
  EXPECT_EQ(RunOf({"--units_per_host=128", "--max_units=256"})
                .controller.units_per_host,
            128u);
  EXPECT_EQ(RunOf({}).controller.units_per_host, 1u);
}

TEST(RunFlags, TakesATimeToPollOrChoosesOne) {
  const auto parsed = [](const std::string& value) {
    FlagSet flags;
    RunFlags replay(flags);
    return flags.ParseCommandLine(
        std::vector<std::string>{"--busy_poll=" + value});
  };
  for (const std::string value : {"", "-1us", "1.1s", "5", "always"}) {
    EXPECT_FALSE(parsed(value).ok()) << value;
  }
  EXPECT_TRUE(std::string(parsed("2s").status().message())
                  .ends_with("\"2s\" is neither auto nor from 0s to 1s"));
  const auto poll = [](const std::vector<std::string>& arguments) {
    FlagSet flags;
    RunFlags replay(flags);
    EXPECT_TRUE(flags.ParseCommandLine(arguments).ok());
    return std::pair(replay.options().real.busy_poll,
                     flags.Printed("busy_poll"));
  };
  EXPECT_EQ(poll({"--busy_poll=200us"}),
            std::pair(std::optional(Microseconds(200)),
                      std::string("--busy_poll=200us")));
  EXPECT_EQ(poll({"--busy_poll=0s"}).first, Nanos{0});
  EXPECT_EQ(poll({"--busy_poll=auto"}).first, std::nullopt);
}

TEST(RunFlags, RemembersItsOwnFlagsThatWereGiven) {
  FlagSet flags;
  std::string name = "default";
  RunFlags run(flags, RunFlags::Input::kPorts);
  flags.Text("name", name, "NAME", "of the command");
  ASSERT_TRUE(flags
                  .ParseCommandLine(std::vector<std::string>{
                      "--port=outside=wan0", "--port=inside=lan0",
                      "--name=other", "--alpha=0.5", "--json=report.json"})
                  .ok());
  ASSERT_TRUE(run.Settle().ok());
  EXPECT_EQ(run.options().given,
            (std::map<std::string, std::string>{{"alpha", "0.5"}}));
  EXPECT_EQ(run.options().changeable.at("alpha"), "0.5");
  EXPECT_FALSE(run.options().changeable.contains("unit_queue"));
}

}  // namespace
}  // namespace snf
