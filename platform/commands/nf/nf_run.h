// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_NF_NF_RUN_H_
#define SNF_PLATFORM_COMMANDS_NF_NF_RUN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/histogram.h"
#include "base/packet/ip_prefix.h"
#include "platform/commands/nf/plain_program.h"
#include "platform/process/command.h"
#include "platform/run/pace.h"
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
  absl::Status Feed(const LoadedCapture& capture, PlainProgram& program,
                    Timing& timing) const;
  absl::Status FeedPaced(const LoadedCapture& capture, PlainProgram& program,
                         Timing& timing) const;
  std::string ReportOf(const PlainProgram& program, const Timing& timing,
                       const RemoteState* remote) const;

  std::string nf_;
  std::vector<std::string> files_;
  std::vector<IpPrefix> inside_;
  Speed speed_{.kind = Speed::Kind::kMax};
  uint32_t loop_ = 1;
  uint32_t queue_ = 1024;
  uint32_t batch_ = 1;
  size_t state_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_NF_NF_RUN_H_
