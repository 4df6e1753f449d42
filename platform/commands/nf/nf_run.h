// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_NF_NF_RUN_H_
#define SNF_PLATFORM_COMMANDS_NF_NF_RUN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/histogram.h"
#include "base/packet/ip_prefix.h"
#include "platform/commands/nf/plain_program.h"
#include "platform/process/command.h"
#include "platform/run/pace.h"
#include "runtime/sdk/nf_spec.h"
#include "traces/loaded_capture.h"

namespace snf {

// `snf nf run` runs an NF as a plain program (plain_program.h), in real time.
class NfRun final : public FlagCommand {
 public:
  NfRun();

 private:
  struct Timing {
    Nanos wall{};
    Nanos cpu{};
    uint64_t queue_full = 0;
    Histogram latency_ns;  // from when a packet is due
  };

  void AddFlags();
  absl::Status Run() override;
  absl::Status Load(LoadedCapture& capture) const;
  // Runs all packets as fast as it can: `take` is called with each.
  absl::Status FeedAll(
      const LoadedCapture& capture,
      const std::function<absl::Status(const CapturedPacket&)>& take) const;
  absl::Status FeedPaced(const LoadedCapture& capture, PlainProgram& program,
                         Timing& timing) const;
  // The packets that came out.
  struct Outcome {
    PlainTotals totals;
    uint64_t digest = 0;
    uint64_t store_requests = 0;
  };
  absl::StatusOr<Outcome> RunAlone(const NfSpec& nf,
                                   const LoadedCapture& capture,
                                   Timing& timing) const;
  absl::StatusOr<Outcome> RunByProxies(const NfSpec& nf,
                                       const LoadedCapture& capture,
                                       Timing& timing) const;
  absl::StatusOr<std::vector<NfSpec>> NfsForProxies(const NfSpec& nf) const;
  absl::Status CheckTables(const NfSpec& nf) const;
  std::string ReportOf(const Outcome& outcome, const NfSpec& nf,
                       const Timing& timing) const;

  std::string nf_;
  std::vector<std::string> files_;
  std::vector<IpPrefix> inside_;
  Speed speed_{.kind = Speed::Kind::kMax};
  uint32_t loop_ = 1;
  uint32_t queue_ = 1024;
  uint32_t batch_ = 1;
  size_t state_ = 0;
  size_t chain_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_NF_NF_RUN_H_
