// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_GROUP_STATE_LINK_H_
#define SNF_PLATFORM_DAEMON_GROUP_STATE_LINK_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/messages/controller_counts.h"
#include "base/time.h"
#include "platform/hosts/host_stream.h"
#include "platform/ports/interface/network_interface.h"
#include "platform/service/tls_files.h"
#include "resource_manager/core/gateway_group.h"
#include "runtime/ring/real_clock.h"

namespace snf {

// Theory of operation. Carries messages of a member of a group to one other
// member, over TCP (HostStream), and takes the messages of others. The sender
// names itself and its incarnation, and shows the key of the table; who is no
// member of the receiver's table is refused. With certificates, connections are
// encrypted (HostTls): both ends show one of the same authority, the sender's
// with the role admin.
//
//   Send ─► queue ─thread─► HostStream ┈┈► reader's thread ─► queue ─► Take
//
// A connection that breaks is made again. Each has a round, a number greater
// than that of any earlier connection of the member: messages of another round
// are dropped, so the sender begins again. The receiver takes messages of the
// member's newest connection alone, and of none once the member is out of the
// table: messages of a member that was away never replace later ones.
// Where the receiver takes no messages, TCP slows the sender, and `room`
// becomes less.
//
// A connection has 1.5 s for its first frame. If too many are without one, the
// oldest of these is cut.
//
// Thread-safe. At its end, closes all connections, and waits for its threads.
class StateLink {
 public:
  static constexpr size_t kMostQueued = 4'096;     // messages to be sent
  static constexpr size_t kMostReceived = 16'384;  // and of all others
  static constexpr size_t kMostBytes = 4'096;      // of a message
  static constexpr size_t kMostStrangers = 64;  // connections without a hello

  // Is told, by another thread, once states begin to go to a member, and once
  // they cannot be sent or taken, with the reason.
  using Notice = std::function<void(bool is_loss, const std::string& text)>;

  struct Received {
    uint32_t from = 0;   // the member's number
    uint64_t round = 0;  // of the member's connection
    std::vector<std::byte> bytes{};
  };

  // Listens at ADDRESS:PORT; port 0 is any free one. `notice` may be null.
  // `tls` is a directory for ReadTlsFiles, read for each connection;
  // "": nothing is encrypted. Errors: InvalidArgument, Unavailable.
  static absl::StatusOr<std::unique_ptr<StateLink>> Listen(
      const std::string& address, Notice notice = nullptr,
      std::string tls = "");
  // Listens by a socket that another process has opened so, and closes later.
  static std::unique_ptr<StateLink> Adopt(Descriptor listener, Notice notice,
                                          std::string tls);
  ~StateLink() { Stop(); }
  // Ends all connections, and takes no others. Owner-thread only.
  void Stop();
  StateLink(const StateLink&) = delete;
  StateLink& operator=(const StateLink&) = delete;

  // The ADDRESS:PORT at which it listens.
  const std::string& address() const { return address_; }
  // The socket by which it listens.
  int descriptor() const { return listener_.number(); }
  // Sends to that member of the table from now on; none: to no member. `self`
  // is the own number: if the table is without it, nothing is sent. Messages
  // that were not taken, of members that the table is without, are dropped.
  void Follow(const GatewayTable& table, uint32_t self,
              std::optional<uint32_t> to);
  // Returns the round of the connection that there is; 0: there is none.
  uint64_t round() const { return round_.load(std::memory_order_acquire); }
  // Says why there is no connection; "": there is one.
  std::string WhyNotSent() const;
  // Returns how many messages may be sent now.
  size_t room() const {
    const size_t unsent = this->unsent();
    return round() == 0 ? 0 : kMostQueued - std::min(unsent, kMostQueued);
  }
  // Returns how many messages the system has not taken yet.
  size_t unsent() const { return unsent_.load(std::memory_order_relaxed); }
  // Sends a message, if the round is that of the connection.
  void Send(uint64_t round, std::vector<std::byte> message);
  // Returns the next messages that came, in order.
  std::vector<Received> Take(size_t most = kMostReceived);
  // Counts connections that were refused, or ended by bytes that cannot be.
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  struct Reader {
    explicit Reader(int socket) : stream(socket) {}
    HostStream stream;
    const Instant came = RealClock::Monotonic();
    bool is_cut = false;
    std::thread thread;
    std::atomic<bool> is_member = false;  // its hello was taken
    std::atomic<bool> has_ended = false;
  };
  struct Peer {
    std::string address;
    uint64_t key = 0;
    uint64_t incarnation = 0;  // the own one
    uint32_t self = 0;
    friend bool operator==(const Peer&, const Peer&) = default;
  };
  // Another member.
  struct Origin {
    bool is_member = false;
    uint64_t incarnation = 0;
    uint64_t round = 0;  // of the connection whose messages are taken; 0: none
    uint64_t last = 0;   // the greatest round of the incarnation
  };
  struct Connection {
    uint32_t from = 0;
    uint64_t round = 0;
  };
  struct Batch {
    std::vector<std::byte> bytes{};
    size_t messages = 0;
    bool is_over = false;  // the peer is another one now
  };

  StateLink(Descriptor listener, Notice notice, std::string tls);
  void Accept();
  void JoinReaders();
  void CutStrangers();
  void Admit(Descriptor socket);
  void Read(Reader& reader);
  absl::Status ReadAll(Reader& reader);
  absl::Status Encrypt(HostStream& stream);  // a taken connection
  absl::StatusOr<Connection> TakeHello(std::span<const std::byte> bytes);
  bool IsNewest(const Connection& connection) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return origins_[connection.from].round == connection.round;
  }
  absl::Status TakeBatch(const Connection& connection,
                         std::span<const std::byte> batch);
  void FollowOrigins(const GatewayTable& table, uint32_t self)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendAll();
  absl::Status SendTo(const Peer& peer);
  // Returns the round of the connection, once the peer has taken the hello.
  static absl::StatusOr<uint64_t> Greet(const Peer& peer, HostStream& stream);
  // Returns messages to send now, as a frame; there may be none.
  Batch NextBatch(uint64_t round);
  // Returns false if the peer is another one now.
  bool BeginRound(const Peer& peer, uint64_t round);
  void EndRound(const Peer& peer, const absl::Status& status);
  void Tell(const Peer& peer, const absl::Status& status);
  void Pause();

  const Descriptor listener_;
  const std::string address_;
  const Notice notice_;
  const std::string tls_;  // a directory; "": no encryption
  std::atomic<uint64_t> round_ = 0;
  std::atomic<size_t> unsent_ = 0;
  std::atomic<bool> has_received_ = false;
  std::atomic<uint64_t> refused_ = 0;
  std::atomic<bool> stops_ = false;
  std::atomic<bool> has_told_of_files_ = false;  // of an error of ReadTlsFiles
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Peer> peer_ ABSL_GUARDED_BY(mutex_);
  std::string why_not_ ABSL_GUARDED_BY(mutex_);  // the newest try at it failed
  uint64_t key_ ABSL_GUARDED_BY(mutex_) = 0;
  std::array<Origin, kMostAtPorts> origins_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::vector<std::byte>> queue_ ABSL_GUARDED_BY(mutex_);
  std::deque<Received> received_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Reader>> readers_;  // of the accepting thread
  // The sending thread's: whom it tried last, and how often in vain; and to
  // whom states could be sent when it told so last.
  std::optional<Peer> tried_;
  std::optional<Peer> told_;
  int failed_tries_ = 0;
  std::thread accepts_;
  std::thread sends_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_GROUP_STATE_LINK_H_
