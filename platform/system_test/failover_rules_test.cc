// SPDX-License-Identifier: Apache-2.0
// Without any one of the rules about failures something goes wrong in random
// schedules, and it is noticed.
#include <array>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>

#include "controller/core/failover.h"
#include "gtest/gtest.h"
#include "platform/system_test/test_failover_explorer.h"
#include "platform/system_test/test_failover_world.h"
#include "runtime/core/rules.h"
#include "runtime/logger/logger_rules.h"

namespace snf {
namespace {

constexpr uint64_t kSchedules = 4'000;

struct LeftOut {
  const char* means;
  FailoverRule rule = FailoverRule::kNone;
  Rule unit_rule = Rule::kNone;
  LoggerRule logger_rule = LoggerRule::kNone;
  FailoverPlan plan = {.failures = 1};
};
constexpr FailoverPlan kAgain = {.packets = 60, .failures = 4};
using LeavesOut = FailoverPlan::LeavesOut;
constexpr FailoverPlan kLoggers = {
    .packets = 80, .failures = 3, .logger_failures = 6};
constexpr FailoverPlan Without(LeavesOut rule) {
  FailoverPlan plan = kLoggers;
  plan.leaves_out = rule;
  return plan;
}
constexpr FailoverPlan kSuspected = {
    .packets = 40, .failures = 2, .only_suspected = true};
const std::array kRules = {
    LeftOut{"F2: nobody is waited for", FailoverRule::kWait},
    LeftOut{"F3: survivors are not asked", FailoverRule::kSurvivors},
    LeftOut{"F3: loggers sealed earlier are not asked",
            FailoverRule::kOldLoggers, Rule::kNone, LoggerRule::kNone, kAgain},
    LeftOut{"F1: lost clocks are not re-routed", FailoverRule::kLost},
    LeftOut{"F4: clocks that are done are", FailoverRule::kDone},
    LeftOut{"F4: no null packets", FailoverRule::kNull},
    LeftOut{"F5: a failed unit stays the source", FailoverRule::kSource},
    LeftOut{"F6: nobody is redirected", FailoverRule::kRedirect},
    LeftOut{"U6: state leaves before it is released", FailoverRule::kNone,
            Rule::kU6},
    LeftOut{"U13: Takeovers are told before the release", FailoverRule::kNone,
            Rule::kU13},
    LeftOut{"F2: a sealed logger takes entries", FailoverRule::kNone,
            Rule::kNone, LoggerRule::kSeal, kSuspected},
    LeftOut{"F8: a logger that is replaced can still send", FailoverRule::kNone,
            Rule::kNone, LoggerRule::kNone, Without(LeavesOut::kFence)},
    LeftOut{"F8: a new logger does not get what its unit keeps",
            FailoverRule::kNone, Rule::kNone, LoggerRule::kNone,
            Without(LeavesOut::kRecords)},
    LeftOut{"F8: a new logger applies what is applied", FailoverRule::kNone,
            Rule::kNone, LoggerRule::kAppliedOnce, kLoggers},
};

class FailoverRules : public ::testing::Test {
 protected:
  ~FailoverRules() override { Leave({}); }
  static void Leave(const LeftOut& out) {
    left_out_failover_rule = out.rule;
    left_out_rule = out.unit_rule;
    left_out_logger_rule = out.logger_rule;
  }
};

TEST_F(FailoverRules, AreEachMissedWhenLeftOut) {
  for (const LeftOut& left_out : kRules) {
    Leave(left_out);
    std::string wrong;
    uint64_t seed = 0;
    FailoverTotals totals;
    while (wrong.empty() && seed < kSchedules) {
      FailoverPlan plan = left_out.plan;
      plan.units += static_cast<uint32_t>(++seed % 3);
      wrong = FailoverWorld(seed, plan).Run(totals);
    }
    std::cout << left_out.means << ": " << wrong << ", seed " << seed << "\n";
    EXPECT_NE(wrong, "") << left_out.means;
  }
}

// The explorer finds it as well, in a world that is small and by few turns.
struct Small {
  uint32_t packets;
  uint32_t max_turns;
  uint32_t failures = 1;
  bool only_suspected = false;
  uint32_t logger_failures = 0;
};
const std::array<std::optional<Small>, std::size(kRules)> kSmall = {{
    Small{1, 0},
    Small{2, 3},
    std::nullopt,  // it takes more failures
    Small{1, 0},
    Small{1, 0},
    Small{1, 0},
    Small{1, 0, 2},
    Small{2, 1},
    Small{3, 1},
    Small{1, 0, 2},
    Small{1, 1, 1, true},
    Small{2, 2, 0, false, 1},
    Small{2, 2, 0, false, 1},
    Small{2, 2, 0, false, 1},
}};

TEST_F(FailoverRules, AreEachMissedByTheExplorer) {
  for (size_t i = 0; i < kRules.size(); ++i) {
    if (!kSmall[i].has_value()) continue;
    Leave(kRules[i]);
    const FailoverFindings found =
        ExploreFailover({.units = 2,
                         .flows = 1,
                         .packets = kSmall[i]->packets,
                         .failures = kSmall[i]->failures,
                         .only_suspected = kSmall[i]->only_suspected,
                         .flowlet_packets = 1,
                         .logger_failures = kSmall[i]->logger_failures,
                         .leaves_out = kRules[i].plan.leaves_out},
                        {.max_turns = kSmall[i]->max_turns});
    std::cout << kRules[i].means << ": " << found.violation << "; "
              << Summary(found) << "\n";
    EXPECT_NE(found.violation, "") << kRules[i].means;
  }
}

}  // namespace
}  // namespace snf
