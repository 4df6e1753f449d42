// SPDX-License-Identifier: Apache-2.0
#include "platform/report/watch/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace snf {
namespace {

using ::testing::HasSubstr;

TEST(Health, IsAliveWhileFiguresComeOrAChainRestarts) {
  EXPECT_TRUE(Liveness(std::nullopt).is_good);  // a capture is loaded
  EXPECT_TRUE(Liveness(Nanos{}).is_good);
  EXPECT_EQ(Liveness(Seconds(1)).text, "ok\n");
  EXPECT_TRUE(Liveness(kLongestRestart).is_good);
  const MetricsServer::Health silent = Liveness(Nanos{kLongestRestart.ns + 1});
  EXPECT_FALSE(silent.is_good);
  EXPECT_THAT(silent.text, HasSubstr("no figures for 180"));
}

TEST(Health, IsReadyWhileAGroupHasIt) {
  LiveFigures figures;
  figures.group = {.name = "edge", .state = "active", .epoch = 7};
  EXPECT_TRUE(Readiness(Seconds(1), figures).is_good);
  figures.group->state = "out";
  const MetricsServer::Health out = Readiness(Seconds(1), figures);
  EXPECT_FALSE(out.is_good);
  EXPECT_EQ(out.text, "Group edge: this controller is out, in epoch 7.\n");
}

TEST(Health, IsReadyWhileAllPortsAndChainsAreUp) {
  LiveFigures figures;
  EXPECT_FALSE(Readiness(std::nullopt, figures).is_good);
  EXPECT_TRUE(Readiness(Seconds(1), figures).is_good);  // of a capture
  figures.live.ports = {PortFigures{}, PortFigures{}};
  figures.live.ports[0].name = "inside";
  figures.live.ports[0].interface = "lan0";
  figures.live.ports[1].name = "outside";
  figures.live.ports[1].interface = "wan0";
  EXPECT_TRUE(Readiness(Seconds(1), figures).is_good);
  EXPECT_EQ(Readiness(Seconds(1), figures).text, "ok\n");
  figures.live.ports[1].down = Seconds(3);
  const MetricsServer::Health down = Readiness(Seconds(1), figures);
  EXPECT_FALSE(down.is_good);
  EXPECT_THAT(down.text, HasSubstr("Port outside (wan0) has been down for 3"));
  EXPECT_THAT(down.text, Not(HasSubstr("inside (lan0)")));
  figures.live.ports[1].down = {};
  figures.chains = {{.number = 1, .nf = "nat"}, {.number = 2, .nf = "monitor"}};
  EXPECT_TRUE(Readiness(Seconds(1), figures).is_good);
  figures.chains[1].is_down = true;
  const MetricsServer::Health restarts = Readiness(Seconds(1), figures);
  EXPECT_FALSE(restarts.is_good);
  EXPECT_EQ(restarts.text, "Chain 2 (monitor) has failed, and restarts.\n");
  EXPECT_TRUE(Readiness(kMostSilence, LiveFigures{}).is_good);
  EXPECT_FALSE(Readiness(Nanos{kMostSilence.ns + 1}, LiveFigures{}).is_good);
}

}  // namespace
}  // namespace snf
