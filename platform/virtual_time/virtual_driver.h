// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_VIRTUAL_TIME_VIRTUAL_DRIVER_H_
#define SNF_PLATFORM_VIRTUAL_TIME_VIRTUAL_DRIVER_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/rng.h"
#include "base/time.h"
#include "controller/core/controller.h"
#include "platform/check/checker.h"
#include "platform/run/digest.h"
#include "platform/run/ingress.h"
#include "platform/run/nf_watchdog.h"
#include "platform/run/observers.h"
#include "platform/run/provisioning.h"
#include "platform/run/renaming_digest.h"
#include "platform/run/run.h"
#include "platform/virtual_time/controller_faults.h"
#include "platform/virtual_time/moved_flow.h"
#include "platform/virtual_time/packet_exits.h"
#include "platform/virtual_time/table_network.h"
#include "platform/virtual_time/unit_sharing.h"
#include "platform/virtual_time/virtual_event.h"
#include "platform/virtual_time/virtual_faults.h"
#include "platform/virtual_time/virtual_loggers.h"
#include "platform/virtual_time/virtual_network.h"
#include "platform/virtual_time/virtual_store.h"
#include "platform/virtual_time/virtual_units.h"
#include "runtime/core/service_model.h"
#include "runtime/ring/call_mark.h"
#include "traces/capture_reader.h"

namespace snf {

// Theory of operation. Runs a controller and its units in virtual time: one
// thread, a queue of events, and the capture's own clock. NF code runs on the
// real bytes; how long a unit takes for a packet (ServiceModel), a hop or a
// start are stated delays. The same input and options give the same result on
// every machine, bit for bit.
//
// The driver only carries: what a core commands becomes an event at a later
// time, and an event becomes a call of a core. At equal times, events come
// first in the order in which they were caused, then timers, then the next
// packet of the capture.
//
//   Offer ─► classify ─► Controller ─kEnqueue, hop─► Unit::on_packet
//                            ▲                          │ begin, service time
//                            └─────── on_drained ───────┤ finish
//            sink ◄── release ◄──── hop ◄── [logger] ◄──┤
//                               other units ◄── VirtualNetwork ◄── messages
//
// In StateMode::kExternal the state goes to the VirtualStore instead, which is
// asked before the unit that had the flow.
//
// A packet that comes back from the outside (ingress.h) does so a hop after its
// release.
//
// Several drivers may share units, each with a controller that leases its part
// of them (unit_sharing.h). Then packets come by Take, and what a unit serves
// next is not this driver's to say.
//
// Owner-thread only.
class VirtualDriver final : private NfCallNames,
                            private VirtualLoggers::Host,
                            private ControllerFaults::Host {
 public:
  // `policy` and the observers must outlive the driver, and the spec be good
  // (NfSpec::check). The driver adds observers of its own.
  VirtualDriver(const RunOptions& options, const PlacementPolicy& policy,
                const NfSpec& nf, Observers observers,
                UnitSharing* sharing = nullptr);
  VirtualDriver(const VirtualDriver&) = delete;
  VirtualDriver& operator=(const VirtualDriver&) = delete;
  ~VirtualDriver();

  // Takes the next packet of the capture. One that is earlier than the packet
  // before counts as arriving with it.
  void Offer(const CapturedPacket& captured);

  // Lets what is due by then happen, as a packet of that time would.
  void AdvanceTo(Instant time);

  // Lets everything that is under way come to its end, and returns what came
  // out of the run. Call once.
  RunResult Finish();

  // --- For one of several that share units; in place of the calls above. ---
  // The time of the next event; Instant::max() if there is none.
  Instant next_time() const;
  // Lets what is due by then happen; nothing if something is due later.
  void RunUntil(Instant time);
  void on_start(Instant first_packet);
  // Takes a packet that it is to have, as Offer would. One that waits is the
  // caller's until TakeWaiting, and is in the run's figures all the same.
  void Take(Instant arrival, const CapturedPacket& captured,
            const Ingress::Taken& taken, bool waits = false);
  void TakeWaiting(Instant time, const FlowKey& key, bool by_alias,
                   PacketHandle packet);
  // One of a NF with two sides comes back from the outside.
  void TakeBack(Instant time, const FlowKey& alias, PacketHandle packet,
                bool waits = false);
  // The controller's share of the unit from now on; its word is as
  // Controller::on_lease.
  bool Lease(Instant time, UnitId unit, uint32_t share);
  bool Revoke(Instant time, UnitId unit, bool at_once);
  // The unit serves the packet that it was last said to have next.
  void BeginService(Instant time, UnitId unit);
  // The controller fails (RunOptions::faults must name one that does). Until
  // another has taken over, none of the calls about flows and leases may be
  // made.
  void KillController(Instant time);
  bool is_controller_up() const;
  // Flows that change their controller (controller/hand_over). ReadFlow returns
  // what goes along; none while the flow is not settled: some packet of it is
  // under way. Then GiveFlow (again, if a successor has found it) and, once
  // another has it, ForgetFlow. TakeFlow
  // returns the flow's id here, or none if there is no room now; the flow is
  // here once UnitSharing::on_advanced names that and the clock behind.
  bool HasFlow(const FlowKey& key) const;
  bool HasFlow(FlowId flow) const { return KeyOf(flow) != FlowKey{}; }
  bool AwaitsEnd(FlowId flow) const;
  std::optional<MovedFlow> ReadFlow(FlowId flow);
  // The flow gets no timer packets for now, or it does again.
  void HoldTimers(FlowId flow) { timers_held_.insert(flow); }
  void ReleaseTimers(FlowId flow) { timers_held_.erase(flow); }
  void GiveFlow(Instant time, FlowId flow, bool again);
  void ForgetFlow(Instant time, FlowId flow);
  std::optional<FlowId> TakeFlow(Instant time, const MovedFlow& moved);
  bool HasAlias(const FlowKey& alias) const;
  // Pieces come to the controller, which were out or are new to it; leave it;
  // or are its, and at units of others.
  void AddPieces(Instant time, const PieceBlock& pieces, bool were_out);
  void AskForPieces(Instant time, const PieceRequest& request);
  void RemovePieces(const PieceBlock& pieces) {
    controller_.RemovePieces(pieces);
  }
  void InheritPieces(Instant time, const PieceBlock& free,
                     const PieceBlock& out);
  // Nothing more comes from the capture; then, no timers of NFs either. Flows
  // of others may still be given to a driver that has had no packet.
  void BeginEnd(Instant time) {
    is_ending_ = true;
    last_drain_ = std::max(last_drain_, time);
  }
  void StopTimers() { units_.StopTimers(); }
  RunResult TakeResult();

  uint64_t packets_in() const { return result_.packets_in; }

  // These tell tests what the run cost and what it left behind. After Finish()
  // no buffer is in use, and units keep flows only if flow_timeout is infinite;
  // flows_at_units() is without replicas.
  uint64_t events() const { return events_handled_; }
  uint32_t buffers_in_use() const { return buffers_.in_use(); }
  uint64_t flows_at_units() const { return units_.flows(); }
  uint64_t replicas_at_units() const { return units_.replicas(); }
  uint32_t records_on_the_way() const {
    return network_.states().records_on_the_way();
  }
  const Controller& controller() const { return controller_; }

 private:
  // The virtual time that may pass without any packet leaving a unit.
  static constexpr Nanos kPatience = Seconds(3'600);
  // So often timers of units may run out after the last packet, until those of
  // NFs are stopped.
  static constexpr uint32_t kMaxTimersAtEnd = 10'000'000;

  using Event = VirtualEvent;

  bool IsStuck(Instant next) const;
  void Handle(const Event& event) override;
  Instant now() const { return network_.now(); }
  FlowKey FlowOf(FlowId flow) const override { return KeyOf(flow); }
  uint64_t NumberOf(PacketHandle packet) const override {
    return ingress_.NumberOf(packet);
  }
  // FlowKey{} if the controller has forgotten the flow.
  FlowKey KeyOf(FlowId flow) const;
  void AddFindings();

  // At the controller.
  void HandleAtController(const Event& event);
  void on_alias();
  void on_hairpin(const Event& event);
  void on_failure(UnitId unit);
  void ExecuteAll();
  void Succeed(uint32_t epoch) override;
  void on_rebuilt() override;
  void ExecuteOf(const ControllerOut& out) override;
  void HandleHeld(const Event& event, const Alias& alias) override;
  Alias TakeAlias() override;
  void Unsent(const Event& event) override;
  void NoteFailure(UnitId unit) override;
  void SealLogger(const Seal& seal) override;
  void on_found(FlowId flow, Clock newest, bool is_ending) override;
  void on_alias_withdrawn(FlowId flow, Clock clock) override;
  void Execute(const ControllerCommand& command);
  void Enqueue(const ControllerCommand& command);
  void Start(const ControllerCommand& command);
  void Arrive(const FlowKey& key, bool by_alias, PacketHandle packet) override;
  void Release(const Event& event);

  // At units.
  void HandleOfUnit(const Event& event, VirtualUnit& shell);
  void HandleAtUnit(const Event& event, VirtualUnit& shell, UnitOut& out);
  void on_done_query(VirtualUnit& shell, DoneQuery query);
  void TakeState(const PacketMeta& meta, VirtualUnit& shell);
  void Serve(VirtualUnit& shell);
  void BeginService(VirtualUnit& shell);
  void EndService(VirtualUnit& shell);
  void ExecuteAll(VirtualUnit& shell);
  void Execute(VirtualUnit& shell, const UnitCommand& command);
  void ExecutePacket(UnitId unit, const UnitCommand& command);
  bool HasStoreEvents() const {
    return store_.has_value() && store_->next_time() != Instant::max();
  }
  void WriteToStore(const VirtualUnit& shell, const State& state);
  void on_store_answer(const StoreAnswer& answer);
  void SendStopped(UnitId unit);
  void BeginAgain(VirtualUnit& shell);
  void ScheduleTimer(VirtualUnit& shell);
  void CallUnit(VirtualUnit& shell,
                absl::FunctionRef<void(UnitOut&)> call) override;
  void Drained(UnitId unit, const PacketMeta& meta) override;
  void on_released(VirtualUnit& shell, const PacketMeta& meta) override;
  void on_stopped(VirtualUnit& shell) override;
  void on_grants_logged(UnitId unit, uint64_t number) override {
    if (controllers_ != nullptr) controllers_->on_grants_logged(unit, number);
  }

  // The state of a flow that comes from another controller's units.
  struct Arriving {
    State state;
    std::vector<std::byte> record;
  };

  RunOptions options_;
  const PlacementPolicy& policy_;
  std::unique_ptr<NetworkFunction> example_;  // runs nothing

  UnitSharing* sharing_;  // null: the units are its own
  std::unique_ptr<BufferPool> own_buffers_;
  BufferPool& buffers_;
  std::unique_ptr<Ingress> own_ingress_;
  Ingress& ingress_;
  Controller controller_;
  ServiceModel service_;
  TableNetwork tables_;
  std::optional<VirtualStore> store_;  // of StateMode::kExternal
  Rng start_rng_;                      // says which starts of units fail
  VirtualUnits units_;
  uint64_t events_handled_ = 0;
  uint64_t in_channels_ = 0;             // slots of all units' channels in use
  Instant last_drain_ = Instant::min();  // when a packet left a unit
  std::deque<Alias> aliases_;  // on their way to the controller, in order
  uint64_t waiting_ = 0;       // packets that are to be run again
  std::map<FlowId, Arriving> arriving_;
  std::set<FlowId> timers_held_;
  bool is_ending_ = false;  // after the last packet
  uint32_t timers_at_end_ = 0;

  ControllerOut controller_out_;
  UnitOut unit_out_;

  Observers observers_;
  Checker checker_;
  ReleaseDigest digest_;
  std::unique_ptr<RenamingDigest> renaming_digest_;  // of an NF with two sides
  Provisioning provisioning_;
  RunResult result_;
  PacketExits exits_;
  VirtualNetwork network_;
  VirtualLoggers loggers_;
  std::unique_ptr<VirtualFaults> faults_;          // null if nobody fails
  std::unique_ptr<ControllerFaults> controllers_;  // null if none fails
  CallMark call_mark_;
  std::optional<NfWatchdog> watchdog_;  // of calls of units' NFs
};

}  // namespace snf

#endif  // SNF_PLATFORM_VIRTUAL_TIME_VIRTUAL_DRIVER_H_
