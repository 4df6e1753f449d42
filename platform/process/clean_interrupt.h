// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_CLEAN_INTERRUPT_H_
#define SNF_PLATFORM_PROCESS_CLEAN_INTERRUPT_H_

#include <atomic>
#include <string>

namespace snf {

// Lets a command bring what it began to its end when it is interrupted.
struct FirstInterrupt {
  std::atomic<bool> is_awaited = false;  // set by the command, while it looks
  std::atomic<bool> came = false;
};

// Lets an interrupt (SIGINT, Ctrl-C) or SIGTERM, unless it is ignored, end the
// process wherever it stands, also in the midst of a read: unfinished files are
// removed, a line that begins with `command` is printed, and the exit code is
// 128 + the signal's number. An interrupt that is awaited is only noted, in
// `first`, which has static lifetime, and the next one ends the process. Call
// once, before there are other threads: this takes a thread of its own, and the
// signals from all others.
void EndCleanlyWhenInterrupted(std::string command,
                               FirstInterrupt* first = nullptr);

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_CLEAN_INTERRUPT_H_
