// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_BENCH_FIXTURE_LONE_WORKER_H_
#define SNF_PLATFORM_BENCH_FIXTURE_LONE_WORKER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "platform/process/real_clock.h"
#include "platform/real_time/real_worker.h"
#include "platform/real_time/thread_link.h"
#include "platform/run/run.h"
#include "platform/run/table_ends.h"
#include "runtime/core/fixture_lone_unit.h"
#include "runtime/core/fixture_traffic.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/ring/shared_region.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {

// For benchmarks: a worker of the real-time driver with its links, in a region,
// and without a thread: in Run its turns alone are measured, what is done for
// it (packets put into the link, answers) is not. Of its units the first has
// all flows. Owner-thread only.
class LoneWorker final : public BatchRunner {
 public:
  // Packets of a batch; many, for the clock is read twice for it.
  static constexpr uint32_t kBatch = 256;

  // Errors as SharedRegion::Create.
  static absl::StatusOr<std::unique_ptr<LoneWorker>> Make(const NfSpec& nf);

  // The buffers that its packets are in; call once.
  BatchBuffers TakeBuffers() { return {std::move(front_pool_), kBatch}; }

  void Run(BatchBuffers& buffers, std::span<const PacketMeta> metas) override;

  // CPU time of its turns so far.
  int64_t cpu_ns() const { return cpu_ns_; }

 private:
  struct Rings;

  LoneWorker(const NfSpec& nf, SharedRegion region, BufferPool front_pool);
  void Staff(Rings& rings, BufferPool buffers);
  void Handle(const Cell& cell, std::span<const std::byte> payload);
  void SendToUnit(const TableMessage& message);

  RunOptions options_;
  NfSpec nf_;
  std::unique_ptr<NetworkFunction> example_;
  StateSchema schema_;
  SharedRegion region_;
  BufferPool front_pool_;
  RealClock clock_;
  AllPieces pieces_;
  TableHomes tables_;
  std::unique_ptr<LinkOut> out_;
  std::unique_ptr<LinkIn> in_;
  std::unique_ptr<RealWorker> worker_;
  size_t released_ = 0;
  int64_t cpu_ns_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_BENCH_FIXTURE_LONE_WORKER_H_
