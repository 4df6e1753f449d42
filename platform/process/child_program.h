// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_CHILD_PROGRAM_H_
#define SNF_PLATFORM_PROCESS_CHILD_PROGRAM_H_

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace snf {

// Runs another program, found on the PATH by the first of the words, with
// `input` as its stdin, and waits for its end. No shell reads the words.
// Returns its output on stdout. Errors: NotFound if there is no such program;
// Internal, beginning with the program's name, if it cannot be started, or has
// failed: then with the first line of its stderr if `tells_first` is set, else
// the last. Any thread.
//
// With `patience`, it has a process group of its own. The group is killed with
// SIGKILL after that time, or soon after `*stop` is true. The errors are
// DeadlineExceeded and Cancelled; both come even if the kernel cannot end it.
struct ChildProgram {
  std::vector<std::string> words;
  std::string_view input = {};
  bool tells_first = false;
  std::optional<std::chrono::milliseconds> patience = std::nullopt;
  const std::atomic<bool>* stop = nullptr;  // may be null
};
absl::StatusOr<std::string> RunChildProgram(const ChildProgram& program);

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_CHILD_PROGRAM_H_
