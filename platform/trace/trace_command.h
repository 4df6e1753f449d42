// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_TRACE_TRACE_COMMAND_H_
#define SNF_PLATFORM_TRACE_TRACE_COMMAND_H_

#include <memory>
#include <string>
#include <vector>

#include "platform/trace/trace_subcommand.h"

namespace CLI {
class App;
}

namespace snf {

// `snf trace`: what researchers do with captures besides replaying them. Built
// once at start; parsing fills it, Run does the work.
class TraceCommand {
 public:
  // Adds the subcommand to `app`, which must outlive it.
  explicit TraceCommand(CLI::App& app);
  TraceCommand(const TraceCommand&) = delete;
  TraceCommand& operator=(const TraceCommand&) = delete;

  bool chosen() const;

  // Runs and prints; errors are one line on stderr. Returns the exit code
  // (platform/process/exit_code.h).
  int Run();

 private:
  std::string Help() const;

  CLI::App& command_;
  std::vector<std::unique_ptr<TraceSubcommand>> subcommands_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_TRACE_TRACE_COMMAND_H_
