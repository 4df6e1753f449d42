// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_CHAINS_CHAIN_RESTARTER_H_
#define SNF_PLATFORM_DAEMON_CHAINS_CHAIN_RESTARTER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "platform/drivers/real_time/real_driver.h"

namespace snf {

// Theory of operation. Makes the next driver of a chain that has failed. If the
// maker fails, it is called again after a pause, kMostTries times at most. The
// pause doubles with each call, also before the first call of a restart. The
// first pause comes back once a driver has lived for kGoodLife.
//
// Worked example: a chain fails after an hour, and its driver is made at once.
// The chain fails again, within a second: its driver is made after 200 ms.
//
// One thread at a time; End: any thread.
class ChainRestarter {
 public:
  using Made = absl::StatusOr<std::unique_ptr<RealDriver>>;
  // Makes a driver like the failed one; may be called several times. Error:
  // Cancelled, the run is to end.
  using Maker = std::function<Made()>;

  // `told`, which may be null, gets a line of each call that fails.
  explicit ChainRestarter(std::function<void(const std::string&)> told)
      : told_(std::move(told)) {}

  // Blocks until there is a driver, or none can be made.
  Made Make(const Maker& maker);
  // Nothing restarts any more: Make returns Cancelled soon. Any thread.
  void End() { ends_ = true; }

 private:
  static constexpr Nanos kFirstPause = Milliseconds(100);
  static constexpr Nanos kLongestPause = Seconds(5);
  static constexpr Nanos kGoodLife = Seconds(10);
  static constexpr int kMostTries = 16;

  void Pause() const;

  std::function<void(const std::string&)> told_;
  Instant made_ = Instant::min();  // by the machine's monotonic clock
  Nanos pause_ = kFirstPause;
  std::atomic<bool> ends_ = false;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_CHAINS_CHAIN_RESTARTER_H_
