// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_BENCH_FIXTURE_LONE_WORKER_H_
#define SNF_PLATFORM_COMMANDS_BENCH_FIXTURE_LONE_WORKER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "platform/drivers/loops/loop_region.h"
#include "runtime/core/fixture_lone_unit.h"
#include "runtime/core/fixture_traffic.h"
#include "runtime/live/loggers/logger_loop.h"
#include "runtime/live/unit_loop.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/ring/real_clock.h"
#include "runtime/ring/thread_link.h"
#include "runtime/sdk/nf_spec.h"
#include "runtime/tables/table_homes.h"

namespace snf {

// For benchmarks: a loop of units with its links, in a region, and without a
// thread: in Run its turns alone are measured, what is done for it (packets put
// into the link, answers) is not. Of its units the first has all flows.
// Owner-thread only.
class LoneWorker final : public BatchRunner {
 public:
  // Packets of a batch, for which the clock is read twice.
  static constexpr uint32_t kBatch = 256;

  // Its units have loggers if `logs`: these run on a thread of their own, so
  // that their reads stay out of the caches of the measured loop. Errors as
  // SharedRegion::Create.
  static absl::StatusOr<std::unique_ptr<LoneWorker>> Make(const NfSpec& nf,
                                                          bool logs = false);

  // Returns the buffers that its packets are in. Call it once.
  BatchBuffers TakeBuffers() { return {std::move(region_.buffers), kBatch}; }

  ~LoneWorker();
  LoneWorker(const LoneWorker&) = delete;
  LoneWorker& operator=(const LoneWorker&) = delete;

  void Run(BatchBuffers& buffers, std::span<const PacketMeta> metas) override;

  // Returns the CPU time of its turns so far.
  int64_t cpu_ns() const { return cpu_ns_; }

 private:
  LoneWorker(const NfSpec& nf, const UnitLoopOptions& options,
             const LoopRegion::Options& of, LoopRegion region,
             UnitLoopLinks links);
  void ReceiveAll();
  void Receive(LinkIn& in);
  void Handle(const Cell& cell, std::span<const std::byte> payload);
  void SendToUnit(const TableMessage& message);

  LoopRegion region_;
  RealClock clock_;
  AllPieces pieces_;
  TableHomes tables_;
  UnitLoop loop_;
  std::optional<LoggerLoop> loggers_;
  LinkOut& out_;
  size_t released_ = 0;
  bool has_asked_ = false;  // the loop, and is answered in out_
  std::atomic<bool> stop_{false};
  std::thread logger_thread_;  // none without loggers
  int64_t cpu_ns_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_BENCH_FIXTURE_LONE_WORKER_H_
