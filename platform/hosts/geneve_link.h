// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_HOSTS_GENEVE_LINK_H_
#define SNF_PLATFORM_HOSTS_GENEVE_LINK_H_

#include <sys/socket.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
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
#include "base/time.h"
#include "base/tunnels/geneve.h"
#include "platform/hosts/channel_datagram.h"
#include "platform/hosts/channel_sender.h"
#include "platform/hosts/cut_channels.h"
#include "platform/hosts/geneve_sockets.h"
#include "platform/hosts/mirror_relay.h"
#include "platform/hosts/path_search.h"
#include "runtime/mirror/loop_mirror.h"

namespace snf {

// An end of a link, as told to the other end over TCP.
struct GeneveOffer {
  ChannelKey key;
  GeneveSockets::Ports ports{};  // UDP, source
  std::array<uint16_t, 3> reserved{};
};
static_assert(sizeof(GeneveOffer) == 32);

// Theory of operation. Carries frames of a LoopMirror between two hosts as
// GENEVE over UDP, on five channels in each direction (CutSplitter). Each
// channel is a ChannelSender here and a ChannelReceiver there.
//
//   channel c: own address, port that the kernel chose ──► peer, port 6081
//
// Networks that spread flows by ports (ECMP) thus may take another path for
// each channel. Both ends connect their sockets at port 6081 to the ports of
// the other end's offer, so the kernel passes no datagram of anyone else, and
// several links share the port. Each datagram also has the key that the
// daemon's end drew at random (getrandom). Nothing is encrypted: who can read
// the network's packets can forge them.
//
// Packets are never fragmented (DF), and as long as the path takes
// (PathSearch). A channel is suspect after three probe timeouts in a row.
//
// A thread receives, answers, sends again, and calls `deliver`. If nothing is
// acknowledged for HostStream::kSilence, the link is lost.
//
// Worked example: of a path of 1,500 bytes a piece gets 1,428 bytes, so a
// message of 9,000 bytes is carried in seven pieces.
//
// Await and Send are for one thread; the other calls for the owner's.
class GeneveLink final : public MirrorLink {
 public:
  using Deliver = CutArrivals::Deliver;
  using Lost = std::function<void(const absl::Status&)>;

  struct Counts {
    ChannelSender::Counts sent;  // sum over channels
    uint64_t repeated = 0;       // datagrams received that brought nothing new
    std::array<uint64_t, kDatagramRefusals> refused{};
    size_t path = 0;  // bytes of the longest packet
  };

  // Returns a socket for datagrams to port 6081 of no link, at the address at
  // which the TCP socket listens. Errors: Unavailable.
  static absl::StatusOr<int> OpenForStrays(int listener);
  // Binds UDP sockets to the address of this end of the TCP connection. Both
  // ends have the same port. Errors: Unavailable, naming the port and the
  // system's reason.
  static absl::StatusOr<std::unique_ptr<GeneveLink>> Open(
      int connection, uint16_t port = kGenevePort);
  GeneveLink(const GeneveLink&) = delete;
  GeneveLink& operator=(const GeneveLink&) = delete;
  ~GeneveLink() override;

  // Draws a key, at the daemon's end.
  absl::Status DrawKey();
  // Takes the other end's key.
  void SetKey(const ChannelKey& key) { key_ = key; }
  GeneveOffer Offer() const;
  // Connects to the other end, and answers its probes from now on. Errors:
  // InvalidArgument for an offer that cannot be; Unavailable.
  absl::Status Connect(const GeneveOffer& peer);
  // Finds the path's longest packet. Errors: Unavailable if a channel has no
  // answer.
  absl::Status Measure();

  // Delivers messages from now on. `side` is this end's. The link's
  // thread calls both functions, `lost` at most once.
  void Start(LoopMirror::Side side, Deliver deliver, Lost lost);
  absl::StatusOr<uint64_t> Await(uint64_t most, Nanos time) override;
  absl::Status Send(std::span<const std::byte> frame) override;
  // Ends the thread; Start begins another one, so that the process can fork in
  // between.
  void Stop();

  Counts counts() const;
  // Tells the counts of a session on stderr, if TextOf names any.
  void TellCounts(const std::string& peer) const;

 private:
  // A channel waits for this time if the kernel has no room for its datagram.
  static constexpr Nanos kFullTime = Milliseconds(1);

  explicit GeneveLink(std::unique_ptr<GeneveSockets> sockets);

  void Begin();
  void Run();
  void Wake();
  void ReceiveAll(size_t channel);
  void Take(size_t channel, std::span<const std::byte> payload);
  void Refuse(DatagramRefusal why);
  void SendAcks();
  // Only a caller without the lock may wait for room: `flags` of sendmsg.
  void SendControl(size_t channel, const ChannelDatagram& datagram,
                   size_t bytes, int flags);
  void Pump(Instant now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PumpOne(size_t channel, Instant now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns true if the kernel took all of the datagrams; else takes the rest
  // back.
  bool SendBatch(size_t channel, Instant now, std::span<mmsghdr> batch,
                 uint64_t first) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasRoom(size_t channel, Instant now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnShorterPath(Instant now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sends the probes of the path that are due.
  void AskPath(size_t channel, Instant now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Turn(Instant now);
  uint64_t Waiting() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Instant Due() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<GeneveSockets> sockets_;
  ChannelKey key_;
  int wake_ = -1;

  // The link's thread.
  std::thread thread_;
  CutArrivals arrivals_;
  std::atomic<bool> stops_ = false;
  std::atomic<bool> is_lost_ = false;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::array<ChannelSender, kCutChannels> senders_ ABSL_GUARDED_BY(mutex_);
  CutSplitter splitter_ ABSL_GUARDED_BY(mutex_);
  CutSplitter::Messages messages_ ABSL_GUARDED_BY(mutex_);
  Instant sleeps_until_ ABSL_GUARDED_BY(mutex_);
  // The last turn of the link's thread, and its last one after it stood still.
  Instant turned_ ABSL_GUARDED_BY(mutex_) = Instant::max();
  Instant resumed_ ABSL_GUARDED_BY(mutex_) = Instant::min();
  PathSearch search_ ABSL_GUARDED_BY(mutex_){kCutChannels};
  // When a channel may send again, if the kernel had no room; else 0.
  std::array<Instant, kCutChannels> full_until_ ABSL_GUARDED_BY(mutex_){};
  Deliver deliver_ ABSL_GUARDED_BY(mutex_);
  Lost lost_ ABSL_GUARDED_BY(mutex_);
  LoopMirror::Side side_ ABSL_GUARDED_BY(mutex_){};
  std::array<uint64_t, kDatagramRefusals> refused_ ABSL_GUARDED_BY(mutex_){};
  uint64_t repeated_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Returns the counts in words; "" if no datagram was lost, repeated or refused.
std::string TextOf(const GeneveLink::Counts& counts);

}  // namespace snf

#endif  // SNF_PLATFORM_HOSTS_GENEVE_LINK_H_
