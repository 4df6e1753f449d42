// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_TRACE_INFO_H_
#define SNF_PLATFORM_TRACE_INFO_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "platform/trace_subcommand.h"

namespace snf {

// `snf trace info`: what is in captures, and what of it is usable.
class TraceInfo final : public TraceSubcommand {
 public:
  explicit TraceInfo(CLI::App& trace);

  absl::Status Run() override;

 private:
  std::vector<std::string> files_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_TRACE_INFO_H_
