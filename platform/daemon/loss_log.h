// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_LOSS_LOG_H_
#define SNF_PLATFORM_DAEMON_LOSS_LOG_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/time.h"
#include "platform/run/figures/live_figures.h"

namespace snf {

// Logs the losses of a live run: packets that the platform dropped, and frames
// that ports could not receive or send. Drops by an NF are verdicts, not
// losses, unless the name of the reason ends in "_exhausted": the NF has
// reached a limit. Log records of NFs that are lost are losses as well. Each
// reason gets a line at its first loss. While losses continue, the time until
// its next line doubles from kFirstPause to kLastPause.
//
// Owner-thread only.
class LossLog {
 public:
  static constexpr Nanos kFirstPause = Seconds(10);
  static constexpr Nanos kLastPause = Seconds(3600);
  // Receives a line: "7 packets lost: unit_queue_full; 93 in all".
  using Notice = std::function<void(std::string_view)>;

  explicit LossLog(Notice notice) : notice_(std::move(notice)) {}

  // Compares the counts, which only grow, with the previous ones.
  // LiveFigures::elapsed is the clock.
  void Look(const LiveFigures& figures);

 private:
  struct Loss {
    uint64_t told = 0;              // packets
    Nanos pause;                    // until the next line; 0: no line yet
    Instant next = Instant::min();  // no line before this time
  };
  void Look(std::string_view what, uint64_t count, Instant now,
            std::string_view noun = "packet");

  Notice notice_;
  std::map<std::string, Loss, std::less<>> losses_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_LOSS_LOG_H_
