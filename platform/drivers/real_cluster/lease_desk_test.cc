// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_cluster/lease_desk.h"

#include <optional>
#include <thread>
#include <variant>

#include "gtest/gtest.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

constexpr ControllerId kController{0};

// A desk with one controller, whose successor asks for a life of its own.
class LeaseDeskTest : public testing::Test {
 protected:
  LeaseDeskTest() : desk_({.max_units = 2}, Seconds(100), {&unit_}) {
    first_ = desk_.Join(kController);
    desk_.Connect(controller_);
    desk_.Start();
  }
  // Waits until the successor has a life.
  std::optional<ControllerLife> AwaitLife() {
    const Instant begin = RealClock::Monotonic();
    while (RealClock::Monotonic() - begin < Seconds(30)) {
      for (const ToController& message : controller_.Take()) {
        const auto* given = std::get_if<NewLife>(&message);
        if (given != nullptr) return given->life;
      }
      std::this_thread::yield();
    }
    return std::nullopt;
  }
  ClusterFigures Stop() {
    desk_.Stop();
    ClusterFigures figures;
    desk_.AddFigures(figures);
    return figures;
  }

  UnitMail unit_;
  ControllerMail controller_;
  LeaseDesk desk_;
  ControllerLife first_;
};

TEST_F(LeaseDeskTest, GivesASuccessorALifeAfterWhichTheFirstIsRefused) {
  desk_.mail().Put(AskLife{kController});
  const auto life = AwaitLife();
  ASSERT_TRUE(life.has_value());
  EXPECT_EQ(life->controller, kController);
  EXPECT_GT(life->epoch, first_.epoch);
  desk_.mail().Put(Ask{first_, 1, 100});
  desk_.mail().Put(Ask{*life, 1, 100});
  desk_.mail().Put(AskLife{kController});  // behind both
  ASSERT_TRUE(AwaitLife().has_value());
  const ClusterFigures figures = Stop();
  EXPECT_EQ(figures.asks, 2u);
  EXPECT_EQ(figures.refused, 1u);
}

}  // namespace
}  // namespace snf
