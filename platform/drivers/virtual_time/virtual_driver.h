// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_VIRTUAL_DRIVER_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_VIRTUAL_DRIVER_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "base/time.h"
#include "controller/core/controller.h"
#include "platform/check/checker.h"
#include "platform/drivers/virtual_network/unit_sharing.h"
#include "platform/drivers/virtual_time/controller_faults.h"
#include "platform/drivers/virtual_time/controller_runner.h"
#include "platform/drivers/virtual_time/flow_moves.h"
#include "platform/drivers/virtual_time/moved_flow.h"
#include "platform/drivers/virtual_time/unit_runner.h"
#include "platform/drivers/virtual_time/virtual_event.h"
#include "platform/drivers/virtual_time/virtual_faults.h"
#include "platform/drivers/virtual_time/virtual_network.h"
#include "platform/drivers/virtual_time/virtual_units.h"
#include "platform/run/ingress.h"
#include "platform/run/nf_watchdog.h"
#include "platform/run/observers.h"
#include "platform/run/packet_exits.h"
#include "platform/run/provisioning.h"
#include "platform/run/run.h"
#include "platform/run/run_digests.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/nf_call.h"
#include "runtime/sdk/nf_spec.h"
#include "traces/capture_reader.h"

namespace snf {

// Theory of operation. Runs a controller and its units in virtual time: one
// thread, a queue of events, and the capture's own clock. NF code runs on the
// real bytes; how long a unit takes for a packet (ServiceModel), a hop or a
// start are stated delays. The same input and options give the same result on
// every machine, bit for bit.
//
// The driver only carries: what a core commands becomes an event at a later
// time, and an event becomes a call of a core, by ControllerRunner and
// UnitRunner. At equal times, events come first in the order in which they were
// caused, then timers, then the next packet of the capture.
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
// of them (unit_sharing.h). Then packets come by Take, and UnitSharing says
// whose packet a unit serves next.
//
// Owner-thread only.
class VirtualDriver final : private NfCallNames,
                            private ControllerFaults::Driver {
 public:
  // `policy` and the observers must outlive the driver, and the spec be good
  // (NfSpec::check). The driver adds observers of its own.
  VirtualDriver(const RunOptions& options, const PlacementPolicy& policy,
                const NfSpec& nf, Observers observers,
                UnitSharing* sharing = nullptr);
  VirtualDriver(const VirtualDriver&) = delete;
  VirtualDriver& operator=(const VirtualDriver&) = delete;
  ~VirtualDriver();

  // Takes the next packet of the capture. A packet that is earlier than the one
  // before counts as arriving with that one.
  void Offer(const CapturedPacket& captured);

  // Runs all that is due by then, as a packet of that time would.
  void AdvanceTo(Instant time);

  // Runs all that is under way to its end, and returns the run's result. Call
  // once.
  RunResult Finish();

  // --- For one of several drivers that share units, in place of Offer,
  // AdvanceTo and Finish. ---
  // Returns the time of the next event; Instant::max() if there is none.
  Instant next_time() const;
  // Runs all that is due by then.
  void RunUntil(Instant time);
  void on_start(Instant first_packet);
  // Takes a packet for its controller, as Offer would. A packet that waits is
  // counted here, and stays with the caller until TakeWaiting.
  void Take(Instant arrival, const CapturedPacket& captured,
            const Ingress::Taken& taken, bool waits = false);
  void TakeWaiting(Instant time, const FlowKey& key, bool by_alias,
                   PacketHandle packet);
  // Takes a packet of an NF with two sides that comes back from the outside.
  void TakeBack(Instant time, const FlowKey& to, bool by_alias,
                PacketHandle packet, bool waits = false);
  // Sets, or takes away, the controller's share of the unit. Returns what
  // Controller::on_lease, or on_revoke, returns.
  bool Lease(Instant time, UnitId unit, uint32_t share);
  bool Revoke(Instant time, UnitId unit, bool at_once);
  // Serves the packet that UnitSharing::on_next last named for the unit.
  void BeginService(Instant time, UnitId unit) {
    network_.AdvanceTo(time);
    unit_runner_.BeginService(unit);
  }
  // Fails the controller (RunOptions::faults must name one that does). Until a
  // successor has taken over, no call about flows or leases may be made.
  void KillController(Instant time);
  bool is_controller_up() const;
  FlowMoves& moves() { return moves_; }
  // Add pieces to the controller, which `were_out` at units or are new to it;
  // ask for some; remove some; or take over a controller's pieces, of which
  // `out` are at units of others.
  void AddPieces(Instant time, const PieceBlock& pieces, bool were_out);
  void AskForPieces(Instant time, const PieceRequest& request);
  void RemovePieces(const PieceBlock& pieces) {
    controller_.RemovePieces(pieces);
  }
  void InheritPieces(Instant time, const PieceBlock& free,
                     const PieceBlock& out);
  // Begins the end, after the capture's last packet; StopTimers follows. Flows
  // of others may still be given to a driver that has had no packet.
  void BeginEnd(Instant time);
  void StopTimers() { units_.StopTimers(); }
  RunResult TakeResult();

  uint64_t packets_in() const { return result_.packets_in; }

  // Return, for tests, what the run cost and what it left behind. After
  // Finish() no buffer is in use, and units keep flows only if flow_timeout is
  // infinite. flows_at_units() is without replicas.
  uint64_t events() const { return events_handled_; }
  uint32_t buffers_in_use() const { return buffers_.in_use(); }
  uint64_t flows_at_units() const { return units_.flows(); }
  uint64_t replicas_at_units() const { return units_.replicas(); }
  uint32_t records_on_the_way() const {
    return network_.states().records_on_the_way();
  }
  const Controller& controller() const { return controller_; }

 private:
  // Takes the early fragments that are to be taken at `until`.
  void TakeKept(Instant arrival, Instant until);
  // Longest virtual time without any packet leaving a unit.
  static constexpr Nanos kPatience = Seconds(3'600);
  // Most wake-ups of units after the last packet, before NFs' timers stop.
  static constexpr uint32_t kMaxTimersAtEnd = 10'000'000;

  using Event = VirtualEvent;

  // NfCallNames:
  FlowKey FlowOf(FlowId flow) const override;
  uint64_t NumberOf(PacketHandle packet) const override {
    return ingress_.NumberOf(packet);
  }
  // ControllerFaults::Driver:
  void Handle(const Event& event) override;
  void SealLogger(const Seal& seal) override { unit_runner_.SealLogger(seal); }

  Instant now() const { return network_.now(); }
  bool IsStuck(Instant next) const;
  void HandleAtController(const Event& event);
  void on_hairpin(const Event::Hairpin& hairpin);
  void Release(const UnitCommand& command);
  void NoteTold(PieceBlock pieces);
  void AddFindings();

  RunOptions options_;
  std::unique_ptr<NetworkFunction> example_;  // runs nothing

  UnitSharing* sharing_;  // null: the units are its own
  std::unique_ptr<BufferPool> own_buffers_;
  BufferPool& buffers_;
  std::unique_ptr<Ingress> own_ingress_;
  Ingress& ingress_;
  Controller controller_;
  VirtualUnits units_;
  uint64_t events_handled_ = 0;
  bool has_started_ = false;  // the first packet has come
  bool is_ending_ = false;    // after the last packet

  Observers observers_;
  Checker checker_;
  Provisioning provisioning_;
  RunResult result_;
  RunDigests digests_;
  PacketExits exits_;
  VirtualNetwork network_;
  ChannelUse channels_;
  ArrivingFlows arriving_;
  ControllerRunner controller_runner_;
  UnitRunner unit_runner_;
  FlowMoves moves_;
  std::unique_ptr<VirtualFaults> faults_;          // null if no unit fails
  std::unique_ptr<ControllerFaults> controllers_;  // null if none fails
  std::optional<NfWatchdog> watchdog_;             // of calls of units' NFs
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_VIRTUAL_DRIVER_H_
