// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_ROUTER_RATE_LIMIT_H_
#define SNF_PLATFORM_PORTS_ROUTER_RATE_LIMIT_H_

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace snf {

// Limits how often something is done: `burst` times at once, and from then on
// `per_second` times a second (the generic cell rate algorithm). A value.
class RateLimit {
 public:
  RateLimit(int64_t per_second, int64_t burst)
      : period_{1'000'000'000 / per_second}, tolerance_{period_.ns * burst} {}

  // Returns true, and counts, if it may be done now.
  bool Allows(Instant now) {
    const Instant next = std::max(next_, now) + period_;
    if (next - now > tolerance_) return false;
    next_ = next;
    return true;
  }

 private:
  Nanos period_;
  Nanos tolerance_;
  Instant next_ = Instant::min();
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_ROUTER_RATE_LIMIT_H_
