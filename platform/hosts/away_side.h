// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_HOSTS_AWAY_SIDE_H_
#define SNF_PLATFORM_HOSTS_AWAY_SIDE_H_

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "platform/hosts/geneve_link.h"
#include "platform/hosts/host_stream.h"
#include "runtime/mirror/loop_mirror.h"

namespace snf {

// The session of a host's agent with a daemon, for one process of units: a
// process of its own, which ends with the process of units, and kills it if the
// connection ends (home_side.h). Owner-thread only.
class AwaySide {
 public:
  explicit AwaySide(int socket) : stream_(socket) {}

  // Encrypts the connection, if the agent has certificates. Errors: as
  // HostTls::Shake.
  absl::Status Shake(const TlsFiles& files);
  // Takes the daemon's hello and set-up, and its offer of GENEVE if the agent
  // takes that. Errors are told to the daemon as well.
  absl::StatusOr<std::vector<std::byte>> Greet(const HostHello& own,
                                               bool takes_geneve);
  // Tells the daemon why there are no units.
  void Refuse(const absl::Status& why);
  // Measures by how much the daemon's clock is ahead, and asks for the begin.
  absl::StatusOr<std::vector<std::byte>> AskBegin();
  Nanos ahead() const { return ahead_; }

  // Carries everything until the process of units has ended, or the connection
  // has: then the process is killed. `words` is the socket to which it tells
  // its words. Returns the reason, if the daemon is lost.
  struct Units {
    pid_t pid = 0;
    int words = -1;
    std::vector<Doorbell*> bells{};  // that it rings
    const LoopProgress* progress = nullptr;
    // Is called once the process has ended, and before the daemon hears of it,
    // which may start the next one at once. May be empty.
    std::function<void()> before_end{};
  };
  absl::Status Run(LoopMirror& mirror, const Units& units);

 private:
  // The set-up has the NF's text, of Launcher::kMostSetupBytes at most.
  static constexpr size_t kMostSetupBytes = size_t{128} << 10;
  static constexpr int kPings = 8;

  absl::StatusOr<HostStream::Received> Expect(HostFrame kind, size_t most);
  absl::StatusOr<std::vector<std::byte>> TakeSetup(bool takes_geneve);
  absl::Status OpenLink(std::span<const std::byte> offered);
  absl::Status Listen(LoopMirror& mirror);
  bool CarryWords(int words);
  // Ends the link, if there is one, and tells its counts.
  void CloseLink();

  HostStream stream_;
  std::unique_ptr<GeneveLink> link_;  // null: all goes over the stream
  Nanos ahead_{};
};

}  // namespace snf

#endif  // SNF_PLATFORM_HOSTS_AWAY_SIDE_H_
