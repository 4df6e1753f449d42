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
constexpr FailoverPlan Without(LeavesOut rule, FailoverPlan plan = kLoggers) {
  plan.leaves_out = rule;
  return plan;
}
// With pieces, aliases, timers and the ends of flows.
constexpr FailoverPlan kAll = {
    .packets = 60, .failures = 2, .may_ask = 31, .pieces = 3};
constexpr FailoverPlan kSuspected = {
    .packets = 40, .failures = 2, .only_suspected = true};
constexpr FailoverPlan kTables = {.packets = 60,
                                  .failures = 3,
                                  .logger_failures = 6,
                                  .may_ask = 31,
                                  .pieces = 3,
                                  .tables = true};
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
    LeftOut{"U1: packets run on older states", FailoverRule::kNone, Rule::kU1},
    LeftOut{"U2: nobody pulls", FailoverRule::kNone, Rule::kU2},
    LeftOut{"U4: older states are taken", FailoverRule::kNone, Rule::kU4,
            LoggerRule::kNone, kAll},
    LeftOut{"U7: a unit forgets newer copies", FailoverRule::kNone, Rule::kU7},
    LeftOut{"U7: so does its logger", FailoverRule::kNone, Rule::kNone,
            LoggerRule::kForgetOlder},
    LeftOut{"U4: what answered a Pull counts as a replica", FailoverRule::kNone,
            Rule::kHandedOver, LoggerRule::kNone, kAll},
    LeftOut{"U11: a timer stays behind", FailoverRule::kNone, Rule::kU11,
            LoggerRule::kNone, kAll},
    LeftOut{"U13: a piece is free before its clock is released",
            FailoverRule::kNone, Rule::kGivenBack, LoggerRule::kNone, kAll},
    LeftOut{"U13: loggers keep nothing for the controller", FailoverRule::kNone,
            Rule::kNone, LoggerRule::kKeepUntilTold, kAll},
    LeftOut{"U13: loggers tell nothing at a Seal", FailoverRule::kNone,
            Rule::kNone, LoggerRule::kNone, Without(LeavesOut::kTells, kAll)},
    LeftOut{"U9: aliases of lost clocks stand", FailoverRule::kAlias,
            Rule::kNone, LoggerRule::kNone, kAll},
    LeftOut{"F10: pieces come back before aliases are withdrawn",
            FailoverRule::kPiecesLast, Rule::kNone, LoggerRule::kNone, kAll},
    LeftOut{"F10: pieces that were free do not", FailoverRule::kNone,
            Rule::kNone, LoggerRule::kNone, Without(LeavesOut::kFree, kAll)},
    LeftOut{"F10: nor do grants that no logger knows", FailoverRule::kNone,
            Rule::kNone, LoggerRule::kNone, Without(LeavesOut::kGrants, kAll)},
    LeftOut{"U11: ends that were lost do not come again", FailoverRule::kEnds,
            Rule::kNone, LoggerRule::kNone, kAll},
    LeftOut{"T2: a logger does not keep updates of tables", FailoverRule::kNone,
            Rule::kNone, LoggerRule::kUpdatesLogged, kTables},
    LeftOut{"T3: updates end with the incarnation that made them",
            FailoverRule::kNone, Rule::kNone, LoggerRule::kUpdatesThrough,
            kTables},
    LeftOut{"T4: an update is kept each time that it comes",
            FailoverRule::kNone, Rule::kNone, LoggerRule::kUpdateOnce, kTables},
    LeftOut{"T4: a home does not look at numbers", FailoverRule::kNone,
            Rule::kNone, LoggerRule::kNone,
            Without(LeavesOut::kNumbers, kTables)},
    LeftOut{"T5: a new logger does not get its unit's updates",
            FailoverRule::kNone, Rule::kNone, LoggerRule::kUpdatesHandedOver,
            kTables},
};

// Not among them: U5, for who gets an older state than it needs holds its
// packet and asks again; L2 to L4, for there are no holes in a ring
// (output_logger_rules_test.cc); U8, for no unit is to stop.

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
  std::array<uint8_t, 6> asks{};
  uint32_t pieces = 0;
  uint32_t flows = 1;
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
    Small{3, 4, 0},
    Small{2, 1, 0},
    std::nullopt,  // it takes more packets
    Small{3, 4, 0},
    Small{3, 2},
    std::nullopt,  // it takes more flows
    Small{1, 1, 1, false, 0, {kAskTimer}},
    std::nullopt,  // it takes more flows
    Small{1, 2, 1, false, 0, {kAskEnd}},
    Small{1, 1, 1, false, 0, {kAskEnd}},
    Small{2, 1, 1, false, 0, {kAskPiece, kAskPiece}, 1, 2},
    std::nullopt,  // it takes more turns
    Small{1, 1, 1, false, 0, {kAskPiece}, 2},
    Small{1, 1, 1, false, 0, {kAskPiece}, 2},
    Small{1, 1, 1, false, 0, {kAskEnd}},
    std::nullopt,  // updates of tables take random steps
    std::nullopt,
    std::nullopt,
    std::nullopt,
    std::nullopt,
}};

TEST_F(FailoverRules, AreEachMissedByTheExplorer) {
  for (size_t i = 0; i < kRules.size(); ++i) {
    if (!kSmall[i].has_value()) continue;
    Leave(kRules[i]);
    const FailoverFindings found =
        ExploreFailover({.units = 2,
                         .flows = kSmall[i]->flows,
                         .packets = kSmall[i]->packets,
                         .failures = kSmall[i]->failures,
                         .only_suspected = kSmall[i]->only_suspected,
                         .flowlet_packets = 1,
                         .logger_failures = kSmall[i]->logger_failures,
                         .asks = kSmall[i]->asks,
                         .pieces = kSmall[i]->pieces,
                         .leaves_out = kRules[i].plan.leaves_out},
                        {.max_turns = kSmall[i]->max_turns});
    std::cout << kRules[i].means << ": " << found.violation << "; "
              << Summary(found) << "\n";
    EXPECT_NE(found.violation, "") << kRules[i].means;
  }
}

}  // namespace
}  // namespace snf
