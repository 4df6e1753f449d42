// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REAL_TIME_REAL_DRIVER_H_
#define SNF_PLATFORM_REAL_TIME_REAL_DRIVER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/packet/classifier.h"
#include "base/time.h"
#include "controller/core/controller.h"
#include "controller/core/placement.h"
#include "controller/live/controller_loop.h"
#include "controller/rebuild/lease_finder.h"
#include "platform/process/real_clock.h"
#include "platform/real_time/egress.h"
#include "platform/real_time/loop_region.h"
#include "platform/real_time/loop_results.h"
#include "platform/real_time/real_controller_faults.h"
#include "platform/real_time/real_faults.h"
#include "platform/real_time/real_loggers.h"
#include "platform/real_time/unit_process.h"
#include "platform/real_time/unit_processes.h"
#include "platform/real_time/unit_starts.h"
#include "platform/redis/run_redis.h"
#include "platform/run/ingress.h"
#include "platform/run/live_figures.h"
#include "platform/run/nf_watchdog.h"
#include "platform/run/observers.h"
#include "platform/run/pace.h"
#include "platform/run/run.h"
#include "runtime/live/unit_loop.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/ring/shared_region.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/nf_call.h"
#include "runtime/sdk/nf_spec.h"
#include "runtime/wire/wire_faults.h"
#include "traces/capture_reader.h"

namespace snf {

class LiveBoard;
class LoopHost;
class RealDriver;

// Says how a run in real time is driven.
struct RealOptions {
  Speed speed;
  // The dispatcher's, those of workers, and of three or more the last for the
  // output loggers, if there are any; 1: all on the caller's. 0: as many as
  // there are CPUs, up to kMaxThreads. Those of workers and loggers may be
  // processes.
  uint32_t threads = 0;
  static constexpr uint32_t kMaxThreads = 33;
  BufferPool::Options buffers = {.small = 32'768, .medium = 1'024, .large = 64};
  // Each thread gets a CPU of its own, of those that the process may use, in
  // order. Then there may not be more threads than these.
  bool pin = false;
  // Of loops of units, and of their loggers, which have one process.
  Isolation isolation = Isolation::kThread;
  // If it is there: a process for each unit, of up to
  // UnitStarts::kMostProcesses, which comes and goes with it; so many wait,
  // parked, for the next ones. `threads` is then the run's own affair, units
  // take to start what they take, and the controller does not fail. Absent: all
  // processes run from the start to the end.
  std::optional<uint32_t> warm_pool = std::nullopt;
  // The file of this program, for processes of units and loggers.
  std::string program = "/proc/self/exe";
  std::string command = "snf";  // named first in what they write
  // Units are as fast as they can be, rather than unit_capacity_bps, and ready
  // at once, rather than unit_start_delay later.
  bool unpaced = false;
  // A packet for which there is no room yet waits, and those behind it; else it
  // is dropped. So do answers to packets that have not left the NF yet.
  bool wait_for_room = false;
  // What nothing moves for so long, and for longer than the service model lets
  // it stay, never ends.
  Nanos patience = Seconds(10);
  // Once it is set, Offer does not wait any more; may be null.
  const std::atomic<bool>* interrupted = nullptr;
  uint32_t guard_every = UnitOptions{}.guard_every;
  // Of StateMode::kExternal: unix:/PATH or HOST:PORT of a Redis; "": a server
  // of the run's own.
  std::string redis = "";
  LiveBoard* live = nullptr;  // gets figures, unless it is null
  // Is told a line, by the caller's thread, of each process of units or loggers
  // that was killed, and that is back, and of controllers; may be null. Of
  // several controllers, each one's thread tells it, and names the controller.
  std::function<void(std::string_view)> notice = nullptr;
  // Adds to what the board gets; may be null. Called on the driver's thread.
  std::function<void(LiveFigures&)> amend = nullptr;
  // If it is there, processes of units and loggers outlive this one if it is
  // killed, for so long: the next driver with the same socket, options of units
  // and program goes on with them, and says so by `notice`. They are the user's
  // alone who can write into the socket's folder.
  struct Keep {
    std::string socket;
    Nanos patience;
    // Is told of the driver once its controller knows which pieces of pools
    // units have, and before that gives others away; may be null.
    std::function<void(RealDriver&)> settle = nullptr;
  };
  std::optional<Keep> keep = std::nullopt;
  // The run is that of the controller with this id (ControllerOptions), of so
  // many that share the NF's pools.
  uint32_t controllers = 1;
  AliasListener* aliases = nullptr;  // is told of them, unless it is null
  // Runs the loops of units, which controllers share and this one leases; then
  // `threads` is 1 and its own. Null: the driver runs them.
  LoopHost* host = nullptr;
  // Finds the leases of the controller after a failure, if it leases its units.
  // Null: it does not.
  LeaseFinder* lease_finder = nullptr;
  // Observers are told for how long units were busy: by their capacity, or else
  // by the clock.
  bool measures_busy = false;
};

// Theory of operation. Runs a controller and its units in real time, by
// threads: the *dispatcher*, on the caller's thread, takes packets at their
// time (Pace), runs the controller's loop and releases packets (Egress);
// *workers* run loops of units. Between threads are links in a region of
// memory, in which the packets lie as well.
//
//   Offer ─► Ingress ─► ControllerLoop ─commands─► UnitLoop ⇄ UnitLoop
//                           ▲      │                    │
//            sink ◄── Egress┴──────┴◄─── commands ──────┘
//
// With output loggers (RunOptions::loggers), what becomes of packets comes to
// the controller's loop from them (LoggerLoop), and so to Egress.
//
// Time is the capture's: it starts at the first packet's, and goes on as the
// machine's monotonic clock. A packet's arrival is when it was due, also where
// the dispatcher was late: so flowlets do not depend on how busy the machine
// is, and latencies hide nothing. At the greatest speed nothing is due, and
// arrival is when the dispatcher takes the packet.
//
// The dispatcher takes up to ControllerLoop::kBatch packets that are due at a
// time, and looks at what the workers have sent between batches and while it
// waits.
//
// Finish lets everything come to its end; then it lets the clock skip to what
// is due, flows that time out and units that stop, until nothing is. A packet
// that nothing moves for RealOptions::patience is told of as a violation.
//
// Workers may be processes (RealOptions::isolation), and then one runs the
// loggers. Each process of units has memory of its own (LoopRegion), which is
// all that it shares with the dispatcher and the loggers. One that dies
// ends the run; where units have loggers, one that is killed does not: others
// go on with what it had, and it is started again (RealFaults).
//
// The controller, which is a part of the dispatcher, may fail as well
// (RealControllerFaults): its state and what it had in its buffers is dropped.
//
// A bad word between threads ends the run: RunResult::failure names it, packets
// that were under way are dropped as unit_failed, and so is what is offered
// after that. So does a store that is gone (RunRedis), as store_silent.
//
// Owner-thread only.
class RealDriver final : private NfCallNames {
 public:
  // `policy` and the observers must outlive the driver, and the spec be good
  // (NfSpec::check). Observers are told of what is released and dropped. The
  // threads run on return. Errors: InvalidArgument, more threads than may be
  // or, pinned, than CPUs; others as SharedRegion, or as RunRedis::Open.
  static absl::StatusOr<std::unique_ptr<RealDriver>> Start(
      const RunOptions& options, const RealOptions& real,
      const PlacementPolicy& policy, const NfSpec& nf, Observers observers);
  ~RealDriver();

  // Starts the run's clock, before the first packet; else that does it. Call it
  // once at the most.
  void Begin(Instant now);
  // The run's first packet, of all controllers', came at that time. Call it
  // before Offer, or it is the first that is offered.
  void set_first_packet(Instant time) { first_packet_ = time; }
  // Does what is to be done between packets that have no schedule; returns true
  // if there was anything. Not before Begin.
  bool Poll();
  // Returns how long nothing is to be done, as far as it is known, 1 ms at the
  // most.
  Nanos MayWait() const;
  const RealClock& clock() const { return clock_; }
  // Returns true if all packets that were taken are at their end.
  bool is_idle() const {
    return loop_.in_channels() + loop_.batch_size() == 0 && loop_.is_led();
  }
  // There is a controller: none has failed, or the next one has been made.
  bool has_controller() const { return loop_.has_controller(); }

  // Takes the next packet of the capture; returns when it was taken, which is
  // when it was due or later.
  void Offer(const CapturedPacket& captured);

  // Lets everything come to its end and returns the result. Call it once.
  RunResult Finish();

  uint64_t packets_in() const { return result_.packets_in; }
  const Controller& controller() const { return loop_.controller(); }
  // Returns what each unit did so far.
  const Provisioning& provisioning() const { return egress_.provisioning(); }

  // Take effect at once, as those of Controller; between Begin and Finish.
  bool Tune(const ControllerOptions& options);
  bool Drain(UnitId unit) {
    return loop_.controller().Drain(loop_.ReadClock(), unit);
  }
  void Undrain(UnitId unit) { loop_.controller().Undrain(unit); }
  // Kill the process of a unit, or of the loggers. Errors: FailedPrecondition,
  // the end of any would be that of the run; those of RealFaults.
  absl::StatusOr<RealFaults::Killed> KillUnit(UnitId unit);
  absl::StatusOr<RealFaults::Killed> KillLoggers();
  // Lets the controller fail, of a run in which it may (RunOptions::faults);
  // between Begin and Finish. In vain if it has failed already.
  void KillController() { controller_faults_->KillOne(); }
  // As those of ControllerLoop, for a controller that leases units; after
  // Begin.
  bool Lease(UnitId unit, uint32_t share) {
    loop_.ReadClock();
    return loop_.Lease(unit, share, egress_);
  }
  bool Revoke(UnitId unit, bool at_once) {
    loop_.ReadClock();
    return loop_.Revoke(unit, at_once, egress_);
  }
  std::vector<UnitId> TakeLeft() { return loop_.TakeLeft(); }

  // The following are for who has several drivers, one after the other
  // (platform/live/live_chains.h). After BecomeOlder, it tells the board no
  // more, and may be asked whether a packet is of a flow that it has. Of a
  // datagram whose first fragment came before, it is asked for kLateFragments.
  static constexpr Nanos kLateFragments = Seconds(30);
  void BecomeOlder();
  bool Knows(const CapturedPacket& captured);
  // Returns how it stands, but for times and what `amend` adds.
  LiveFigures Look();
  // Pieces of the NF's pools, a mask for each word of 64. They leave the pool
  // of this controller, or come to it.
  std::span<const NetworkFunction::Pool> pools() const {
    return example_->pools();
  }
  std::vector<uint64_t> FreePieces(size_t pool) const;
  // The same of those that the pool had in the beginning.
  std::vector<uint64_t> AllPieces(size_t pool) const;
  void RemovePieces(size_t pool, std::span<const uint64_t> words);
  void AddPieces(size_t pool, std::span<const uint64_t> words);

  // Returns how many buffers are not free; none after Finish.
  uint32_t buffers_in_use() const;
  // A bad word has ended the run, or that the store is gone.
  bool has_failed() const { return faults_->count() > 0 || has_lost_store(); }
  // Returns how many flows it found in processes that were kept for it; none
  // if it began anew.
  std::optional<uint64_t> inherited_flows() const { return inherited_flows_; }
  // The processes of units; null if they are threads.
  const UnitProcesses* processes() const { return processes_.get(); }
  // Returns the memory between the threads, for tests that spoil it.
  std::span<std::byte> shared_memory() { return region_.bytes(); }
  // The same of what the controller and loggers have between them, if any.
  std::span<std::byte> own_memory() {
    return own_region_.has_value() ? own_region_->bytes()
                                   : std::span<std::byte>();
  }

 private:
  // Timers of NFs run for so long by the clock on the wall after the last
  // packet, and no longer than kTimersAfterLastPacket.
  static constexpr Nanos kTimersAtEnd = Seconds(10);

  struct Worker {
    std::unique_ptr<UnitLoop> loop;
    std::thread thread;  // none if it shares the dispatcher's
  };

  RealDriver(const RunOptions& options, const RealOptions& real,
             const PlacementPolicy& policy, const NfSpec& nf,
             Observers observers, LoopRegion region,
             std::optional<SharedRegion> tables, bool is_heir);
  TableHomes HomesOfTables() const;
  absl::Status TakeOver();
  UnitLoopOptions WorkerOptions(uint32_t index) const;
  absl::Status OpenStores(uint32_t loops);
  absl::Status CreateWorkers(const NfSpec& nf, const LoopRegion::Options& of);
  LoggerLoopOptions LoggerOptions() const;
  absl::Status CreateLoggers(const NfSpec& nf, const LoopRegion::Options& of);
  // Loggers take their turns behind those of the units, on the same thread.
  bool shares_loggers() const {
    return loggers_.has_value() && real_.threads <= 2;
  }
  // … or on the dispatcher's, where units have no thread of the driver's own.
  bool has_loggers_here() const {
    return loggers_.has_value() && (!has_threads() || real_.host != nullptr);
  }
  absl::Status StartLoggers(const std::vector<int>& cpus);
  void CheckLoggers();
  absl::Status StartProcesses(const NfSpec& nf, const LoopRegion::Options& of,
                              std::optional<Launcher::Kept> kept);
  absl::Status StartThreads(const std::vector<int>& cpus);
  absl::Status PinProcesses(const std::vector<int>& cpus);

  // Asked by a thread that runs an NF of the flow, which is not forgotten
  // meanwhile, so that nobody writes its key.
  FlowKey FlowOf(FlowId flow) const override;
  uint64_t NumberOf(PacketHandle packet) const override {
    return ingress_.NumberOf(packet);
  }
  bool has_processes() const { return real_.isolation != Isolation::kThread; }
  bool has_lost_store() const { return redis_ != nullptr && redis_->is_gone(); }
  bool has_threads() const { return real_.threads > 1; }
  // There is nothing to wait for any more.
  bool is_interrupted() const {
    return has_failed() ||
           (real_.interrupted != nullptr && real_.interrupted->load());
  }
  Nanos LongestWait() const;
  void WaitUntil(Instant due);
  void WaitForRoom(const CapturedPacket& captured);
  void Take(Instant arrival, const CapturedPacket& captured);
  bool WaitForCause(const Ingress::Taken& taken);
  bool Turn();
  void TellBusy();
  bool Drain();
  void StopTimers();
  void SetClocks();
  void StopWorkers();
  void StopLoggers();
  void TakeResults();
  std::string WhyFailed() const;
  void PublishLive();
  DropReason WhyDropped() const {
    return faults_->count() > 0 ? DropReason::kUnitFailed
                                : DropReason::kStoreSilent;
  }
  void Fail();
  void Collect();
  ControllerLinks LinksOf(LoopRegion& region);

  RunOptions options_;
  RealOptions real_;                          // threads: how many there are
  std::unique_ptr<NetworkFunction> example_;  // runs nothing
  const bool recovers_;  // the processes of units may be killed
  const bool is_heir_;   // they were those of a process that was killed
  RunResult result_;

  SharedRegion region_;
  std::vector<SharedRegion> apart_;         // of processes of units, by loop
  std::optional<SharedRegion> own_region_;  // which no process of units maps
  // Holds the homes of shared tables, if there are some, where they are kept.
  std::optional<SharedRegion> tables_region_;
  std::unique_ptr<WireFaults> faults_;
  BufferPool buffers_;
  RealClock& clock_;  // in the region, as that of each loop of units
  std::vector<LoopRegion::Loop> loops_;
  Doorbell* controller_bell_;
  Pace pace_;
  Ingress ingress_;
  ControllerLoop loop_;
  Egress egress_;
  std::vector<Worker> workers_;   // none, if there are processes
  LoopControl* loggers_control_;  // null without loggers
  Doorbell* loggers_bell_;
  std::optional<RealLoggers> loggers_;  // none, if there are processes
  std::unique_ptr<UnitProcesses> processes_;
  std::optional<RealFaults> unit_faults_;  // of processes with loggers
  std::optional<RealControllerFaults> controller_faults_;
  std::optional<UnitStarts> unit_starts_;  // with RealOptions::warm_pool
  std::vector<LoopResults> results_;       // at the end
  std::unique_ptr<RunRedis> redis_;  // of StateMode::kExternal, as stores_
  std::vector<std::unique_ptr<StateStore>> stores_;  // by worker

  std::optional<FlowClassifier> looker_;  // after BecomeOlder
  Instant older_since_;
  bool has_begun_ = false;
  std::optional<uint64_t> inherited_flows_;
  std::optional<Instant> first_packet_;  // if it may be another controller's
  Nanos busy_;                           // that was told of
  Instant began_;
  Instant finishing_ = Instant::max();  // on the clock on the wall
  Instant last_captured_ = Instant::min();
  // So many packets may be under way that none is dropped for want of room, by
  // the size of buffers.
  std::array<uint32_t, 3> most_under_way_;
  Nanos patience_;
  Instant next_live_ = Instant::max();        // when to publish figures
  std::unique_ptr<LiveTimes> latency_times_;  // null if never
  std::unique_ptr<LiveTimes> late_times_;
  std::optional<NfWatchdog> watchdog_;  // of the workers' calls
};

}  // namespace snf

#endif  // SNF_PLATFORM_REAL_TIME_REAL_DRIVER_H_
