// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_IDS_OPTIONS_H_
#define SNF_NFS_IDS_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "nfs/snort/evaluator.h"
#include "nfs/snort/matcher.h"
#include "runtime/sdk/nf_options.h"

namespace snf {

// The fate of a packet that a rule alerts on.
enum class IdsAction : uint8_t { kAlert, kRule, kDrop };

// The options of the NF "ids", and the rules, which all units share.
struct IdsOptions {
  explicit IdsOptions(NfOptions& options);

  std::shared_ptr<const snort::RuleMatcher> matcher;  // null after an error
  IdsAction action = IdsAction::kAlert;
  bool inspects_midstream = true;
  uint32_t window_bytes = 2'048;   // kept of each direction of a connection
  uint32_t reorder_bytes = 4'096;  // held of each direction, out of order
  uint32_t max_body_bytes = 16'384;
  uint32_t max_alerts = 65'536;
  uint32_t top = 20;
  std::string eve;  // file; "" for none
  snort::Evaluator::Limits limits;
};

}  // namespace snf

#endif  // SNF_NFS_IDS_OPTIONS_H_
