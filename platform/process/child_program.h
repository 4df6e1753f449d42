// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_CHILD_PROGRAM_H_
#define SNF_PLATFORM_PROCESS_CHILD_PROGRAM_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace snf {

// Runs another program, found on the PATH by the first of the words, with
// `input` as its stdin, and waits for its end, however long that takes. No
// shell reads the words. Returns what it wrote to stdout. Errors: NotFound,
// there is no such program; Internal, which begins with the program's name, it
// cannot be started, or has failed, with the first line that it wrote to stderr
// where `tells_first` is set, else the last. Any thread.
struct ChildProgram {
  std::vector<std::string> words;
  std::string_view input = {};
  bool tells_first = false;
};
absl::StatusOr<std::string> RunChildProgram(const ChildProgram& program);

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_CHILD_PROGRAM_H_
