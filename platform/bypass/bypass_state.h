// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_BYPASS_BYPASS_STATE_H_
#define SNF_PLATFORM_BYPASS_BYPASS_STATE_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "platform/bypass/bypass_core.h"
#include "platform/ports/interface/network_interface.h"
#include "platform/service/daemon_files.h"

namespace snf {

// Counts frames that a guard has taken, and the dropped ones.
struct BypassCounts {
  uint64_t inside = 0;   // frames that came from the inside
  uint64_t outside = 0;  // frames that came from the outside
  uint64_t dropped = 0;  // by the kernel before the guard, or not sent
};

// Describes a guard, in a file beside the daemon's socket. The guard locks the
// file as long as it lives.
struct BypassState {
  pid_t pid = 0;  // 0: the guard is about to be started
  BypassCore::Phase state = BypassCore::Phase::kArmed;
  Instant since{};  // by the time of day, since when it is in that state
  Nanos patience{};
  BypassCounts counts{};

  // A line of a fixed length, and the reverse; nothing for other text.
  std::string text() const;
  static std::optional<BypassState> Parse(const std::string& text);
};

// Returns the name of the file.
std::string BypassFileOf(const DaemonFiles& files);
// Opens the file, locked, with this state. Returns a closed descriptor, with
// errno, if it cannot be, or a guard has it.
Descriptor OpenBypassFile(const DaemonFiles& files, const BypassState& state);
// Writes the state into that file. Failure is ignored: packets matter more.
void WriteBypassState(const Descriptor& file, const BypassState& state);

// Returns the state of the guard of a name; nothing if there is no guard.
std::optional<BypassState> FindBypass(const DaemonFiles& files);
// Says what a guard does in the place of a daemon that is gone; "" if there is
// no guard or the daemon lives.
std::string WhatPasses(const DaemonFiles& files);
// Ends the guard of a name, and returns once it has ended. Returns false if
// there was none that had taken the place of a daemon.
bool EndBypass(const DaemonFiles& files);

}  // namespace snf

#endif  // SNF_PLATFORM_BYPASS_BYPASS_STATE_H_
