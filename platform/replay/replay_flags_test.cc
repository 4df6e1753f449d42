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

}  // namespace
}  // namespace snf
