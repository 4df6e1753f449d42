// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_TEXT_STDERR_LINE_H_
#define SNF_BASE_TEXT_STDERR_LINE_H_

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace snf {

// Prints on stderr like fmt::print, and does not throw if stderr fails, for
// example because a disk is full: then the text is lost. Any thread may call.
template <typename... Arguments>
void PrintOnStderr(fmt::format_string<Arguments...> format,
                   Arguments&&... arguments) {
  const std::string text =
      fmt::format(format, std::forward<Arguments>(arguments)...);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace snf

#endif  // SNF_BASE_TEXT_STDERR_LINE_H_
