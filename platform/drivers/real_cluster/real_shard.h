// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_CLUSTER_REAL_SHARD_H_
#define SNF_PLATFORM_DRIVERS_REAL_CLUSTER_REAL_SHARD_H_

#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/core/placement.h"
#include "platform/drivers/real_cluster/alias_mail.h"
#include "platform/drivers/real_cluster/packet_feed.h"
#include "platform/drivers/real_cluster/shard_leases.h"
#include "platform/drivers/real_time/real_options.h"
#include "platform/run/observers.h"
#include "platform/run/run.h"
#include "runtime/ring/real_clock.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {

class RealDriver;

// One of several controllers that run in real time side by side: a thread with
// a RealDriver, which takes the packets that a feed brings. The thread makes
// the driver, runs its controller, and ends it.
//
//   dispatcher ─► PacketFeed ─► RealDriver ─► AliasMail ─► dispatcher
//
// A packet's time is its arrival, unless the speed is the greatest.
// Owner-thread only; the owner dispatches packets.
class RealShard {
 public:
  struct Options {
    RunOptions run;  // with the id of the controller
    RealOptions real;
    const PlacementPolicy* policy;
    NfSpec nf;
    Observers observers{};  // called on the shard's thread
    // The run's clock and addresses, which must outlive the shard.
    const RealClock* clock = nullptr;
    const ExternalAddresses* external = nullptr;
    // Null, unless the controller leases its units (RealOptions::host).
    ShardLeases* leases = nullptr;
  };

  // The driver runs on return. Errors as RealDriver::Start.
  static absl::StatusOr<std::unique_ptr<RealShard>> Start(Options options);
  ~RealShard() { Stop(); }
  RealShard(const RealShard&) = delete;
  RealShard& operator=(const RealShard&) = delete;

  // Starts the driver's clock: that of the run has started, at the time of the
  // first packet.
  void Begin(Instant first_packet) {
    first_packet_ = first_packet;
    has_begun_.store(true, std::memory_order_release);
  }

  PacketFeed& feed() { return feed_; }
  AliasMail& aliases() { return aliases_; }
  // Returns true if the driver's run has failed.
  bool has_failed() const { return has_failed_.load(); }
  // Lets the controller fail soon, if it may (RunOptions::faults).
  void KillController() { kills_.fetch_add(1, std::memory_order_relaxed); }

  // Ends the feed; the shard brings all packets to their end.
  void Close() { feed_.Close(); }
  // Waits for the end of all packets, and returns the result. To be called
  // once, after Close.
  RunResult TakeResult();
  // Returns how many of the driver's buffers are not free, after TakeResult.
  uint32_t buffers_in_use() const { return buffers_in_use_; }

 private:
  explicit RealShard(Options options)
      : options_(std::move(options)), aliases_(*options_.external) {}
  void Run(std::promise<absl::Status> started);
  void TakePackets(RealDriver& driver);
  void Kill(RealDriver& driver);
  void Idle(RealDriver& driver);
  void Stop();

  Options options_;
  PacketFeed feed_;
  AliasMail aliases_;
  Instant first_packet_;  // once has_begun_
  std::atomic<bool> has_begun_{false};
  std::atomic<bool> has_failed_{false};
  std::atomic<uint32_t> kills_{0};
  uint32_t killed_ = 0;  // of these; the thread's
  // The thread writes these; they are read after it has ended.
  std::optional<RunResult> result_;
  uint32_t buffers_in_use_ = 0;
  std::thread thread_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_CLUSTER_REAL_SHARD_H_
