// SPDX-License-Identifier: Apache-2.0
#include "platform/control/call_limit.h"

#include <sys/time.h>
#include <unistd.h>

#include "gtest/gtest.h"
#include "platform/process/exit_code.h"

namespace snf {
namespace {

TEST(CallLimit, EndsAProcessThatWaitsForTooLong) {
  EXPECT_EXIT(
      {
        const CallLimit limit("snf flows: no answer", Milliseconds(1));
        while (true) pause();
      },
      testing::ExitedWithCode(kExitUnavailable), "^snf flows: no answer\n$");
}

TEST(CallLimit, IsNoMoreOnceItHasEnded) {
  const auto left = [] {
    itimerval timer = {};
    getitimer(ITIMER_REAL, &timer);
    return timer.it_value.tv_sec;
  };
  {
    const CallLimit limit("never", Seconds(1'000));
    EXPECT_GT(left(), 900);
  }
  EXPECT_EQ(left(), 0);
  const CallLimit another("later", Seconds(1'000));
  EXPECT_GT(left(), 900);
}

}  // namespace
}  // namespace snf
