// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_TRACE_TRACE_INFO_H_
#define SNF_PLATFORM_COMMANDS_TRACE_TRACE_INFO_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/commands/trace/trace_info_report.h"
#include "platform/process/command.h"
#include "platform/process/flow_key_flag.h"
#include "traces/capture_statistics.h"

namespace snf {

// `snf trace info` describes captures: packets, flows and flowlets.
class TraceInfo final : public FlagCommand {
 public:
  TraceInfo();

 private:
  absl::Status Run() override;
  void AddFlags();
  absl::StatusOr<CaptureInfo> Read(const std::string& file) const;

  std::vector<std::string> files_;
  FlowKeyFlag flow_key_;
  CaptureStatistics::Options options_;
  std::string json_;
  std::string plot_;
  bool quiet_ = false;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_TRACE_TRACE_INFO_H_
