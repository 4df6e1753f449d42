// SPDX-License-Identifier: Apache-2.0
// Without any one of the rules of the protocol something goes wrong, and the
// explorer notices.
#include "runtime/core/rules.h"

#include <array>
#include <iostream>
#include <string>

#include "gtest/gtest.h"
#include "runtime/core/test_explorer.h"
#include "runtime/core/test_world.h"

namespace snf {
namespace {

struct LeftOut {
  Rule rule;
  const char* means;
  Configuration configuration;  // where it is noticed
  const char* violation;        // as it begins
  size_t steps;                 // to it, at the most
};
constexpr Configuration kTwoPackets = {.packets = 2, .pushes = 1};
constexpr Configuration kThreePackets = {.packets = 3, .pushes = 1};
constexpr Configuration kScaleIn = {.packets = 2, .pushes = 1, .leaves = 1};
constexpr Configuration kEviction = {
    .flows = 2, .packets = 3, .pushes = 1, .losses = 1};
constexpr Configuration kLoggers = {
    .packets = 2, .pushes = 1, .has_loggers = true};
constexpr Configuration kHost = {.packets = 3, .pushes = 1, .has_host = true};
constexpr Configuration kHostFails = {.packets = 3,
                                      .pushes = 1,
                                      .deaths = 1,
                                      .has_loggers = true,
                                      .has_host = true};
constexpr std::array<LeftOut, 12> kRules = {{
    {Rule::kU1, "U1: packets run on any copy", kThreePackets, "I2", 5},
    {Rule::kU2, "U2: held packets pull nothing", kTwoPackets, "I7", 5},
    {Rule::kU4, "U4: older state is taken too", kTwoPackets, "I5", 14},
    {Rule::kU5, "U5: a Pull is answered with any state", kThreePackets, "I7",
     9},
    {Rule::kU6, "U6: state leaves before it is released", kLoggers, "I3", 12},
    {Rule::kU13, "U13: a Takeover is told before its packet is released",
     kLoggers, "I5", 12},
    {Rule::kU7, "U7: Takeover forgets newer state too", kThreePackets, "I5",
     16},
    {Rule::kU8, "U8: a unit stops before its flows are taken", kScaleIn, "I5",
     5},
    {Rule::kHandedOver, "a copy that was handed over is a mere replica",
     kEviction, "I7", 24},
    {Rule::kU6,
     "U6: a state is shown before it is released",
     {.packets = 2, .pushes = 1, .has_loggers = true, .has_host = true},
     "I3",
     12},
    {Rule::kU16, "U16: a shown state of any clock is taken", kHost, "I1", 12},
    {Rule::kF5, "U16, F5: the same, of a unit that has failed", kHostFails,
     "I2", 14},
}};

class Rules : public ::testing::Test {
 protected:
  ~Rules() override { left_out_rule = Rule::kNone; }
};

TEST_F(Rules, AreEachMissedWhenLeftOut) {
  for (const LeftOut& left_out : kRules) {
    left_out_rule = left_out.rule;
    const Findings found = Explore(left_out.configuration);
    std::cout << left_out.means << " (" << found.states << " states)\n";
    for (size_t i = 0; i < found.trace.size(); ++i) {
      std::cout << (i < 9 ? "   " : "  ") << i + 1 << "  " << found.trace[i]
                << "\n";
    }
    EXPECT_TRUE(found.violation.starts_with(left_out.violation))
        << found.violation;
    EXPECT_LE(found.trace.size(), left_out.steps);
  }
}

TEST_F(Rules, LetNothingGoWrongTogether) {
  for (const LeftOut& left_out : kRules) {
    const Findings found = Explore(left_out.configuration);
    EXPECT_EQ(found.violation, "");
    EXPECT_TRUE(found.is_complete);
  }
}

}  // namespace
}  // namespace snf
