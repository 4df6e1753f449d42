// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_LOOPS_HOST_MEMORIES_H_
#define SNF_PLATFORM_DRIVERS_LOOPS_HOST_MEMORIES_H_

#include <poll.h>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/live/host_store.h"

namespace snf {

// Returns OK if a daemon may ask for memory of that form: `most` has its loops,
// units and the bytes of its records; no slots: no memory. InvalidArgument
// names the field and both values.
absl::Status CheckHostForm(const HostStore::Options& form,
                           const HostStore::Options& most);

// Names the memory that units of a run share on each host. The daemon draws it
// at random, one for each chain; it cannot be guessed.
struct HostMemoryKey {
  std::array<uint64_t, 2> words{};

  static HostMemoryKey Draw();
  friend auto operator<=>(const HostMemoryKey&, const HostMemoryKey&) = default;
};

// Theory of operation. The memories in which units of a host show each other
// states, as the host's agent keeps them for its sessions. A session that knows
// its daemon asks once; the first one of a run lets the memory be made, and it
// is freed with the last one. The agent itself maps no memory, and a session
// gets the descriptor of one alone.
//
//   session of daemon A, loop 3 ─ key, loop, form ─► agent ─► makes memory 1
//   session of daemon A, loop 4 ─ key, loop, form ─► agent ─► memory 1
//   session of daemon B, loop 1 ─ key, loop, form ─► agent ─► makes memory 2
//   session of daemon A, loop 4 ─ key, loop, form ─► agent ─► why not
//
// A loop has one session at a time, so one process writes its part. A session
// that is cut off, or frozen, keeps its loop until its socket is closed;
// meanwhile the agent refuses the loop's next session.
//
// A key is the daemon's address and its random words. Pages are filled as
// units write, each process into its own part, so a limit on a part is one on
// a process (HostStore::kMostSpreadBytes). Nothing is reserved: if the host has
// no page left, the kernel ends a process.
//
// Owner-thread only, of the agent.
class HostMemories {
 public:
  HostMemories() = default;
  HostMemories(const HostMemories&) = delete;
  HostMemories& operator=(const HostMemories&) = delete;
  ~HostMemories() { CloseAll(); }

  // A session begins, for the daemon at that address: returns the descriptor
  // for Ask, which the caller closes. Errors: Unavailable.
  absl::StatusOr<int> Open(std::string daemon);
  // Adds a wait for each session. Serve answers sessions that have asked, and
  // forgets ended ones: `waits` has these waits alone, in the same order.
  void AddTo(std::vector<pollfd>& waits) const;
  void Serve(std::span<const pollfd> waits);
  // Closes all descriptors, in the process of a session.
  void CloseAll();

  size_t sessions() const { return sessions_.size(); }
  size_t memories() const { return memories_.size(); }

  // Returns the descriptor of the memory, which the caller closes. In the
  // process of the session, which keeps `socket` open while it uses the memory.
  // Errors: ResourceExhausted with the agent's reason; Unavailable if there is
  // no answer. The agent ends a session that asks twice.
  struct Request {
    HostMemoryKey key;
    uint32_t loop = 0;
    HostStore::Options form;
  };
  static absl::StatusOr<int> Ask(int socket, const Request& request);

 private:
  using Key = std::pair<std::string, HostMemoryKey>;
  struct Memory {
    int fd = -1;
    HostStore::Options form{};
    std::set<uint32_t> loops{};  // that have a session
  };
  struct Session {
    int socket = -1;
    std::string daemon;
    bool has_asked = false;
    std::optional<Key> memory{};
    uint32_t loop = 0;
  };

  bool Hear(Session& session);
  absl::StatusOr<int> Give(Session& session, const Request& request);
  void End(Session& session);

  std::vector<Session> sessions_;
  std::map<Key, Memory> memories_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_LOOPS_HOST_MEMORIES_H_
