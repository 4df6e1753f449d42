// SPDX-License-Identifier: Apache-2.0
#include "nfs/lb_health.h"

#include <algorithm>
#include <utility>

namespace snf {
namespace {

constexpr uint64_t kRounds = 64;

uint64_t Older(uint64_t bits, uint64_t rounds) {
  return rounds < kRounds ? bits << rounds : 0;
}

}  // namespace

void MergeChecks(LbChecks& checks, const LbChecks& more) {
  LbChecks older = more;
  if (older.round > checks.round) std::swap(older, checks);
  const uint64_t rounds = checks.round - older.round;
  checks.sent |= Older(older.sent, rounds);
  checks.passed |= Older(older.passed, rounds);
  checks.reset |= Older(older.reset, rounds);
  checks.wrong |= Older(older.wrong, rounds);
  checks.down_at = std::max(checks.down_at, older.down_at);
  checks.up_at = std::max(checks.up_at, older.up_at);
}

bool IsUp(const LbChecks& checks, uint64_t now,
          const LbHealthOptions& options) {
  if (checks.sent == checks.passed) return true;
  bool is_up = true;
  uint32_t passed = 0;
  uint32_t failed = 0;
  for (uint64_t k = kRounds; k-- > 0;) {
    const uint64_t bit = uint64_t{1} << k;
    if ((checks.passed & bit) != 0) {
      failed = 0;
      if (++passed >= options.rise) is_up = true;
    } else if ((checks.sent & bit) != 0) {
      passed = 0;  // also if the answer may still come
      const bool has_failed = checks.round - k + 1 < now;
      if (has_failed && ++failed >= options.fall) is_up = false;
    }
  }
  return is_up;
}

LbServerHealth HealthOf(const LbChecks& checks, uint64_t now,
                        const LbHealthOptions& options) {
  LbServerHealth health = {.is_up = IsUp(checks, now, options),
                           .checked = checks.round};
  if (health.is_up) {
    if (checks.up_at > checks.down_at) health.since = checks.up_at;
    return health;
  }
  health.since = checks.down_at;
  if (checks.down_at <= checks.up_at) {
    // No unit has noted the fall yet. Without another check, all have failed by
    // the second round.
    const uint64_t last = std::min(now, checks.round + 2);
    health.since = checks.round;
    while (health.since < last && IsUp(checks, health.since, options)) {
      ++health.since;
    }
  }
  const uint64_t failed = checks.sent & ~checks.passed;
  const uint64_t rounds = now - checks.round;
  // The newest check whose time is over.
  const uint64_t over =
      rounds < 2 ? failed & ~uint64_t{0} << (2 - rounds) : failed;
  const uint64_t last = over & -over;
  health.why = (checks.reset & last) != 0   ? "checks fail: reset"
               : (checks.wrong & last) != 0 ? "checks fail: wrong status"
                                            : "checks fail: no answer";
  return health;
}

}  // namespace snf
