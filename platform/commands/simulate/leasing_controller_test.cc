// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/simulate/leasing_controller.h"

#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr ControllerLife kLife = {ControllerId{3}, 7};

// Units of 1,024 Mbit/s: a share is 1 Mbit/s.
struct Fluid {
  LeaseOptions options{.unit_capacity_bps = 1'024'000'000};
  LeasingController controller{options, kLife};
  LeaseCommands out;
  Instant now{};

  void Load(int64_t change_mbps) {
    controller.on_load(now, change_mbps * 1'000'000, out);
  }
};

TEST(LeasingController, MeasuresWhatIsAboveItsSharesAsShort) {
  Fluid a;
  a.Load(400);
  a.controller.on_grant(a.now, {kLife, LeaseId{1}, {}, 300}, a.out);
  a.now = a.now + Seconds(1);
  a.controller.Advance(a.now);
  a.Load(-200);
  a.now = a.now + Seconds(1);
  a.controller.Advance(a.now);
  EXPECT_DOUBLE_EQ(a.controller.figures().offered_bits, 600e6);
  EXPECT_DOUBLE_EQ(a.controller.figures().leased_bits, 600e6);
  EXPECT_DOUBLE_EQ(a.controller.figures().short_bits, 100e6);
}

TEST(LeasingController, VacatesAtOnce) {
  Fluid a;
  a.controller.on_grant(a.now, {kLife, LeaseId{1}, {}, 300}, a.out);
  a.now = a.now + Seconds(1);
  a.controller.on_epoch(a.now, a.out);
  for (const LeaseCommand& command : a.out) {
    EXPECT_FALSE(std::holds_alternative<VacateLease>(command));
  }
  ASSERT_FALSE(a.out.empty());
  EXPECT_TRUE(std::holds_alternative<GiveBack>(a.out.back()));
  EXPECT_EQ(a.controller.held(), 0);
}

}  // namespace
}  // namespace snf
