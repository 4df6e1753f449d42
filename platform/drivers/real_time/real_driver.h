// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_DRIVER_H_
#define SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "controller/core/controller.h"
#include "controller/core/placement.h"
#include "controller/live/controller_loop.h"
#include "platform/drivers/loops/loop_region.h"
#include "platform/drivers/loops/loop_results.h"
#include "platform/drivers/loops/unit_processes.h"
#include "platform/drivers/loops/unit_threads.h"
#include "platform/drivers/real_time/egress.h"
#include "platform/drivers/real_time/known_flows.h"
#include "platform/drivers/real_time/live_look.h"
#include "platform/drivers/real_time/paced_intake.h"
#include "platform/drivers/real_time/pool_pieces.h"
#include "platform/drivers/real_time/real_controller_faults.h"
#include "platform/drivers/real_time/real_failure.h"
#include "platform/drivers/real_time/real_faults.h"
#include "platform/drivers/real_time/real_options.h"
#include "platform/drivers/real_time/real_processes.h"
#include "platform/drivers/real_time/real_turns.h"
#include "platform/run/figures/live_figures.h"
#include "platform/run/ingress.h"
#include "platform/run/observers.h"
#include "platform/run/packet_watch.h"
#include "platform/run/run.h"
#include "runtime/redis/run_redis.h"
#include "runtime/ring/real_clock.h"
#include "runtime/ring/shared_region.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/nf_call.h"
#include "runtime/sdk/nf_spec.h"
#include "runtime/sdk/state_schema.h"
#include "runtime/store/state_store.h"
#include "traces/capture_reader.h"

namespace snf {

struct RealSetup;

// Theory of operation. Runs a controller and its units in real time, by
// threads: the *dispatcher*, on the caller's thread, takes packets at their
// time (PacedIntake), runs the controller's loop (RealTurns) and releases
// packets (Egress); *workers* run loops of units. Between threads are links in
// a region of memory, in which the packets lie as well.
//
//   Offer ─► Ingress ─► ControllerLoop ─commands─► UnitLoop ⇄ UnitLoop
//                           ▲      │                    │
//            sink ◄── Egress┴──────┴◄─── commands ──────┘
//
// With output loggers (RunOptions::loggers), releases and drops come to the
// controller's loop from the loggers (LoggerLoop), and so to Egress.
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
// Finish waits until all packets have left and no timer is left (RealDrain). A
// packet that has not moved for RealOptions::patience is reported as a
// violation.
//
// Workers may be processes (RealProcesses), and then one runs the
// loggers. Each process of units has memory of its own (LoopRegion), which is
// all that it shares with the dispatcher and the loggers. A process that dies
// ends the run. If units have loggers, a process that is killed does not: other
// units take over its flows, and it is started again (RealFaults).
//
// The controller, which is a part of the dispatcher, may fail as well
// (RealControllerFaults): its state and the packets in its buffers are lost.
//
// A bad word between threads ends the run, as does a store that is gone
// (RealFailure): RunResult::failure names it; packets under way, and packets
// offered after that, are dropped.
//
// Owner-thread only.
class RealDriver final : private NfCallNames {
 public:
  // Starts a run; its threads run on return. `policy` and the observers must
  // outlive the driver, and the spec must be good (NfSpec::check). Observers
  // get releases and drops. Errors: those of RealSetup::Make, of RunRedis::Open
  // and of processes.
  static absl::StatusOr<std::unique_ptr<RealDriver>> Start(
      const RunOptions& options, const RealOptions& real,
      const PlacementPolicy& policy, const NfSpec& nf, Observers observers);
  ~RealDriver();

  // Starts the run's clock, before the first packet; otherwise the first packet
  // starts it. Call it at most once.
  void Begin(Instant now);
  // Sets the time of the first packet of all controllers. Call it before Offer;
  // otherwise the first packet offered sets it.
  void set_first_packet(Instant time) { first_packet_ = time; }
  // Takes a turn between packets that have no schedule; returns false if there
  // was nothing to do. Not before Begin.
  bool Poll();
  // Returns for how long there is nothing to do, as far as known, at most
  // `most`; 0 while units have packets.
  Nanos MayWait(Nanos most = Milliseconds(1)) const;
  // Waits until units have sent something, for `most` at most, or
  // `is_other_work` returns true. If units have the caller's thread, only
  // yields.
  void AwaitUnits(Nanos most, absl::FunctionRef<bool()> is_other_work);
  const RealClock& clock() const { return *region_.clock; }
  // Returns true if all packets that were taken are at their end.
  bool is_idle() const {
    return loop_.in_channels() + loop_.batch_size() == 0 && loop_.is_led();
  }
  // Returns false after the controller's failure, until its successor is made.
  bool has_controller() const { return loop_.has_controller(); }

  // Takes the next packet of the capture; returns when it was taken, which is
  // when it was due or later.
  void Offer(const CapturedPacket& captured);

  // Ends the run and returns its result. Call it once.
  RunResult Finish();

  // Returns true if the NF takes frames of several packets whole.
  bool takes_merged() const { return ingress_.takes_merged(); }
  uint64_t packets_in() const { return result_.packets_in; }
  const Controller& controller() const { return loop_.controller(); }
  const NfSpec& nf() const { return nf_; }
  // Returns the shared tables of the NF, as far as the units have told.
  const TableHomes& tables() const { return loop_.tables(); }
  // Returns what each unit did so far.
  const Provisioning& provisioning() const { return egress_.provisioning(); }

  // Take effect at once, as the same calls of Controller; between Begin and
  // Finish.
  bool Tune(const ControllerOptions& options);
  bool Drain(UnitId unit) {
    if (hosts() != nullptr) return hosts()->Drain(unit);
    return loop_.controller().Drain(loop_.ReadClock(), unit);
  }
  void Undrain(UnitId unit) {
    if (hosts() != nullptr) return hosts()->Undrain(unit);
    loop_.controller().Undrain(unit);
  }
  bool DeleteFlow(FlowId flow, Deletion why = Deletion::kByHand) {
    loop_.ReadClock();
    return loop_.DeleteFlow(flow, why, egress_);
  }
  // Kill the process of a unit, or of the loggers. Errors: FailedPrecondition
  // if the end of a process would end the run; those of RealFaults.
  absl::StatusOr<RealFaults::Killed> KillUnit(UnitId unit);
  // Returns the name of the host where the unit runs, or is to run; "": this
  // one.
  std::string_view HostOf(UnitId unit) const {
    return processes_.has_value() ? processes_->HostOf(unit) : "";
  }
  absl::StatusOr<RealFaults::Killed> KillLoggers();
  // Lets the controller fail; between Begin and Finish, in a run in which it
  // may (RunOptions::faults). Counts a kill in vain if it has failed already.
  void KillController() { controller_faults_->KillOne(); }
  // As the same calls of ControllerLoop, for a controller that leases units;
  // after Begin. Lease also returns false while the process of a unit that
  // begins does not run yet: the process then starts, if its host has joined.
  // Returns false as well while flows leave the unit by LeaveHost.
  bool Lease(UnitId unit, uint32_t share);
  // If the unit's process runs elsewhere than on the unit's host, and flows
  // have another unit, flows leave the unit. Returns true if they do.
  bool LeaveHost(UnitId unit);
  bool Revoke(UnitId unit, bool at_once) {
    loop_.ReadClock();
    return loop_.Revoke(unit, at_once, egress_);
  }
  std::vector<UnitId> TakeLeft() { return loop_.TakeLeft(); }

  // The following serve several drivers, one after the other
  // (platform/daemon/chains/live_chains.h). After BecomeOlder the driver
  // publishes no more figures, and Knows says whether a packet is of one of its
  // flows.
  static constexpr Nanos kLateFragments = KnownFlows::kLateFragments;
  void BecomeOlder() {
    look_.Stop();
    known_flows_.BecomeOlder();
  }
  bool Knows(const CapturedPacket& captured) {
    return known_flows_.Knows(captured);
  }
  bool MayHaveAskedFor(const CapturedPacket& captured) {
    return known_flows_.MayHaveAskedFor(captured);
  }
  // As KnownFlows::SoughtBy.
  std::optional<KnownFlows::Sought> SoughtBy(const CapturedPacket& captured) {
    return known_flows_.SoughtBy(captured);
  }
  // Let a controller of another process continue flows of this one, and this
  // one flows of another (platform/daemon/group/flow_heirs.h): as
  // ControllerLoop::AskState, Egress::set_on_state and
  // ControllerLoop::TakeFlow.
  bool AskState(FlowId flow) { return loop_.AskState(flow); }
  void set_on_state(Egress::OnState on_state) {
    egress_.set_on_state(std::move(on_state));
  }
  bool has_on_state() const { return egress_.has_on_state(); }
  bool TakeFlow(const HandedFlow& flow, const State& state,
                std::span<const std::byte> record) {
    loop_.ReadClock();
    return loop_.TakeFlow(flow, state, record, egress_);
  }
  // Returns true for a record that units of the NF can take.
  bool IsRecord(const State& state, std::span<const std::byte> record) const {
    const StateSchema& schema = example_->schema();
    return state.schema == schema.hash() && record.size() == state.bytes &&
           schema.IsWellFormed(record);
  }
  // Publishes no more figures.
  void HideFigures() { look_.Stop(); }
  // Shows the run while it goes on.
  LiveLook& look() { return look_; }
  // Returns arrival to release, of packets that were released.
  const Histogram& latency() const { return result_.latency_ns; }
  // Returns the pieces of the NF's pools that this controller has.
  PoolPieces& pieces() { return pieces_; }
  const PoolPieces& pieces() const { return pieces_; }

  // Returns how many buffers are not free; none after Finish.
  uint32_t buffers_in_use() const;
  // Returns true if a bad word has ended the run, or the loss of the store.
  bool has_failed() const { return failure_.has_failed(); }
  // Returns how many flows were found in processes that were kept; absent if
  // the run began anew.
  std::optional<uint64_t> inherited_flows() const { return inherited_flows_; }
  // Returns the processes of units; null if units are threads.
  const UnitProcesses* processes() const {
    return processes_.has_value() ? &processes_->all() : nullptr;
  }
  // Returns the memory between the threads, for tests that spoil it.
  std::span<std::byte> shared_memory() { return region_.memory.bytes(); }
  // Returns the memory between the controller and loggers, if any, for the
  // same.
  std::span<std::byte> own_memory() {
    return region_.own_memory.has_value() ? region_.own_memory->bytes()
                                          : std::span<std::byte>();
  }

 private:
  // Takes the memory out of `setup`.
  RealDriver(RealSetup& setup, const PlacementPolicy& policy, const NfSpec& nf,
             Observers observers);
  ControllerLinks TakeLinks();
  Observers WithTap(Observers observers);
  PacedIntake::Run IntakeRun();
  absl::Status OpenStores(uint32_t loops);
  HostedUnits* hosts() const {
    return processes_.has_value() ? processes_->hosts() : nullptr;
  }
  absl::Status StartThreads(const NfSpec& nf, RealSetup& setup);
  absl::Status StartProcesses(const NfSpec& nf, RealSetup& setup);
  absl::Status TakeOver();

  // Called by a thread that runs an NF of the flow. The flow is not forgotten
  // meanwhile, so its key does not change.
  FlowKey FlowOf(FlowId flow) const override;
  uint64_t NumberOf(PacketHandle packet) const override {
    return ingress_.NumberOf(packet);
  }
  bool has_threads() const { return real_.threads > 1; }
  void SetClocks();
  void StopWorkers();
  void StopLoggers();
  void CheckLoggers();
  void Collect();

  NfSpec nf_;
  RunOptions options_;
  RealOptions real_;                          // threads: how many there are
  std::unique_ptr<NetworkFunction> example_;  // runs nothing
  const bool is_heir_;                        // processes were taken over
  const bool logs_tables_;  // updates of shared tables come from loggers
  RunResult result_;

  LoopRegion region_;
  // Holds the homes of shared tables, if there are some, where they are kept.
  std::optional<SharedRegion> tables_region_;
  // Holds the records that units show each other, if they do, and are threads.
  std::optional<SharedRegion> host_region_;
  Doorbell* controller_bell_;
  Ingress ingress_;
  ControllerLoop loop_;
  std::optional<PacketTap> tap_;  // of real_.watch
  Egress egress_;
  LiveLook look_;
  RealFailure failure_;
  RealParts parts_;
  RealTurns turns_;
  const Nanos patience_;  // with a packet that does not move
  PacedIntake intake_;
  KnownFlows known_flows_;
  PoolPieces pieces_;
  std::optional<UnitThreads> unit_threads_;  // absent if there are processes
  std::optional<RealProcesses> processes_;
  std::optional<RealControllerFaults> controller_faults_;
  std::vector<LoopResults> results_;  // at the end
  std::unique_ptr<RunRedis> redis_;   // of StateMode::kExternal, as stores_
  std::vector<std::unique_ptr<StateStore>> stores_;  // by worker

  bool has_first_ = false;  // packet
  bool has_begun_ = false;
  std::optional<uint64_t> inherited_flows_;
  std::optional<Instant> first_packet_;  // if it may be another controller's
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_DRIVER_H_
