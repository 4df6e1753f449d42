// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/core/manager_host.h"

#include <optional>
#include <utility>
#include <variant>

#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr ControllerId kController{2};
constexpr GlobalUnitId kUnit{0};

// A host of one unit's manager, whose commands all reach their receivers.
class ManagerHostTest : public testing::Test {
 protected:
  ManagerHostTest() {
    life_ = *host_.core()->on_join(now_, kController, out_);
    Deliver();
  }
  void Tell(const ToManager& message) {
    host_.Handle(now_, message, out_);
    Deliver();
  }
  // Answers for the unit, too.
  void Deliver() {
    while (!out_.empty()) {
      const ManagerOut commands = std::exchange(out_, {});
      for (const ManagerCommand& command : commands) {
        host_.on_delivered(command);
        if (const auto* start = std::get_if<StartUnit>(&command)) {
          host_.Handle(now_, UnitReady{start->unit}, out_);
        } else if (const auto* set = std::get_if<SetShare>(&command)) {
          host_.Handle(now_,
                       ShareSet{set->to, set->manager_epoch, set->lease,
                                set->sequence, set->share},
                       out_);
        } else if (const auto* grant = std::get_if<Grant>(&command)) {
          granted_ = *grant;
        } else if (const auto* given = std::get_if<NewLife>(&command)) {
          given_ = given->life;
        }
      }
    }
  }

  Instant now_ = Instant{} + Seconds(1);
  ManagerOut out_;
  ManagerHost host_{{.max_units = 1}, 1, out_};
  ControllerLife life_;
  std::optional<Grant> granted_;
  std::optional<ControllerLife> given_;
};

TEST_F(ManagerHostTest, CountsMessagesAndTheCommandsThatFollow) {
  Tell(Ask{life_, 1, 512});
  ASSERT_TRUE(granted_.has_value());
  EXPECT_EQ(granted_->share, 512);
  Tell(Ask{life_, 1, 512});  // a second time
  Tell(GiveBack{life_, granted_->lease, 0});
  const ManagerCounters counters = host_.counters();
  EXPECT_EQ(counters.asks, 2u);
  EXPECT_EQ(counters.given_back, 1u);
  EXPECT_EQ(counters.grants, 1u);
  EXPECT_EQ(counters.units_started, 1u);
  EXPECT_EQ(counters.units_up_max, 1u);
  EXPECT_EQ(counters.refused, 1u);
  EXPECT_EQ(counters.unheard, 0u);
}

TEST_F(ManagerHostTest, CountsOneStartOfAUnitThatIsToldTwice) {
  host_.on_delivered(StartUnit{{kUnit, 1}});
  host_.on_delivered(StartUnit{{kUnit, 1}, /*is_repeated=*/true});
  EXPECT_EQ(host_.counters().units_started, 1u);
}

TEST_F(ManagerHostTest, KeepsItsCountsOverAFailureAndHearsNothingMeanwhile) {
  Tell(Ask{{kController, 0}, 1, 512});  // of no life
  EXPECT_TRUE(host_.Kill(now_));
  EXPECT_FALSE(host_.Kill(now_));
  Tell(Ask{life_, 1, 512});
  EXPECT_FALSE(granted_.has_value());
  host_.Succeed(2, out_);
  out_.clear();
  EXPECT_FALSE(host_.is_ready());
  now_ = now_ + Seconds(2);
  Tell(UnitLeaseReport{{{kUnit, 0}, 2, /*is_dead=*/true}});
  host_.NoteRecovery(now_);
  EXPECT_TRUE(host_.is_ready());
  const ManagerCounters counters = host_.counters();
  EXPECT_EQ(counters.asks, 2u);
  EXPECT_EQ(counters.unheard, 1u);
  EXPECT_EQ(counters.refused, 1u);
  EXPECT_EQ(counters.failed, 1u);
  EXPECT_EQ(counters.recovered, 1u);
  EXPECT_EQ(counters.recovery_ns_max, 2'000'000'000u);
}

TEST_F(ManagerHostTest, GivesASuccessorALifeThatHasTheLeases) {
  Tell(Ask{life_, 1, 512});
  Tell(AskLife{kController});
  ASSERT_TRUE(given_.has_value());
  EXPECT_GT(given_->epoch, life_.epoch);
  EXPECT_EQ(granted_->to, *given_);
  EXPECT_EQ(host_.core()->held(kController), 512);
}

TEST_F(ManagerHostTest, GivesALifeToAControllerThatIsUnknownOnceReady) {
  host_.Kill(now_);
  host_.Succeed(2, out_);
  out_.clear();
  Tell(AskLife{kController});
  EXPECT_FALSE(given_.has_value());
  EXPECT_EQ(host_.counters().refused, 0u);
  Tell(UnitLeaseReport{{{kUnit, 0}, 2, /*is_dead=*/true}});
  Tell(AskLife{kController});
  ASSERT_TRUE(given_.has_value());
  EXPECT_GT(given_->epoch, life_.epoch);
}

}  // namespace
}  // namespace snf
