// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REAL_TIME_PROCESS_LIFE_H_
#define SNF_PLATFORM_REAL_TIME_PROCESS_LIFE_H_

#include <algorithm>
#include <utility>

#include "base/time.h"

namespace snf {

// When a process that may be killed was started, and may be started again:
// after a pause, which doubles while the process does not live several times as
// long. A value; owner-thread only.
struct ProcessLife {
  static constexpr Nanos kFirstPause = Milliseconds(1);
  static constexpr Nanos kLongestPause = Seconds(1);
  static constexpr int64_t kLongLife = 4;  // pauses

  Instant died = Instant::max();  // when it was killed, if that is known
  Instant begun{};                // when it was started last, or ready
  Instant start_at;               // when it may be started again
  Nanos pause = kFirstPause;
  bool is_down = false;
  bool starts = false;

  // It was killed by this process.
  void Kill(Instant now) { died = now; }
  bool is_killed() const { return died != Instant::max(); }
  // Its end was seen. Returns when it died, as far as that is known.
  Instant End(Instant now) {
    const bool was_short = now - begun < Nanos{kLongLife * pause.ns};
    pause =
        was_short ? std::min(Nanos{2 * pause.ns}, kLongestPause) : kFirstPause;
    start_at = now + pause;
    is_down = true;
    starts = false;
    return std::min(std::exchange(died, Instant::max()), now);
  }
  // It has ended by itself, or was never started.
  void Rest(Instant now) {
    *this = {};
    start_at = now;
    is_down = true;
  }
  bool may_start(Instant now) const {
    return is_down && !starts && now >= start_at;
  }
  void Start(Instant now) {
    starts = true;
    begun = now;
  }
  // It is ready.
  void Begin(Instant now) {
    is_down = starts = false;
    begun = now;
  }
};

}  // namespace snf

#endif  // SNF_PLATFORM_REAL_TIME_PROCESS_LIFE_H_
