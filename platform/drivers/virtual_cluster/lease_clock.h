// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_LEASE_CLOCK_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_LEASE_CLOCK_H_

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "base/time.h"
#include "platform/drivers/cluster/cluster_options.h"

namespace snf {

// Theory of operation. The time of leases in a run in virtual time. Captures
// span years, and leases are renewed each epoch. So once nothing has come for a
// minute, the time of leases stands still until something is due.
//
// Worked example: between two packets that are ten days apart, leases are
// renewed for the first minute, and from an epoch before the second packet on.
//
// A value; owner-thread only.
class LeaseClock {
 public:
  explicit LeaseClock(const ClusterOptions& cluster)
      : settling_{std::max(kSettling.ns, 16 * cluster.term.ns)},
        period_(PeriodOf(cluster, settling_)) {}

  // Returns the time of leases at a time of the run.
  Instant At(Instant now) const { return now + Nanos{-skipped_.ns}; }
  // Something came, beside what keeps leases as they are.
  void on_busy(Instant now) { busy_until_ = now; }
  // Returns true if leases have settled and the time until then is long.
  bool MaySkip(Instant now, Instant until) const {
    return now - busy_until_ >= settling_ && until - now >= settling_;
  }
  // Skips most of that time, by whole periods of what is periodic. Returns the
  // time that the run is to skip; 0: none.
  Nanos Skip(Instant now, Instant until) {
    const Nanos skipped{(until - now).ns / period_.ns * period_.ns -
                        period_.ns};
    if (skipped.ns <= 0) return Nanos{};
    skipped_.ns += skipped.ns;
    busy_until_ = now + skipped;
    return skipped;
  }

 private:
  // The time in which leases settle without traffic, or 16 terms of leases.
  static constexpr Nanos kSettling = Seconds(60);

  // All events keep their places in their periods.
  static Nanos PeriodOf(const ClusterOptions& cluster, Nanos settling) {
    const int64_t epoch = cluster.epoch.ns;
    const int64_t grace = cluster.revoke_grace.ns;
    if (epoch <= 0 || grace <= 0) return cluster.epoch;
    const int64_t graces = epoch / std::gcd(epoch, grace);
    return graces <= settling.ns / grace ? Nanos{graces * grace}
                                         : cluster.epoch;
  }

  Nanos settling_;
  Nanos period_;
  Nanos skipped_;  // time of the run less the time of leases
  Instant busy_until_ = Instant::min();
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_LEASE_CLOCK_H_
