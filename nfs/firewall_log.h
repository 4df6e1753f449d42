// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_FIREWALL_LOG_H_
#define SNF_NFS_FIREWALL_LOG_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/packet/flow_key.h"
#include "nfs/firewall_rules.h"
#include "runtime/sdk/nf_report.h"

namespace snf {

// The sums of one rule, as units collect them in a table: over packets that the
// rule was asked about, and further packets of a connection that it allowed or
// of a direction that it denied.
struct FirewallHits {
  uint64_t times = 0;  // that it was the first to match
  uint64_t packets = 0;
  uint64_t bytes = 0;    // on the wire
  uint64_t last_ns = 0;  // when the last of the packets came; 0: there is none

  // Units' sums are merged.
  void Add(const FirewallHits& more) {
    times += more.times;
    packets += more.packets;
    bytes += more.bytes;
    last_ns = std::max(last_ns, more.last_ns);
  }
};

// One decision of a rule that is logged.
struct FirewallLogKey {
  FlowKey ends;  // of the packet, as FiveTuple gives them
  uint64_t time_ns = 0;
  uint64_t rule = 0;
};
static_assert(sizeof(FirewallLogKey) == 56);
struct FirewallLogged {
  uint64_t times = 0;
  uint64_t bytes = 0;
};
// The same as the NF's log record (NetworkFunction::write_record).
struct FirewallLogRecord {
  FirewallLogKey key;
  FirewallLogged logged;
};
static_assert(std::has_unique_object_representations_v<FirewallLogRecord>);
using FirewallLog = std::vector<std::pair<FirewallLogKey, FirewallLogged>>;

// Returns the table of a report: the `top` rules with most packets, in order;
// `hits` has one entry a rule, and behind them that of the default action.
NfReport::Table RuleHitsTable(const FirewallRules& rules,
                              std::string_view default_action, size_t top,
                              const std::vector<FirewallHits>& hits);

// Puts the log into the order of time, and leaves at most `rate` decisions of
// each rule in a second. Returns how many were taken out.
uint64_t LimitLog(uint64_t rate, FirewallLog& log);

// Limits the records of each rule in a second. Owner-thread only.
class FirewallLogLimit {
 public:
  explicit FirewallLogLimit(uint64_t rate) : rate_(rate) {}
  // Returns how many records of the rule were held back since the last that
  // passed, or nothing if this one is. Records come in the order of time, or
  // nearly so: one of an earlier second counts in the present one.
  std::optional<uint64_t> Passes(const FirewallLogKey& key);

 private:
  struct Period {
    uint64_t second = 0;
    uint64_t count = 0;
    uint64_t held_back = 0;
  };
  uint64_t rate_;
  std::map<uint64_t, Period> periods_;  // by rule
};

// Returns a decision as a line of EVE JSON, with its end; `held_back` decisions
// of the rule were left out before it.
std::string LogLine(const FirewallRules& rules, const FirewallLogKey& key,
                    const FirewallLogged& logged, uint64_t held_back = 0);

}  // namespace snf

#endif  // SNF_NFS_FIREWALL_LOG_H_
