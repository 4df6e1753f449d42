// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_TEXT_STDERR_LINE_H_
#define SNF_BASE_TEXT_STDERR_LINE_H_

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace snf {

// Prints on stderr, as fmt::print does, but never throws if stderr takes
// nothing, as on a full disk: the text is lost, and the process goes on. Of any
// thread.
template <typename... Arguments>
void PrintOnStderr(fmt::format_string<Arguments...> format,
                   Arguments&&... arguments) {
  const std::string text =
      fmt::format(format, std::forward<Arguments>(arguments)...);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace snf

#endif  // SNF_BASE_TEXT_STDERR_LINE_H_
