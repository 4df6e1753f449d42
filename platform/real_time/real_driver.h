// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REAL_TIME_REAL_DRIVER_H_
#define SNF_PLATFORM_REAL_TIME_REAL_DRIVER_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/time.h"
#include "controller/core/controller.h"
#include "platform/process/real_clock.h"
#include "platform/real_time/real_worker.h"
#include "platform/real_time/release_order.h"
#include "platform/run/digest.h"
#include "platform/run/ingress.h"
#include "platform/run/live_figures.h"
#include "platform/run/pace.h"
#include "platform/run/provisioning.h"
#include "platform/run/run.h"
#include "platform/run/table_ends.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/ring/doorbell.h"
#include "runtime/ring/shared_region.h"
#include "runtime/sdk/nf_spec.h"
#include "traces/capture_reader.h"

namespace snf {

class LiveBoard;

// How a run in real time is driven.
struct RealOptions {
  Speed speed;
  // The front's and those of workers; 1: all on the caller's. 0: as many as
  // there are CPUs, up to kMaxThreads.
  uint32_t threads = 0;
  static constexpr uint32_t kMaxThreads = 33;
  BufferPool::Options buffers = {.small = 32'768, .medium = 1'024, .large = 64};
  // Each thread on a CPU of its own, of those that the process may use, in
  // order. Then there may not be more threads than these.
  bool pin = false;
  // Units are as fast as they can be, rather than unit_capacity_bps, and ready
  // at once, rather than unit_start_delay later.
  bool unpaced = false;
  // A packet for which there is no room yet waits, and those behind it; else it
  // is dropped. So do answers to packets that have not left the NF yet.
  bool wait_for_room = false;
  // Once it is set, Offer does not wait any more; may be null.
  const std::atomic<bool>* interrupted = nullptr;
  LiveBoard* live = nullptr;  // gets figures, unless it is null
};

// Theory of operation. Runs a controller and its units in real time, by
// threads: the *front*, on the caller's thread, takes packets at their time
// (Pace), runs the controller and releases; workers (real_worker.h) run units.
// Between threads are links of cells in a region of memory, in which the
// packets lie as well.
//
//   Offer ─► Ingress ─► Controller ─commands─► workers ⇄ workers
//                          ▲                     │
//            sink ◄── front ◄────── commands ────┘
//
// Time is the capture's: it starts at the first packet's, and goes on as the
// machine's monotonic clock. A packet's arrival is when it was due, also where
// the front was late: so flowlets do not depend on how busy the machine is, and
// latencies hide nothing. At the greatest speed nothing is due, and arrival is
// when the front takes the packet.
//
// The front takes up to kBatch packets that are due at a time, and looks at
// what the workers have sent between batches and while it waits.
//
// Finish lets everything come to its end; then it lets the clock skip to what
// is due, flows that time out and units that stop, until nothing is. A packet
// that nothing moves for kPatience, and for longer than the service model lets
// it stay, is told of as a violation.
//
// Owner-thread only.
class RealDriver {
 public:
  // `policy` must outlive the driver, and the spec be good (NfSpec::check);
  // `sink` may be null. The threads run on return. Errors: InvalidArgument,
  // more threads than may be or, pinned, than CPUs; others as SharedRegion.
  static absl::StatusOr<std::unique_ptr<RealDriver>> Start(
      const RunOptions& options, const RealOptions& real,
      const PlacementPolicy& policy, const NfSpec& nf, RunObserver* sink);
  ~RealDriver();

  // The next packet of the capture. Returns when it was taken, which is when it
  // was due or later.
  void Offer(const CapturedPacket& captured);

  // Call once.
  RunResult Finish();

  uint64_t packets_in() const { return result_.packets_in; }
  const Controller& controller() const { return controller_; }

  // Buffers that are not free; none after Finish.
  uint32_t buffers_in_use() const;

 private:
  static constexpr size_t kBatch = 32;
  static constexpr Nanos kPatience = Seconds(10);

  // A worker, and the front's ends of the links to it.
  struct Crew {
    std::unique_ptr<RealWorker> worker;
    LinkOut out;
    LinkIn in;
    std::thread thread;
  };

  RealDriver(const RunOptions& options, const RealOptions& real,
             const PlacementPolicy& policy, const NfSpec& nf, RunObserver* sink,
             SharedRegion region, BufferPool buffers);
  // What takes their places in the region (real_start.cc).
  absl::Status Staff(uint32_t workers, RegionCarver carver,
                     std::span<std::byte> pool_memory);
  absl::Status StartThreads(const std::vector<int>& cpus);

  bool is_interrupted() const {
    return real_.interrupted != nullptr && real_.interrupted->load();
  }
  void WaitUntil(Instant due);
  void WaitForRoom(const CapturedPacket& captured);
  void Take(Instant arrival, const CapturedPacket& captured);
  bool WaitForCause(const Ingress::Taken& taken);
  void PassThrough(const CapturedPacket& captured);
  void Arrive(const Ingress::Taken& taken, Instant arrival,
              uint32_t original_length);
  void HandleBatch();
  bool FlushAll();
  bool Turn();
  void Rest(Nanos left);
  void Handle(const UnitCommand& command, std::span<const std::byte> payload);
  void HandlePacket(const UnitCommand& command);
  void EndPacket(const UnitCommand& command);
  // Out of line: what they need costs packets nothing that need none of it.
  [[gnu::noinline]] void EndTwice(const UnitCommand& command);
  [[gnu::noinline]] void EndUnreleased(const UnitCommand& command);
  [[gnu::noinline]] bool BringBack(PacketHandle packet);
  [[gnu::noinline]] void ShowRelease(const UnitCommand& command);
  [[gnu::noinline]] void SendHome(PacketHandle packet);
  void on_alias(const Alias& alias);
  void on_table(const TableMessage& message);
  void SendToUnit(const TableMessage& message);
  void Release(const UnitCommand& command, bool is_generated);
  void Free(PacketHandle packet) {
    if (!buffers_.FreeIfOwn(packet)) [[unlikely]]
      SendHome(packet);
  }
  void Drained(const UnitCommand& command);
  void RecordLatency();
  void ReportDrained();
  void CountDrop(DropReason reason);
  void ShowDrop(PacketHandle packet, const PacketRoute& route,
                std::string_view reason);
  PacketRoute RouteOf(const UnitCommand& command) const;
  void Violation(std::string what);
  void ExecuteAll();
  void Execute(const ControllerCommand& command);
  void StartUnit(const ControllerCommand& command);
  void FinishStart(const ControllerCommand& command);
  void FinishStarts();
  void Send(const ControllerCommand& command);
  bool IsQuiet();
  // Of the front, and of all threads.
  Instant NextTimer() const {
    return std::min(
        {controller_.next_wakeup(), tables_.next_wakeup(), next_ready_});
  }
  Instant NextDue() const;
  bool Settle();
  void PublishLive();  // real_live.cc
  void Collect();

  RunOptions options_;
  RealOptions real_;
  NfSpec nf_;
  std::unique_ptr<NetworkFunction> example_;  // runs nothing
  StateSchema schema_;
  RunObserver* sink_;

  SharedRegion region_;
  BufferPool buffers_;
  RealClock clock_;
  Pace pace_;
  Ingress ingress_;
  Controller controller_;
  TableHomes tables_;
  std::vector<Crew> crews_;
  std::vector<LinkOut*> link_to_;  // by unit
  Doorbell* bell_ = nullptr;       // the front's

  Instant now_ = Instant::min();
  Instant began_;
  Instant last_captured_;
  std::vector<Arrival> batch_;
  // What none can be dropped with for want of room, by the size of buffers.
  std::array<uint32_t, 3> most_under_way_;
  uint64_t in_channels_ = 0;  // slots of all units' channels in use
  // Of these, by the slot of the flow; of an NF with two sides.
  LazyArray<uint64_t> under_way_;
  ControllerOut out_;
  // Units that are starting: the commands, and when they are ready.
  struct UnitStart {
    Instant ready;
    ControllerCommand command;
  };
  std::vector<UnitStart> starting_;
  Instant next_ready_ = Instant::max();  // the earliest of them
  Nanos patience_ = kPatience;
  uint64_t by_alias_lost_ = 0;
  // What a unit has drained and the controller was not told of yet.
  DrainReport drained_;
  DrainReport drained_payloads_;  // of these, packets with a payload
  // Released and not recorded yet: packets that come and go together have the
  // same latency.
  uint32_t packets_of_latency_ = 0;
  Nanos latency_;
  Instant next_live_ = Instant::max();        // when to publish figures
  std::unique_ptr<LiveTimes> latency_times_;  // null if never
  std::unique_ptr<LiveTimes> late_times_;

  ReleaseDigest digest_;
  ReleaseOrder order_;
  Provisioning provisioning_;
  RunResult result_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_REAL_TIME_REAL_DRIVER_H_
