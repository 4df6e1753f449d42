// SPDX-License-Identifier: Apache-2.0
#include "platform/trace/trace_subcommand.h"

#include <CLI/CLI.hpp>
#include <utility>

namespace snf {

TraceSubcommand::TraceSubcommand(CLI::App& trace, Text text)
    : text_(std::move(text)),
      command_(*trace.add_subcommand(text_.name, text_.summary)),
      flags_(command_) {
  command_.formatter_fn(
      [this](const CLI::App*, std::string, CLI::AppFormatMode) {
        return flags_.Help(text_.usage, text_.about);
      });
}

bool TraceSubcommand::chosen() const { return command_.parsed(); }

}  // namespace snf
