// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_GROUP_STATE_LINK_H_
#define SNF_PLATFORM_DAEMON_GROUP_STATE_LINK_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
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
#include "platform/hosts/host_stream.h"
#include "platform/ports/interface/network_interface.h"
#include "resource_manager/core/gateway_group.h"

namespace snf {

// Theory of operation. Carries messages of a member of a group to one other
// member, over TCP (HostStream), and takes the messages of others. The sender
// names itself and shows the key of the table; who is no member of the
// receiver's table is refused.
//
//   Send ─► queue ─thread─► HostStream ┈┈► reader's thread ─► queue ─► Take
//
// A connection that breaks is made again. Each has a round, a number that no
// connection of the member had before: messages of another round are dropped,
// so the sender begins again. Where the receiver takes no messages, TCP
// slows the sender, and `room` becomes less.
//
// Thread-safe. At its end, closes all connections, and waits for its threads.
class StateLink {
 public:
  static constexpr size_t kMostQueued = 4'096;     // messages to be sent
  static constexpr size_t kMostReceived = 16'384;  // and of all others
  static constexpr size_t kMostBytes = 4'096;      // of a message

  struct Received {
    uint32_t from = 0;   // the member's number
    uint64_t round = 0;  // of the member's connection
    std::vector<std::byte> bytes{};
  };

  // Listens at ADDRESS:PORT; port 0 is any free one. Errors: InvalidArgument,
  // Unavailable.
  static absl::StatusOr<std::unique_ptr<StateLink>> Listen(
      const std::string& address);
  ~StateLink();
  StateLink(const StateLink&) = delete;
  StateLink& operator=(const StateLink&) = delete;

  // The ADDRESS:PORT at which it listens.
  const std::string& address() const { return address_; }
  // Sends to that member of the table from now on; none: to no member. `self`
  // is the own number.
  void Follow(const GatewayTable& table, uint32_t self,
              std::optional<uint32_t> to);
  // Returns the round of the connection that there is; 0: there is none.
  uint64_t round() const { return round_.load(std::memory_order_acquire); }
  // Returns how many messages may be sent now.
  size_t room() const;
  // Sends a message, if the round is that of the connection.
  void Send(uint64_t round, std::vector<std::byte> message);
  // Returns the messages that came since the last call, in order.
  std::vector<Received> Take();
  // Counts connections that were refused, or ended by bytes that cannot be.
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  struct Reader {
    explicit Reader(int socket) : stream(socket) {}
    HostStream stream;
    std::thread thread;
    std::atomic<bool> has_ended = false;
  };
  struct Peer {
    std::string address;
    uint64_t key = 0;
    uint32_t self = 0;
    friend bool operator==(const Peer&, const Peer&) = default;
  };

  explicit StateLink(Descriptor listener);
  void Accept();
  void Read(Reader& reader);
  absl::Status ReadAll(Reader& reader);
  absl::StatusOr<uint32_t> TakeHello(std::span<const std::byte> bytes,
                                     uint64_t& round) const;
  bool TakeBatch(uint32_t from, uint64_t round,
                 std::span<const std::byte> batch);
  void SendAll();
  absl::Status SendTo(const Peer& peer);
  // Returns messages to send now, as a frame; empty: there are none. `is_over`
  // says that the peer is another one now.
  std::vector<std::byte> NextBatch(const Peer& peer, bool& is_over);
  void Pause();

  const Descriptor listener_;
  const std::string address_;
  std::atomic<uint64_t> round_ = 0;
  std::atomic<uint64_t> refused_ = 0;
  std::atomic<bool> stops_ = false;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Peer> peer_ ABSL_GUARDED_BY(mutex_);
  uint64_t key_ ABSL_GUARDED_BY(mutex_) = 0;
  MemberSet members_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<std::vector<std::byte>> queue_ ABSL_GUARDED_BY(mutex_);
  std::vector<Received> received_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Reader>> readers_;  // of the accepting thread
  std::thread accepts_;
  std::thread sends_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_GROUP_STATE_LINK_H_
