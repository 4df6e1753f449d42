// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_HOSTS_HOST_STREAM_H_
#define SNF_PLATFORM_HOSTS_HOST_STREAM_H_

#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "platform/hosts/host_tls.h"

namespace snf {

// The kinds of frames between a daemon and the agent of a host, in the order in
// which they may first come (proto/protocol.md section 9).
enum class HostFrame : uint16_t {
  kHello,     // daemon: HostHello
  kWelcome,   // agent: the versions are equal
  kRefuse,    // agent: text, and the connection ends
  kOffer,     // both: GeneveOffer, if frames of the mirrors go by GENEVE
  kSetup,     // daemon: the loop of units to be started
  kPing,      // agent: the time of its clock
  kPong,      // daemon: that, and the time of its own
  kAskBegin,  // agent: the memory is made
  kBegin,     // daemon: what the memory begins with (LoopMirror)
  kUpdate,    // both: a frame of LoopMirror
  kBeat,      // both: there is nothing else to say
  kWord,      // agent: bytes of a UnitWord
  kEnd,       // agent: HostEnd
  kCount,
};

// A connection between a daemon and the agent of a host: frames, numbered from
// 0 on, in order. Each frame has a head of 24 bytes, and at most kMostBytes.
//
// The peer is not trusted: a frame with another mark, number, kind or more
// bytes is an error, which names the value. Send may be called by any thread,
// Receive by one.
class HostStream {
 public:
  static constexpr size_t kMostBytes = size_t{64} << 20;
  // Each side sends a frame at least this often, and a peer that was silent for
  // kSilence counts as dead.
  static constexpr Nanos kBeat = Milliseconds(200);
  static constexpr Nanos kSilence = Milliseconds(1'500);

  // Owns the connected socket, on which nothing was sent yet.
  explicit HostStream(int socket);
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;
  ~HostStream();

  int fd() const { return socket_; }
  // Encrypts the connection, before anything else. The agent's end tells a
  // daemon (kRefuse) that speaks no TLS, or has another role than admin.
  // Errors: as HostTls::Shake and HostTls::CheckRole.
  absl::Status Shake(const TlsFiles& files, TlsEnd end,
                     const std::string& address);
  // Returns a socket that is connected to ADDRESS:PORT. Errors: InvalidArgument
  // for a text that is no address; Unavailable, with the system's reason.
  static absl::StatusOr<int> Connect(const std::string& address,
                                     Nanos patience);
  // Returns a socket that listens at ADDRESS:PORT; port 0 is any free one.
  static absl::StatusOr<int> Listen(const std::string& address);
  // Returns ADDRESS:PORT of this end of the socket, or of the other one.
  static std::string AddressOf(int socket, bool of_peer);
  // Returns the IP address of the other end, as ParseHostIp writes it.
  static std::string PeerIpOf(int socket);
  static std::string TextOf(const sockaddr_storage& address, socklen_t size);

  // Sends a frame. Errors: Unavailable if the connection has ended, or takes
  // nothing for kSilence.
  absl::Status Send(HostFrame kind, std::span<const std::byte> bytes);

  struct Received {
    HostFrame kind{};
    std::span<const std::byte> bytes{};  // valid until the next call
  };
  // Waits for the next frame. Errors: Unavailable if the connection has ended,
  // or the peer was silent for `patience`; InvalidArgument for a bad frame, or
  // one of more than `most` bytes.
  absl::StatusOr<Received> Receive(Nanos patience, size_t most = kMostBytes);
  // Lets Receive return. Any thread.
  void StopReceiving();
  // Returns true if nothing was sent for kBeat.
  bool is_beat_due() const;

 private:
  struct Head {
    uint32_t mark = kMark;
    uint16_t kind = 0;
    uint16_t reserved = 0;
    uint64_t number = 0;
    uint64_t bytes = 0;
    static constexpr uint32_t kMark = 0x484e'4653;  // "SNFH"
    // A record of TLS begins with its kind, an alert or a handshake, and 3.
    static bool IsTls(uint32_t mark) {
      const uint32_t begin = mark & 0xffff;
      return begin == 0x0315 || begin == 0x0316;
    }
  };
  static_assert(sizeof(Head) == 24);

  absl::Status ReadAll(std::span<std::byte> to, Nanos patience);
  absl::Status WriteAll(std::span<const std::byte> from)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Returns why the system or TLS has ended the connection.
  absl::Status Ended(int error);
  ssize_t ReadSome(std::span<std::byte> to);
  ssize_t WriteSome(std::span<const std::byte> from);

  const int socket_;
  std::unique_ptr<HostTls> tls_;  // null: not encrypted
  uint64_t next_received_ = 0;
  std::vector<std::byte> received_;
  mutable std::mutex mutex_;
  uint64_t next_sent_ ABSL_GUARDED_BY(mutex_) = 0;
  Instant last_sent_ ABSL_GUARDED_BY(mutex_);
};

// The first frame: who asks, and by which program.
struct HostHello {
  static constexpr uint32_t kProtocol = 2;
  uint32_t protocol = kProtocol;
  uint32_t reserved = 0;
  uint64_t build = 0;     // a hash of the program's file
  char version[48] = {};  // ends with a zero
};
static_assert(sizeof(HostHello) == 64);

// Returns the hash of this program's file.
uint64_t BuildOfThisProgram();
// Returns the hello of this program.
HostHello HelloOfThisProgram();
// Returns OK if the other program is the same one as this. Errors:
// FailedPrecondition, naming both versions.
absl::Status CheckHello(std::span<const std::byte> bytes, const HostHello& own);

// The last frame: how the process of the units has ended.
struct HostEnd {
  int32_t status = 0;               // of waitpid
  uint32_t in_call = ~uint32_t{0};  // LoopProgress::in_call
};
static_assert(sizeof(HostEnd) == 8);

}  // namespace snf

#endif  // SNF_PLATFORM_HOSTS_HOST_STREAM_H_
