// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_LB_HEALTH_H_
#define SNF_NFS_LB_HEALTH_H_

#include <cstdint>
#include <string_view>

#include "nfs/lb_health_options.h"

namespace snf {

// Theory of operation. The load balancer checks its servers in rounds of
// LbHealthOptions::interval, counted from the epoch. In each round in which
// clients send anything, some unit sends a check to each server; a round's
// check has passed if the right answer comes before the end of the next round.
//
// A table that all units share has, for each server, the rounds with checks and
// the rounds whose check passed. Units agree within the table's staleness.
// Merging is idempotent: an update that counts twice changes nothing.
//
// A server is up at first. It goes down at the `fall`-th failed check in a row,
// and up at the `rise`-th that passes in a row. Rounds without checks count as
// nothing. The last 64 rounds are kept: a server that went neither up nor down
// in these is up.
//
// Example: interval 2 s, fall 3, rise 2. A server dies at 10:00:01; its checks
// of 10:00:02, :04 and :06 fail. The last one has failed for sure at 10:00:10,
// and the server is down. The server lives again at 10:01:00, passes at :00 and
// :02, and is up.
struct LbChecks {
  uint64_t round = 0;   // the newest
  uint64_t sent = 0;    // bit k: round - k had a check
  uint64_t passed = 0;  // bit k: the check of round - k passed
  uint64_t reset = 0;   // bit k: the check of round - k was answered by a reset
  uint64_t wrong = 0;   // bit k: … by another status than 2xx or 3xx
  // The rounds in which the server was last found down, and up; 0 for never.
  uint64_t down_at = 0;
  uint64_t up_at = 0;

  friend bool operator==(const LbChecks&, const LbChecks&) = default;
};

// Merges `more` into `checks`.
void MergeChecks(LbChecks& checks, const LbChecks& more);
// Returns true if the server is up in the round `now`.
bool IsUp(const LbChecks& checks, uint64_t now, const LbHealthOptions& options);

// The health of a server.
struct LbServerHealth {
  bool is_up = true;
  uint64_t since = 0;         // the round of the last change; 0 for none
  std::string_view why = {};  // it is down
  uint64_t checked = 0;       // the round of the newest check; 0 for none
};
// Returns the health in the round `now`.
LbServerHealth HealthOf(const LbChecks& checks, uint64_t now,
                        const LbHealthOptions& options);

}  // namespace snf

#endif  // SNF_NFS_LB_HEALTH_H_
