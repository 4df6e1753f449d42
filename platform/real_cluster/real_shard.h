// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REAL_CLUSTER_REAL_SHARD_H_
#define SNF_PLATFORM_REAL_CLUSTER_REAL_SHARD_H_

#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/core/placement.h"
#include "platform/process/real_clock.h"
#include "platform/real_cluster/alias_mail.h"
#include "platform/real_cluster/packet_feed.h"
#include "platform/real_cluster/shard_leases.h"
#include "platform/real_time/real_driver.h"
#include "platform/run/observers.h"
#include "platform/run/run.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {

// One of several controllers that run in real time side by side: a thread with
// a RealDriver, which takes the packets that a feed brings. The thread makes
// the driver, runs its controller, and ends it.
//
//   dispatcher ─► PacketFeed ─► RealDriver ─► AliasMail ─► dispatcher
//
// Packets have their arrival as their time, unless the speed is the greatest.
// Owner-thread only; the owner is who dispatches.
class RealShard {
 public:
  struct Options {
    RunOptions run;  // with the id of the controller
    RealOptions real;
    const PlacementPolicy* policy;
    NfSpec nf;
    Observers observers{};  // are told of on the shard's thread
    // Those of the run, which must outlive the shard.
    const RealClock* clock = nullptr;
    const ExternalAddresses* external = nullptr;
    // Of a controller that leases its units (RealOptions::host); else null.
    ShardLeases* leases = nullptr;
  };

  // The driver runs on return. Errors as RealDriver::Start.
  static absl::StatusOr<std::unique_ptr<RealShard>> Start(Options options);
  ~RealShard() { Stop(); }
  RealShard(const RealShard&) = delete;
  RealShard& operator=(const RealShard&) = delete;

  // The clock of the run has started, at the time of its first packet: the
  // driver's does, too.
  void Begin(Instant first_packet) {
    first_packet_ = first_packet;
    has_begun_.store(true, std::memory_order_release);
  }

  PacketFeed& feed() { return feed_; }
  AliasMail& aliases() { return aliases_; }
  // The driver's run has failed.
  bool has_failed() const { return has_failed_.load(); }
  // Lets the controller fail, if it may (RunOptions::faults), soon.
  void KillController() { kills_.fetch_add(1, std::memory_order_relaxed); }

  // No more packets come; the shard brings all to their end.
  void Close() { feed_.Close(); }
  // Waits until they are, and returns the result. Call it once, after Close.
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

#endif  // SNF_PLATFORM_REAL_CLUSTER_REAL_SHARD_H_
