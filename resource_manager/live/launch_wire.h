// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_LIVE_LAUNCH_WIRE_H_
#define SNF_RESOURCE_MANAGER_LIVE_LAUNCH_WIRE_H_

#include <sys/types.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace snf {

// What launchers and those who want them say to each other, besides
// LaunchNotes. Both ends are the same program, or one end refuses the other.

// Stands in front of a setup, and of the words of LaunchKeep, whose descriptors
// come behind the others.
struct LaunchHead {
  uint32_t socket_bytes = 0;  // 0: nothing is kept
  uint32_t identity_bytes = 0;
  int32_t patience_ms = 0;
  uint32_t kept = 0;  // descriptors
};

// An index that asks for no process: who wants the launcher ends by itself.
inline constexpr uint32_t kLaunchEnds = ~uint32_t{0};

// Says what somebody wants of a launcher that waits. With kTake, the identity
// follows.
struct KeptHello {
  enum class Kind : uint32_t { kTake, kLook, kEnd };
  Kind kind = Kind::kTake;
};

// Stands in front of what a launcher answers to who takes it over, or looks at
// it: its processes (KeptProcess), or why nobody gets them.
struct KeptHead {
  enum class Kind : uint32_t { kTaken, kWaits, kOther, kEnded };
  Kind kind = Kind::kTaken;
  int32_t left_ms = 0;  // for which it still waits
};

// A message with descriptors. Returns false, with errno, if it cannot be sent.
bool SendWithDescriptors(int socket, std::span<const std::byte> bytes,
                         std::span<const int> descriptors);
// The next one, which is no longer than the bytes. Returns false at the end of
// the socket, or if something of it was cut off.
bool ReceiveWithDescriptors(int socket, std::vector<std::byte>& bytes,
                            std::vector<int>& descriptors);
// Returns false if that is no name of a socket.
bool SocketAddressOf(const std::string& file, sockaddr_un& address);

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_LIVE_LAUNCH_WIRE_H_
