// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_TRACE_TRACE_SUBCOMMAND_H_
#define SNF_PLATFORM_TRACE_TRACE_SUBCOMMAND_H_

#include <string>

#include "absl/status/status.h"
#include "platform/process/flags.h"

namespace CLI {
class App;
}

namespace snf {

// One command of `snf trace`. A derived class adds its flags and arguments in
// its constructor; parsing fills them, Run does the work.
class TraceSubcommand {
 public:
  struct Text {
    std::string name;     // "info"
    std::string summary;  // a line in the help of `snf trace`
    std::string usage;    // "snf trace info FILE… [--FLAG=VALUE…]"
    std::string about;    // the paragraph of its own help
  };

  virtual ~TraceSubcommand() = default;
  TraceSubcommand(const TraceSubcommand&) = delete;
  TraceSubcommand& operator=(const TraceSubcommand&) = delete;

  const Text& text() const { return text_; }
  bool chosen() const;

  // The message of an error is one line; its code says the exit code.
  virtual absl::Status Run() = 0;

 protected:
  // Adds the subcommand to `trace`, which must outlive it.
  TraceSubcommand(CLI::App& trace, Text text);

  CLI::App& command() { return command_; }
  FlagSet& flags() { return flags_; }

 private:
  Text text_;
  CLI::App& command_;
  FlagSet flags_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_TRACE_TRACE_SUBCOMMAND_H_
