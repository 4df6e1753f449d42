// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_RUN_DIGESTS_H_
#define SNF_PLATFORM_RUN_RUN_DIGESTS_H_

#include <cstdint>
#include <optional>

#include "base/ids.h"
#include "base/packet/flow_key.h"
#include "base/packet/fragment_table.h"
#include "platform/run/digest.h"
#include "platform/run/observers.h"
#include "platform/run/renaming_digest.h"

namespace snf {

// The digests of a run's released packets: as they are, and, if the NF has two
// sides, up to a renaming of external ports. Without sides, both are equal.
// Owner-thread only.
class RunDigests {
 public:
  // Digests of a flow's packets so far, for the controller that gets the flow.
  struct OfFlow {
    uint64_t exact = 0;
    uint64_t up_to_renaming = 0;  // 0 without sides
  };

  RunDigests(bool has_sides, const FragmentTable::Options& fragments) {
    if (has_sides) renaming_.emplace(fragments);
  }
  RunDigests(const RunDigests&) = delete;
  RunDigests& operator=(const RunDigests&) = delete;

  // Lets the digests hear of releases. They must outlive the observers.
  void AddTo(Observers& observers) {
    observers.Add(exact_);
    if (renaming_.has_value()) observers.Add(*renaming_);
  }
  // As RenamingDigest::on_granted.
  void on_granted(const FlowKey& external, const FlowKey& inside) {
    if (renaming_.has_value()) renaming_->on_granted(external, inside);
  }
  // As OfFlow and Continue of ReleaseDigest.
  OfFlow Of(FlowId flow) {
    return {
        .exact = exact_.OfFlow(flow),
        .up_to_renaming = renaming_.has_value() ? renaming_->OfFlow(flow) : 0};
  }
  void Continue(FlowId flow, const OfFlow& so_far) {
    exact_.Continue(flow, so_far.exact);
    if (renaming_.has_value()) {
      renaming_->Continue(flow, so_far.up_to_renaming);
    }
  }

  uint64_t exact() const { return exact_.value(); }
  uint64_t up_to_renaming() const {
    return renaming_.has_value() ? renaming_->value() : exact_.value();
  }

 private:
  ReleaseDigest exact_;
  std::optional<RenamingDigest> renaming_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_RUN_DIGESTS_H_
