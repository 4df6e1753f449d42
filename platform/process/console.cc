// SPDX-License-Identifier: Apache-2.0
#include "platform/process/console.h"

#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "runtime/ring/real_clock.h"

namespace snf {

std::unique_ptr<Progress> ShowProgress(const std::string& label,
                                       uint64_t total_bytes, bool quiet) {
  // Not Terminal::Of, which sets the locale: there may be other threads.
  Terminal terminal = {.is_terminal = isatty(STDERR_FILENO) != 0};
  terminal.Measure(STDERR_FILENO);
  return std::make_unique<Progress>(
      Progress::Options{.label = label,
                        .quiet = quiet,
                        .terminal = terminal,
                        .total_bytes = total_bytes,
                        .clock = RealClock::Monotonic,
                        .write = [](std::string_view text) {
                          std::fwrite(text.data(), 1, text.size(), stderr);
                        }});
}

}  // namespace snf
