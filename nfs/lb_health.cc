// SPDX-License-Identifier: Apache-2.0
#include "nfs/lb_health.h"

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

}  // namespace snf
