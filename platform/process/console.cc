// SPDX-License-Identifier: Apache-2.0
#include "platform/process/console.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <span>
#include <string_view>

#include "platform/process/real_clock.h"
#include "platform/text/terminal.h"
#include "traces/byte_sink.h"

namespace snf {

TextStyle StyleOf(int descriptor) {
  const Terminal terminal = Terminal::Of(descriptor);
  // Tables need some columns, and lines of more are hard to read.
  const auto columns =
      static_cast<int>(std::clamp(terminal.columns, size_t{60}, size_t{100}));
  return {.columns = columns, .utf8 = terminal.utf8, .colour = terminal.colour};
}

absl::Status WriteText(const std::string& path, const std::string& text) {
  auto sink = ByteSink::Open(path);
  if (!sink.ok()) return sink.status();
  (*sink)->Append(std::as_bytes(std::span(text)));
  return (*sink)->Close();
}

std::unique_ptr<Progress> ShowProgress(const std::string& label,
                                       uint64_t total_bytes, bool quiet) {
  Terminal terminal = {.is_terminal = isatty(STDERR_FILENO) != 0};
  terminal.Measure(STDERR_FILENO);
  return std::make_unique<Progress>(
      Progress::Options{.label = label,
                        .quiet = quiet,
                        .terminal = terminal.is_terminal,
                        .columns = static_cast<int>(terminal.columns),
                        .total_bytes = total_bytes,
                        .clock = RealClock::Monotonic,
                        .write = [](std::string_view text) {
                          std::fwrite(text.data(), 1, text.size(), stderr);
                        }});
}

}  // namespace snf
