// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_BYPASS_BYPASS_PROCESS_H_
#define SNF_PLATFORM_BYPASS_BYPASS_PROCESS_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace snf {

// The first word of the command line of a guard (BypassGuard), which is the
// same program as the daemon and runs no code of an NF. The words behind it:
// the daemon's name, the inside and the outside interface, the patience in ns,
// the log's file, form and level, and the daemon's process.
inline constexpr std::string_view kBypassProcessCommand = "bypass-process";
inline constexpr size_t kBypassWords = 8;

// The guard's descriptors, open when it starts.
inline constexpr int kBypassLife = 3;  // closed at the other end if the daemon
                                       // dies
inline constexpr int kBypassFile = 4;  // the file of BypassState, locked
// A byte that the daemon sends at a clean end.
inline constexpr char kBypassCleanEnd = 'E';

// Runs the guard. Returns the exit code of the process.
int BypassProcessMain(const std::vector<std::string>& words);

}  // namespace snf

#endif  // SNF_PLATFORM_BYPASS_BYPASS_PROCESS_H_
