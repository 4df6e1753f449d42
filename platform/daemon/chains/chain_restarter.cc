// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/chains/chain_restarter.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "runtime/ring/real_clock.h"

namespace snf {

ChainRestarter::Made ChainRestarter::Make(const Maker& maker) {
  const Instant now = RealClock::Monotonic();
  if (now - made_ > kGoodLife) pause_ = kFirstPause;
  for (int tries = 1;; ++tries) {
    if (tries > 1 || pause_ > kFirstPause) Pause();
    if (ends_) return absl::CancelledError("the run is to end");
    pause_ = std::min(Nanos{2 * pause_.ns}, kLongestPause);
    auto driver = maker();
    if (driver.ok()) made_ = RealClock::Monotonic();
    if (driver.ok() || absl::IsCancelled(driver.status()) ||
        tries == kMostTries) {
      return driver;
    }
    if (told_ == nullptr) continue;
    told_(fmt::format("the chain cannot restart yet: {}",
                      std::string(driver.status().message())));
  }
}

void ChainRestarter::Pause() const {
  constexpr Nanos kStep = Milliseconds(20);
  for (Nanos left = pause_; left.ns > 0 && !ends_; left.ns -= kStep.ns) {
    std::this_thread::sleep_for(
        std::chrono::nanoseconds(std::min(left, kStep).ns));
  }
}

}  // namespace snf
