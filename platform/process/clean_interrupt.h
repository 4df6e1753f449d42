// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_CLEAN_INTERRUPT_H_
#define SNF_PLATFORM_PROCESS_CLEAN_INTERRUPT_H_

#include <atomic>
#include <functional>
#include <string>

namespace snf {

// Lets an interrupted command finish the work that it began.
struct FirstInterrupt {
  std::atomic<bool> is_awaited = false;  // set by the command, while it looks
  std::atomic<bool> came = false;
  std::atomic<int> signal = 0;  // that came; 0: none
};

// Lets an interrupt (SIGINT, Ctrl-C), SIGTERM, or another signal that somebody
// may send (SIGHUP, SIGQUIT, SIGUSR1 …), unless it is ignored, end the process
// wherever it stands, also in the midst of a read: unfinished files are
// removed, a line that begins with `command` is printed, and the exit code is
// 128 + the signal's number. An interrupt that is awaited is only noted, in
// `first`, which has static lifetime, and the next one ends the process.
//
// If `on_hangup` is given, SIGHUP and SIGUSR1 end nothing: it is called with
// the signal, on a thread of its own, also where they were ignored. No signal
// is seen until it returns.
//
// Call once, before there are other threads: this takes a thread of its own,
// and the signals from all others.
void EndCleanlyWhenInterrupted(std::string command,
                               FirstInterrupt* first = nullptr,
                               std::function<void(int)> on_hangup = nullptr);

// Returns "SIGHUP".
std::string NameOfSignal(int signal);

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_CLEAN_INTERRUPT_H_
