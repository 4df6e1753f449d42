// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_TEST_DRIVER_H_
#define SNF_CONTROLLER_CORE_TEST_DRIVER_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/packet/ip_address.h"
#include "controller/core/controller.h"
#include "gtest/gtest.h"

namespace snf {

using Commands = std::vector<ControllerCommand>;
using Kind = ControllerCommand::Kind;

inline FlowKey Flow(uint32_t number) {
  FlowKey key;
  key.source = IpAddress::FromIpv4(be32(0x0a00'0000 + number));
  key.destination = IpAddress::FromIpv4(be32(0xc000'0209));
  key.source_port = be16(5000);
  key.destination_port = be16(53);
  key.form = FlowKeyForm::kIpv4;
  return key;
}

// Returns an alias: a port of one external address.
inline FlowKey External(uint16_t port) {
  FlowKey key;
  key.source = IpAddress::FromIpv4(be32(0xc633'6401));
  key.source_port = be16(port);
  key.form = FlowKeyForm::kIpv4Endpoint;
  return key;
}

inline Commands Only(Kind kind, const Commands& commands) {
  Commands found;
  for (const ControllerCommand& command : commands) {
    if (command.kind == kind) found.push_back(command);
  }
  return found;
}

// Places each flowlet at the unit that the test sets, and keeps the last
// request.
class DirectedPolicy final : public PlacementPolicy {
 public:
  std::string_view name() const override { return "directed"; }
  std::string_view help() const override { return "for tests"; }
  bool per_packet() const override { return each_packet; }
  Placement Place(Instant now, const PlacementRequest& request, UnitPool& pool,
                  ControllerOut& out) const override {
    last = request;
    if (!pool.Use(now, unit, out)) return {};
    return {.unit = unit};
  }

  UnitId unit{};
  bool each_packet = false;
  mutable PlacementRequest last;
};

// Plays driver and units for a controller, and expects of every command what
// must always hold: that the unit is in a state that allows it, that its
// channel has room, that channel numbers and clocks count 1, 2, 3 …, that
// each start has a higher incarnation, that
// replicas are named right before the packet that they belong to, that null
// packets move flows from stopping units to others, and that a flow ends at its
// last owner with its last clock. For tests only.
class TestDriver {
 public:
  explicit TestDriver(
      const ControllerOptions& options,
      const PlacementPolicy& policy = *FindPlacementPolicy("snf"));

  Controller& controller() { return controller_; }
  const Controller& controller() const { return controller_; }
  const UnitPool& units() const { return controller_.units(); }
  const ControllerCounters& counters() const { return controller_.counters(); }

  // Hands over packets, `burst` at a time, and continues if `out` was full.
  Commands Send(Instant now, std::span<const Arrival> arrivals,
                size_t burst = 32);
  // Sends one packet; `now` is its arrival.
  Commands Packet(Instant at, uint32_t flow, uint32_t length = 1000);

  // Runs any other event, as `event(controller, out)`.
  template <typename Event>
  Commands On(Event event) {
    event(controller_, out_);
    Commands all;
    Execute(all);
    return all;
  }

  // Calls on_timers once at `now`, however late that is.
  Commands Timers(Instant now);
  // Calls on_timers at each wake-up up to `until`.
  Commands RunTimers(Instant until);

  // With ControllerOptions::leased.
  Commands Lease(Instant now, UnitId unit, uint32_t share);
  Commands Revoke(Instant now, UnitId unit, bool at_once);
  bool revoked(UnitId unit) const { return units_[value(unit)].revoked; }

  void Ready(Instant now, UnitId unit);
  // Stops the unit. All its flows must be owned by others.
  void Stopped(UnitId unit);
  // Lets the first `packets` of the unit's queue leave it. Returns how many
  // left.
  uint32_t Drain(Instant now, UnitId unit, size_t packets = SIZE_MAX);
  void DrainAll(Instant now) {
    for (uint32_t i = 0; i < units_.size(); ++i) Drain(now, Id(i));
  }
  void ReadyAll(Instant now) {
    for (uint32_t i = 0; i < units_.size(); ++i) {
      if (units_[i].state == UnitState::kStarting) Ready(now, Id(i));
    }
  }
  // The takeovers by packets that have drained. DeliverTakeover tells the
  // controller the i-th.
  const std::vector<Takeover>& takeovers() const { return takeovers_; }
  void DeliverTakeover(size_t i);

  size_t queued(UnitId unit) const { return units_[value(unit)].queue.size(); }
  UnitState state(UnitId unit) const { return units_[value(unit)].state; }
  uint32_t owned(UnitId unit) const { return units_[value(unit)].owned; }
  static UnitId Id(uint32_t i) { return UnitId{static_cast<uint16_t>(i)}; }

  // Expect that the controller's view and the model agree.
  void ExpectStatesAgree() const;
  void ExpectOwnersAgree() const;

  // Totals over the run.
  uint64_t enqueued = 0, null_packets = 0, dropped = 0, ended = 0, cold = 0,
           warm = 0, parked = 0, stopped = 0, evacuated = 0, moved = 0,
           moved_off_leaving = 0, replica_sets = 0, resent_first = 0,
           timer_calls = 0, timer_packets = 0, full_outs = 0;
  size_t most_queued = 0;

  // Every n-th packet of a burst is announced with Expect; 0: none.
  size_t expect_each = 0;

 private:
  struct UnitModel {
    UnitState state = UnitState::kStopped;
    std::deque<PacketMeta> queue;
    uint64_t channel_number = 0;
    uint32_t owned = 0;
    bool revoked = false;
  };
  struct FlowModel {
    uint64_t clock = 0;
    uint32_t flowlet = 0;
    UnitId owner = kNoUnit;
    bool moved_by_null = false;  // so the next packet must be a first one
    bool has_replicas = false;
    std::vector<OwnerHistory::Run> owners;
  };
  UnitModel& Model(UnitId unit) { return units_.at(value(unit)); }

  void on_start_unit(const ControllerCommand& command);
  size_t Execute(Commands& all);
  void Execute(const ControllerCommand& command);
  void on_replicas(const ControllerCommand& command);
  void on_enqueue(const ControllerCommand& command);
  void on_stop_unit(UnitId unit);
  void on_end_flow(const ControllerCommand& command);
  void CheckPacket(UnitId unit, const PacketMeta& meta, FlowModel& flow);
  void CheckNullPacket(UnitId unit, const PacketMeta& meta, FlowModel& flow);
  void SetOwner(FlowModel& flow, UnitId owner);

  ControllerOptions options_;
  Controller controller_;
  ControllerOut out_;
  Instant now_ = Instant::min();
  uint32_t next_packet_ = 0;
  uint32_t incarnation_ = 0;  // of the unit that started last
  std::vector<Arrival> batch_;
  std::vector<UnitModel> units_;
  std::map<uint64_t, FlowModel> flows_;
  std::optional<ControllerCommand> replicas_;  // the command before
  std::vector<Takeover> takeovers_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_TEST_DRIVER_H_
