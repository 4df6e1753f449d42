// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_UNIT_RUNNER_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_UNIT_RUNNER_H_

#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/messages/failure_messages.h"
#include "base/messages/messages.h"
#include "base/messages/unit_commands.h"
#include "base/time.h"
#include "controller/core/controller.h"
#include "platform/check/checker.h"
#include "platform/drivers/virtual_network/table_network.h"
#include "platform/drivers/virtual_network/unit_sharing.h"
#include "platform/drivers/virtual_network/virtual_store.h"
#include "platform/drivers/virtual_time/controller_faults.h"
#include "platform/drivers/virtual_time/moved_flow.h"
#include "platform/drivers/virtual_time/virtual_event.h"
#include "platform/drivers/virtual_time/virtual_faults.h"
#include "platform/drivers/virtual_time/virtual_loggers.h"
#include "platform/drivers/virtual_time/virtual_network.h"
#include "platform/drivers/virtual_time/virtual_units.h"
#include "platform/run/observers.h"
#include "platform/run/packet_exits.h"
#include "platform/run/run.h"
#include "runtime/core/service_model.h"
#include "runtime/logger/update_log.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/ring/call_mark.h"
#include "runtime/sdk/nf.h"

namespace snf {

// The units of a run in virtual time with their loggers, their shared tables,
// and the store of StateMode::kExternal. Calls a unit's core
// for each event at the unit, serves its packets one after another, and makes
// events of what the unit commands.
//
//   event ─Deliver─► Unit ─commands─► VirtualNetwork, PacketExits
//            Serve ─► service time ─► EndService: the NF runs
//
// Owner-thread only.
class UnitRunner final : private VirtualLoggers::Host, private LoggedTables {
 public:
  // All references must outlive the object. `sharing` is null if the units are
  // the controller's own.
  UnitRunner(const RunOptions& options, const NetworkFunction& example,
             UnitSharing* sharing, Controller& controller, BufferPool& buffers,
             VirtualUnits& units, VirtualNetwork& network, ChannelUse& channels,
             ArrivingFlows& arriving, Observers& observers, Checker& checker,
             PacketExits& exits, RunResult& result);

  // Says who fails: units and loggers, and the controller, or null.
  void set_faults(VirtualFaults* faults, ControllerFaults* controllers) {
    faults_ = faults;
    controllers_ = controllers;
  }

  // Handles an event at a unit, or between the unit and its logger.
  void Handle(const VirtualEvent& event);
  // The unit's logger seals the unit.
  void SealLogger(const Seal& seal);
  // Serves the packet that UnitSharing::on_next last named for the unit.
  void BeginService(UnitId unit) { BeginService(units_.of(unit)); }
  // The unit drops its part of the flow, which another controller has.
  void Forsake(UnitId unit, FlowId flow);

  // Return when the store and the tables are next due; Instant::max() for
  // never. The others do what is due.
  Instant next_store_time() const {
    return store_.has_value() ? store_->next_time() : Instant::max();
  }
  Instant next_table_time() const { return tables_.next_time(); }
  void RunStore();
  void RunTables();

  // Counts wake-ups of units from now on.
  void BeginEnd() { is_ending_ = true; }
  // Returns how many wake-ups of units came after BeginEnd.
  uint32_t timers_at_end() const { return timers_at_end_; }

  VirtualLoggers& loggers() { return loggers_; }
  TableNetwork& tables() { return tables_; }
  const TableNetwork& tables() const { return tables_; }
  // Returns the mark of the NF's call that is under way.
  const CallMark& call_mark() const { return call_mark_; }
  // Adds what the loggers, and the store, have counted.
  void AddTotals(RunResult& result) const;

 private:
  using Event = VirtualEvent;
  class Outbox;

  // VirtualLoggers::Host:
  void Drained(UnitId unit, const PacketMeta& meta) override;
  void CallUnit(VirtualUnit& shell,
                absl::FunctionRef<void(UnitOut&)> call) override;
  void on_released(VirtualUnit& shell, const PacketMeta& meta) override;
  void on_stopped(VirtualUnit& shell) override;
  void on_updates(UnitId unit, std::span<const std::byte> updates) override;
  void on_grants_logged(UnitId unit, uint64_t number) override {
    if (controllers_ != nullptr)
      controllers_->kept().on_grants_logged(unit, number);
  }
  // LoggedTables:
  UpdateLog* UpdatesOf(UnitId unit) override;
  void on_updates_merged(UnitId unit) override;

  Instant now() const { return network_.now(); }
  bool HandleAtUnit(const Event& event, VirtualUnit& shell);
  bool Deliver(const ControllerCommand& order, VirtualUnit& shell);
  bool Deliver(const UnitCommand& message, uint32_t record, VirtualUnit& shell);
  bool BecomeReady(const ControllerCommand& start, VirtualUnit& shell);
  void RunTimers(VirtualUnit& shell, UnitOut& out);
  void on_done_query(VirtualUnit& shell, DoneQuery query);
  void Serve(VirtualUnit& shell);
  void BeginService(VirtualUnit& shell);
  bool IsWithinHost(UnitId unit, const PacketMeta& meta) const;
  void CountHandOver(const VirtualUnit& shell, FlowId flow);
  void EndService(VirtualUnit& shell);
  UnitCall CallNow() { return {now(), buffers_, call_mark_, unit_out_}; }
  void ExecuteAll(VirtualUnit& shell);
  void Execute(VirtualUnit& shell, const UnitCommand& command);
  void ExecutePacket(UnitId unit, UnitCommand command);
  void on_store_answer(const StoreAnswer& answer);
  void SendStopped(UnitId unit);
  void SendStoppedOfTables();
  void BeginAgain(VirtualUnit& shell);
  void ScheduleTimer(VirtualUnit& shell);

  const RunOptions& options_;
  UnitSharing* const sharing_;
  Controller& controller_;
  BufferPool& buffers_;
  VirtualUnits& units_;
  VirtualNetwork& network_;
  ChannelUse& channels_;
  ArrivingFlows& arriving_;
  Observers& observers_;
  PacketExits& exits_;
  RunResult& result_;
  ServiceModel service_;
  TableNetwork tables_;
  std::optional<VirtualStore> store_;  // of StateMode::kExternal
  VirtualLoggers loggers_;
  VirtualFaults* faults_ = nullptr;          // null if no unit fails
  ControllerFaults* controllers_ = nullptr;  // null if none fails
  CallMark call_mark_;
  UnitOut unit_out_;
  bool is_ending_ = false;  // after the last packet
  uint32_t timers_at_end_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_UNIT_RUNNER_H_
