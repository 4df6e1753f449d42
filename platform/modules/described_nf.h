// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_MODULES_DESCRIBED_NF_H_
#define SNF_PLATFORM_MODULES_DESCRIBED_NF_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "proto/module.pb.h"
#include "runtime/sdk/nf.h"

namespace snf {

// Returns the description of an NF with these options, which may be wrong: then
// the description has the error. Runs the NF's code. If controllers would have
// to run code of the NF as well, that is such an error.
proto::NfDescription Describe(const NfRegistration& registration,
                              const NfOptions& options);

// Returns OK if an NF can be made of the description, which may be anything;
// else InvalidArgument names the field.
absl::Status CheckDescription(const proto::NfDescription& description);

// A description, with the names that stand-ins of its NF have.
struct HeldDescription {
  explicit HeldDescription(proto::NfDescription of);
  HeldDescription(const HeldDescription&) = delete;
  HeldDescription& operator=(const HeldDescription&) = delete;

  const proto::NfDescription description;
  const std::vector<std::string_view> drop_reasons;
  const std::vector<std::string_view> labels;
};

// Stands for an NF where its code must not run: it has the declarations of the
// NF, and processes no packet. A record of its logs is a line of text,
// and there is no report.
class DescribedNf final : public NetworkFunction {
 public:
  // CheckDescription has found the description good. It lives as long as the
  // program, as names of an NF do.
  explicit DescribedNf(const HeldDescription& held);

  FlowScope flow_scope() const override;
  bool is_barrier() const override { return description().is_barrier(); }
  bool needs_first_fragment() const override {
    return description().needs_first_fragment();
  }
  bool takes_merged() const override { return description().takes_merged(); }
  bool has_timer() const override { return description().has_timer(); }
  std::span<const std::string_view> drop_reasons() const override {
    return held_.drop_reasons;
  }
  std::span<const std::string_view> labels() const override {
    return held_.labels;
  }
  std::vector<std::string> warnings() const override;
  Verdict process_packet(Packet& packet, FlowState& flow) override;

 private:
  const proto::NfDescription& description() const { return held_.description; }

  const HeldDescription& held_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_MODULES_DESCRIBED_NF_H_
