// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CLEAN_INTERRUPT_H_
#define SNF_PLATFORM_CLEAN_INTERRUPT_H_

#include <string>

namespace snf {

// From now on an interrupt (SIGINT, Ctrl-C) or SIGTERM, unless it is ignored,
// ends the process wherever it stands, also in the midst of a read: unfinished
// files are removed, a line that begins with `command` is printed, and the exit
// code is 128 + the signal's number. For a command without anything to bring to
// its end. To be called once, before there are other threads: it takes a thread
// of its own, and these signals from all others.
void EndCleanlyWhenInterrupted(std::string command);

}  // namespace snf

#endif  // SNF_PLATFORM_CLEAN_INTERRUPT_H_
