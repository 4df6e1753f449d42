// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_HOSTS_MIRROR_RELAY_H_
#define SNF_PLATFORM_HOSTS_MIRROR_RELAY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "platform/hosts/host_stream.h"
#include "runtime/mirror/loop_mirror.h"
#include "runtime/ring/doorbell.h"

namespace snf {

// Carries frames of a LoopMirror in place of a HostStream (GeneveLink).
class MirrorLink {
 public:
  static constexpr uint64_t kMostWaiting = uint64_t{16} << 20;  // bytes

  virtual ~MirrorLink() = default;
  // Waits until at most `most` bytes wait for the other end to consume them,
  // or the time is over. Returns how many wait. Errors: Unavailable if the link
  // is lost.
  virtual absl::StatusOr<uint64_t> Await(uint64_t most, Nanos time) = 0;
  // Sends a frame of LoopMirror::Collect, after Await(kMostWaiting). Errors:
  // Unavailable.
  virtual absl::Status Send(std::span<const std::byte> frame) = 0;
};

// Sends what a LoopMirror collects, and beats, from a thread of its own. The
// thread sleeps at the bells that the processes of its side ring. If there is a
// link, it carries all but the beats.
//
// Start and Stop are for the owner's thread. `lost` is called once, on the
// relay's thread, if the connection has ended.
class MirrorRelay {
 public:
  MirrorRelay(LoopMirror& mirror, HostStream& stream, MirrorLink* link,
              std::vector<Doorbell*> bells,
              std::function<void(const absl::Status&)> lost);
  MirrorRelay(const MirrorRelay&) = delete;
  MirrorRelay& operator=(const MirrorRelay&) = delete;
  ~MirrorRelay() { Stop(); }

  void Start();
  // Returns when the thread has ended.
  void Stop();
  // Sends the rest; after Stop. A link waits until the other side has it.
  absl::Status SendRest();

 private:
  // How long the thread sleeps: while it expects a release, which rings no
  // bell; while it has sent or received lately; and else.
  static constexpr Nanos kExpecting = Microseconds(50);
  static constexpr Nanos kIdle = Milliseconds(5);
  static constexpr uint32_t kSpins = 100;
  // At the end, the other side consumes something so often.
  static constexpr Nanos kFlush = HostStream::kSilence;

  void Run();
  absl::Status Turn(bool& did);
  absl::Status Beat();
  absl::Status AwaitRoom();
  // Waits until the other side of the link has consumed all.
  absl::Status Flush();

  LoopMirror& mirror_;
  HostStream& stream_;
  MirrorLink* const link_;  // null: all goes over the stream
  const std::vector<Doorbell*> bells_;
  const std::function<void(const absl::Status&)> lost_;
  std::vector<std::byte> frame_;
  std::atomic<bool> stops_ = false;
  std::thread thread_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_HOSTS_MIRROR_RELAY_H_
