// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_IDS_EVE_H_
#define SNF_NFS_IDS_EVE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/packet/flow_key.h"
#include "nfs/snort/rule_set.h"

namespace snf {

// One alert, as units collect it in a table: the key is unique in a run.
struct IdsAlertKey {
  FlowKey ends;  // of the packet, as FiveTuple gives them
  uint64_t time_ns = 0;
  uint32_t packet = 0;  // number in its flow
  uint32_t rule = 0;    // index in the set
};
static_assert(sizeof(IdsAlertKey) == 56);

struct IdsAlert {
  enum What : uint64_t { kToServer = 1, kDropped = 2, kHttp = 4 };
  uint64_t times = 0;     // 1
  uint64_t begin_ns = 0;  // of the flow
  uint64_t what = 0;      // a sum of What
  uint64_t icmp = 0;      // type · 256 + code
};

using IdsAlerts = std::vector<std::pair<IdsAlertKey, IdsAlert>>;

// An alert as the NF's log record (NetworkFunction::write_record). The bits of
// its flow may follow.
struct IdsAlertRecord {
  IdsAlertKey key;
  IdsAlert alert;
};
static_assert(std::has_unique_object_representations_v<IdsAlertRecord>);
std::vector<std::byte> RecordBytes(const IdsAlertRecord& record,
                                   std::span<const std::byte> bits);

// Holds alerts back by thresholds, detection filters and suppressions, whose
// counts by source and destination are over all flows. Owner-thread only.
class IdsAlertFilter {
 public:
  // Returns whether the alert passes. Alerts come in the order of time, or
  // nearly so: an alert from before a period counts in the period.
  bool Passes(const snort::RuleSet& set, const IdsAlertKey& key);

 private:
  // The counts of one rule and one address.
  struct Period {
    uint64_t begin_ns = 0;
    uint64_t count = 0;
    bool is_new = true;
  };
  static bool Counts(const snort::Threshold& threshold, uint64_t now_ns,
                     Period& period);

  std::map<std::pair<uint32_t, IpAddress>, Period> periods_;
};

// Puts the alerts into the order of time, and takes out the alerts that
// thresholds, detection filters and suppressions hold back. The counts by
// source and destination are over all flows.
void FilterAlerts(const snort::RuleSet& set, IdsAlerts& alerts);

// Returns an alert as a line of EVE JSON (Suricata 7, "alert"), with its end.
// `bits` are the flow's, for its metadata.
std::string EveLine(const snort::RuleSet& set, const IdsAlertKey& key,
                    const IdsAlert& alert,
                    std::span<const std::byte> bits = {});

}  // namespace snf

#endif  // SNF_NFS_IDS_EVE_H_
