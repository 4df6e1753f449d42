// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_LOOPS_HOST_AGENT_H_
#define SNF_PLATFORM_DRIVERS_LOOPS_HOST_AGENT_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/drivers/loops/host_memories.h"

namespace snf {

// The agent of a host: listens, and runs a process for each connection of a
// daemon, which is one process of units (AwaySide). All of them end with the
// agent, by a signal of the kernel. A connection from an address that is not
// named, or beyond kMostSessions, is refused by name, and takes no session's
// place. Connections beyond kMostRefusals at a time are closed and counted. In
// a process with one thread. Sessions of one daemon's run share memory for
// states (HostMemories).
class HostAgent {
 public:
  static constexpr size_t kMostSessions = 64;
  // Processes that tell why they refuse.
  static constexpr size_t kMostRefusals = 16;

  struct Options {
    std::string listen;             // ADDRESS:PORT
    std::vector<std::string> from;  // as ParseFrom returns them
    // Keeps UDP port 6081 for GENEVE: datagrams of no session are counted.
    bool geneve = false;
    // Directory of the agent's certificate (ReadTlsFiles), with which refusals
    // are told; "": no encryption.
    std::string tls;
  };
  // Reads ADDRESS,… of hosts. Errors: InvalidArgument, naming the address.
  static absl::StatusOr<std::vector<std::string>> ParseFrom(
      const std::string& text);
  explicit HostAgent(Options options) : options_(std::move(options)) {}

  // Gets the socket of a connection and that for HostMemories::Ask, in a
  // process of its own, and returns the exit code.
  using Session = std::function<int(int socket, int memories)>;
  // Serves until a signal ends the process. Errors: as HostStream::Listen.
  absl::Status Serve(const Session& session);

 private:
  void Begin(int listener, int socket, const Session& session);
  void RefuseStrays();
  bool IsMember(const std::string& address) const;
  // Returns why a connection gets no session; "": it gets one.
  std::string WhyNot(int socket) const;
  // Tells the daemon why, in the process of the connection.
  void Refuse(int socket, const std::string& why) const;
  void TellClosed(const std::string& peer, const std::string& why);
  void Reap();

  Options options_;
  std::vector<pid_t> sessions_;
  std::vector<pid_t> refusals_;
  HostMemories memories_;
  int strays_ = -1;  // a UDP socket
  uint64_t refused_ = 0;
  uint64_t closed_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_LOOPS_HOST_AGENT_H_
