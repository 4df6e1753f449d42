// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_IDS_OPTIONS_H_
#define SNF_NFS_IDS_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "nfs/ids_events.h"
#include "nfs/snort/evaluator.h"
#include "nfs/snort/matcher.h"
#include "runtime/sdk/nf_options.h"

namespace snf {

// The fate of a packet that a rule alerts on: it passes, the rule's own action
// decides, or it is dropped.
enum class IdsAction : uint8_t { kAlert, kRule, kDrop };

// The fate of a connection at an exception, like Suricata's exception policies:
// inspect it further, pass it (pass-flow) or drop it (drop-flow).
enum class IdsPolicy : uint8_t { kAlert, kPass, kDrop };

// The options of the NF "ids", and the rules, which all units share.
struct IdsOptions {
  explicit IdsOptions(NfOptions& options);

  std::shared_ptr<const snort::RuleMatcher> matcher;  // null after an error
  IdsAction action = IdsAction::kAlert;
  IdsPolicy midstream = IdsPolicy::kAlert;
  IdsPolicy on_gap = IdsPolicy::kAlert;
  IdsPolicy on_memcap = IdsPolicy::kAlert;
  IdsEventTypes events;
  uint32_t window_bytes = 2'048;    // kept of each direction of a connection
  uint32_t reorder_bytes = 3'072;   // held of each direction, out of order
  uint32_t fragment_bytes = 3'072;  // held of a flow
  uint32_t max_body_bytes = 16'384;
  uint32_t max_alerts = 65'536;
  uint32_t top = 20;
  std::string eve;  // file; "" for none
  snort::Evaluator::Limits limits;

  // Returns true if a packet is dropped that the rule alerts on. Detection
  // filters are counted in the report only, so their rules do not drop.
  bool DropsFor(const snort::Rule& rule) const {
    const bool is_filtered =
        rule.threshold.has_value() &&
        rule.threshold->kind == snort::Threshold::Kind::kDetectionFilter;
    return action == IdsAction::kDrop ||
           (action == IdsAction::kRule && !is_filtered &&
            rule.action == snort::Rule::Action::kDrop);
  }
  // Returns the bytes of a flow's flowbits.
  uint32_t flowbit_bytes() const {
    const size_t bits = matcher == nullptr ? 0 : matcher->set().flowbits;
    return static_cast<uint32_t>(bits / 8 + 1);
  }
  // Returns true if the NF ever drops a packet.
  bool drops() const {
    return action != IdsAction::kAlert || midstream == IdsPolicy::kDrop ||
           on_gap == IdsPolicy::kDrop || on_memcap == IdsPolicy::kDrop;
  }
};

}  // namespace snf

#endif  // SNF_NFS_IDS_OPTIONS_H_
