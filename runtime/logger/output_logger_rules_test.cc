// SPDX-License-Identifier: Apache-2.0
// Each rule of the logger is needed: without it, a random run goes wrong.
#include <string>

#include "gtest/gtest.h"
#include "runtime/logger/logger_rules.h"
#include "runtime/logger/test_logger_world.h"

namespace snf {
namespace {

std::string FirstWrong() {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const std::string wrong = LoggerWorld(seed).Run();
    if (!wrong.empty()) return "seed " + std::to_string(seed) + ": " + wrong;
  }
  return "";
}

TEST(OutputLoggerRules, AllKeptNothingGoesWrong) {
  EXPECT_EQ(FirstWrong(), "");
}

TEST(OutputLoggerRules, EachIsNeeded) {
  for (const LoggerRule rule :
       {LoggerRule::kInOrder, LoggerRule::kOnce, LoggerRule::kBase,
        LoggerRule::kAppliedOnce, LoggerRule::kSeal, LoggerRule::kForgetOlder,
        LoggerRule::kKeepUntilTold}) {
    left_out_logger_rule = rule;
    const std::string wrong = FirstWrong();
    EXPECT_NE(wrong, "") << "rule " << static_cast<int>(rule);
    std::printf("rule %d: %s\n", static_cast<int>(rule), wrong.c_str());
  }
  left_out_logger_rule = LoggerRule::kNone;
}

}  // namespace
}  // namespace snf
