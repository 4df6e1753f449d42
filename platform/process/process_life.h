// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_PROCESS_LIFE_H_
#define SNF_PLATFORM_PROCESS_PROCESS_LIFE_H_

#include <algorithm>
#include <utility>

#include "base/time.h"

namespace snf {

// The back-off of a process that was killed: it may be started again after a
// pause, which doubles each time that it lived less than kLongLife pauses. A
// value; owner-thread only.
//
// Example: a process that dies at once is started again after 1 ms, 2 ms, 4 ms
// … 1 s; one that has lived for 5 s, after 1 ms.
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

  // Notes that this process kills it.
  void Kill(Instant now) { died = now; }
  bool is_killed() const { return died != Instant::max(); }
  // Notes its end, seen now. Returns when it died, as far as that is known.
  Instant End(Instant now) {
    const bool was_short = now - begun < Nanos{kLongLife * pause.ns};
    pause =
        was_short ? std::min(Nanos{2 * pause.ns}, kLongestPause) : kFirstPause;
    start_at = now + pause;
    is_down = true;
    starts = false;
    return std::min(std::exchange(died, Instant::max()), now);
  }
  // Notes that it has ended by itself, or was never started.
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
  // Notes that it is ready.
  void Begin(Instant now) {
    is_down = starts = false;
    begun = now;
  }
};

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_PROCESS_LIFE_H_
