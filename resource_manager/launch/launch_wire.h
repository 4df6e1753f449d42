// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_LAUNCH_LAUNCH_WIRE_H_
#define SNF_RESOURCE_MANAGER_LAUNCH_LAUNCH_WIRE_H_

#include <sys/types.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace snf {

// The messages between launchers and their users, besides LaunchNotes. Both
// ends are the same program, or one end refuses the other.

// Stands in front of a setup, and of the words of LaunchKeep, whose descriptors
// come behind the others.
struct LaunchHead {
  uint32_t socket_bytes = 0;  // 0: nothing is kept
  uint32_t identity_bytes = 0;
  int32_t patience_ms = 0;
  uint32_t kept = 0;  // descriptors
};

// An index that asks for no process, but says that the user ends by itself.
inline constexpr uint32_t kLaunchEnds = ~uint32_t{0};

// A request to a launcher that waits. After kTake, the identity follows.
struct KeptHello {
  enum class Kind : uint32_t { kTake, kLook, kEnd };
  Kind kind = Kind::kTake;
};

// Head of a launcher's answer to a process that takes it over, or looks at it:
// its processes (KeptProcess) follow, or the reason why they are refused.
struct KeptHead {
  enum class Kind : uint32_t { kTaken, kWaits, kOther, kEnded };
  Kind kind = Kind::kTaken;
  int32_t left_ms = 0;  // for which it still waits
};

// A message with descriptors. Returns false, with errno, if it cannot be sent.
bool SendWithDescriptors(int socket, std::span<const std::byte> bytes,
                         std::span<const int> descriptors);
// Receives the next message, which fits into the bytes. Returns false at the
// end of the socket, or if the message was cut off.
bool ReceiveWithDescriptors(int socket, std::vector<std::byte>& bytes,
                            std::vector<int>& descriptors);
// Returns false if that is no name of a socket.
bool SocketAddressOf(const std::string& file, sockaddr_un& address);

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_LAUNCH_LAUNCH_WIRE_H_
