// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_TRACE_TRACE_COMPOSE_H_
#define SNF_PLATFORM_COMMANDS_TRACE_TRACE_COMPOSE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "platform/commands/trace/trace_making.h"
#include "platform/process/command.h"
#include "traces/capture_format.h"

namespace snf {

// `snf trace compose` overlays the conversations of captures to a rate.
class TraceCompose final : public FlagCommand {
 public:
  TraceCompose();

 private:
  absl::Status Run() override;
  absl::Status SetWeight(const std::string& text);

  std::vector<std::string> files_;
  TraceMaking making_;
  double exponent_ = 0;  // of a conversation's bytes
  std::string weight_ = "1";
  uint32_t snap_bytes_ = kMaxCapturedBytes;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_TRACE_TRACE_COMPOSE_H_
