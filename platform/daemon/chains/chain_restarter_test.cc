// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/chains/chain_restarter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace snf {
namespace {

using testing::ElementsAre;

TEST(ChainRestarter, CallsAMakerThatFailsAgain) {
  std::vector<std::string> told;
  ChainRestarter restarter(
      [&told](const std::string& line) { told.push_back(line); });
  int calls = 0;
  const auto made = restarter.Make([&calls]() -> ChainRestarter::Made {
    if (++calls == 1) return absl::UnavailableError("no memory");
    return std::unique_ptr<RealDriver>();
  });
  EXPECT_TRUE(made.ok());
  EXPECT_EQ(calls, 2);
  EXPECT_THAT(told, ElementsAre("the chain cannot restart yet: no memory"));
}

TEST(ChainRestarter, EndsWithARunThatIsToEnd) {
  ChainRestarter restarter(nullptr);
  int calls = 0;
  const auto made = restarter.Make([&calls]() -> ChainRestarter::Made {
    ++calls;
    return absl::CancelledError("the run is to end");
  });
  EXPECT_TRUE(absl::IsCancelled(made.status()));
  EXPECT_EQ(calls, 1);
}

TEST(ChainRestarter, CallsNoMakerOnceItHasEnded) {
  ChainRestarter restarter(nullptr);
  restarter.End();
  int calls = 0;
  const auto made = restarter.Make([&calls]() -> ChainRestarter::Made {
    ++calls;
    return std::unique_ptr<RealDriver>();
  });
  EXPECT_TRUE(absl::IsCancelled(made.status()));
  EXPECT_EQ(calls, 0);
}

TEST(ChainRestarter, EndsBetweenTwoCalls) {
  ChainRestarter restarter(nullptr);
  const auto made = restarter.Make([&restarter]() -> ChainRestarter::Made {
    restarter.End();
    return absl::UnavailableError("no memory");
  });
  EXPECT_TRUE(absl::IsCancelled(made.status()));
}

}  // namespace
}  // namespace snf
