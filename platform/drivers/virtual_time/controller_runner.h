// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_CONTROLLER_RUNNER_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_CONTROLLER_RUNNER_H_

#include <set>

#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/messages/messages.h"
#include "base/messages/unit_commands.h"
#include "base/packet/flow_key.h"
#include "base/rng.h"
#include "base/time.h"
#include "controller/core/controller.h"
#include "controller/core/placement.h"
#include "platform/drivers/virtual_network/table_network.h"
#include "platform/drivers/virtual_network/unit_sharing.h"
#include "platform/drivers/virtual_time/controller_faults.h"
#include "platform/drivers/virtual_time/moved_flow.h"
#include "platform/drivers/virtual_time/virtual_event.h"
#include "platform/drivers/virtual_time/virtual_faults.h"
#include "platform/drivers/virtual_time/virtual_network.h"
#include "platform/drivers/virtual_time/virtual_units.h"
#include "platform/run/ingress.h"
#include "platform/run/observers.h"
#include "platform/run/packet_exits.h"
#include "platform/run/run.h"
#include "platform/run/run_digests.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/sdk/nf.h"

namespace snf {

// The controller of a run in virtual time, and what is on its way there and
// back: calls the core for packets and for words of units, and makes events of
// what the core commands.
//
//   Arrive, Deliver, on_timers ─► Controller ─commands─► VirtualNetwork
//
// Of the failure of a controller it has what the network and the outside know:
// the blank successor, orders that were never sent, and aliases that are lost.
//
// Owner-thread only.
class ControllerRunner final : public ControllerFaults::Host {
 public:
  // All references must outlive the object. `sharing` is null if the units are
  // the controller's own.
  ControllerRunner(const RunOptions& options, const PlacementPolicy& policy,
                   const NetworkFunction& example, UnitSharing* sharing,
                   Controller& controller, BufferPool& buffers,
                   Ingress& ingress, VirtualUnits& units,
                   VirtualNetwork& network, ChannelUse& channels,
                   ArrivingFlows& arriving, Observers& observers,
                   RunDigests& digests, PacketExits& exits,
                   AliasFigures& figures);

  // Says who fails: units and loggers, and the controller, or null. The shared
  // tables lose what a unit that fails had on its way to them.
  void set_faults(VirtualFaults* faults, ControllerFaults* controllers,
                  TableNetwork* tables) {
    faults_ = faults;
    controllers_ = controllers;
    tables_ = tables;
  }

  // Makes a call of the core, and executes what that commands.
  void Call(absl::FunctionRef<void(ControllerOut&)> call);
  // A packet reaches the controller.
  void Arrive(const FlowKey& key, bool by_alias, PacketHandle packet) override;
  // Delivers a command of a unit, or of a logger.
  void Deliver(const UnitCommand& command, bool of_logger);
  void on_timers();
  // The controller learns that the unit's process is gone.
  void on_failure(UnitId unit);

  // Stop timer packets of the flow, and let them go on.
  void HoldTimers(FlowId flow) { timers_held_.insert(flow); }
  void ReleaseTimers(FlowId flow) { timers_held_.erase(flow); }

  // The controller gets its pools of pieces.
  void AddPools();

 private:
  // ControllerFaults::Host:
  void Succeed(uint32_t epoch) override;
  void on_rebuilt() override;
  void ExecuteOf(const ControllerOut& out) override;
  void Unsent(const VirtualEvent& event) override;
  void NoteFailure(UnitId unit) override;
  void on_found(FlowId flow, Clock newest, bool is_ending) override;
  void on_alias_withdrawn(FlowId flow, Clock clock) override;

  Instant now() const { return network_.now(); }
  void on_alias();
  void on_alias_lost(FlowId flow, Clock clock);
  void ExecuteAll() { ExecuteOf(out_); }
  void Execute(const ControllerCommand& command);
  void Enqueue(const ControllerCommand& command);
  void Start(const ControllerCommand& command);

  const RunOptions& options_;
  const PlacementPolicy& policy_;
  const NetworkFunction& example_;
  UnitSharing* const sharing_;
  Controller& controller_;
  BufferPool& buffers_;
  Ingress& ingress_;
  VirtualUnits& units_;
  VirtualNetwork& network_;
  ChannelUse& channels_;
  ArrivingFlows& arriving_;
  Observers& observers_;
  RunDigests& digests_;
  PacketExits& exits_;
  AliasFigures& figures_;
  VirtualFaults* faults_ = nullptr;          // null if no unit fails
  ControllerFaults* controllers_ = nullptr;  // null if none fails
  TableNetwork* tables_ = nullptr;
  Rng start_rng_;  // says which starts of units fail
  std::set<FlowId> timers_held_;
  ControllerOut out_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_CONTROLLER_RUNNER_H_
