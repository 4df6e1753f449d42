// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SHELL_UNIT_SHELL_H_
#define SNF_RUNTIME_SHELL_UNIT_SHELL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/check.h"
#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/messages/messages.h"
#include "base/messages/unit_commands.h"
#include "base/time.h"
#include "runtime/core/unit.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/ring/call_mark.h"
#include "runtime/sdk/nf.h"
#include "runtime/shell/state_figures.h"

namespace snf {

// Counts a State that a unit or its logger sends.
inline void CountSent(StateCounters& counters, const State& state) {
  ++(state.pushed ? counters.pushes : counters.answers);
  counters.deltas += state.delta ? 1 : 0;
  counters.bytes += state.bytes;
  if (state.pushed) counters.pushed_bytes += state.bytes;
}

// What a driver brings to a call of a unit: its time, the packets' buffers, the
// mark that its watchdog reads, and room for commands.
struct UnitCall {
  Instant now;
  BufferPool& buffers;
  CallMark& mark;
  UnitOut& out;
};

// Theory of operation. A unit, its NF, and what every driver does with both,
// whatever its clock: which call of the unit a message becomes (Deliver), how
// the next packet comes into service (Begin), what follows any call (GoOn), and
// where the unit's commands go (Send).
//
//   message ─Deliver─► Unit ─commands─► the driver executes ─Send─► its outbox
//
// `execute` executes the commands in call.out, in order, and empties it. An
// outbox has these ways out:
//   SendPull(command)              to command.unit, its logger or the store
//   SendState(command, record)     to command.unit or the store
//   SendToUnit(command)            to command.unit or its logger
//   SendAlias(command, alias)      to the controller, in the unit's name
//   SendToController(command)      likewise
//   Wait()                         a packet waits here, and runs again
//   Stop()                         the unit keeps nothing any more
//
// Worked example: a Pull comes, and the unit has the state. Deliver calls
// Unit::on_pull, which pushes one kSendState; execute gives it to Send, which
// counts an answer and calls SendState with the record.
//
// Owner-thread only. Nothing is allocated.
struct UnitShell {
  Unit unit;
  std::unique_ptr<NetworkFunction> nf;
  bool ready = false;   // is to serve packets
  bool leaves = false;  // is to stop: its controller sends nothing more

  // Executes what a call has commanded, and lets the unit go on.
  template <typename Execute>
  void GoOn(const UnitCall& call, const Execute& execute) {
    if (!call.out.empty()) execute();
    while (unit.has_more()) {
      unit.Resume(call.now, call.out);
      execute();
    }
  }

  // Calls the unit for an order of the controller, but for those that a driver
  // handles by itself: kEnqueue, kStartUnit, kParkUnit, kDrop, kDoneQuery,
  // kSeal and kName. Returns true if the unit may have something to do now;
  // GoOn follows. call.out must be empty.
  template <typename Execute>
  bool Deliver(const UnitCall& call, const ControllerCommand& order,
               const Execute& execute);
  // Calls the unit for a message of another one; a State's record comes beside
  // it. GoOn follows. call.out must be empty.
  void Deliver(const UnitCall& call, const UnitCommand& message,
               std::span<const std::byte> record);

  // Takes the next packet that can run into service. Returns false if none can.
  // What becomes of packets before it may stay in call.out: executing all of it
  // at once is cheaper.
  template <typename Execute>
  bool Begin(const UnitCall& call, const Execute& execute);
  // Runs the NF on the packet in service.
  void Finish(const UnitCall& call) {
    call.mark.Begin({.unit = unit.id(),
                     .meta = &unit.in_service(),
                     .packet = unit.packet_in_service()});
    unit.finish(call.now, {*nf, call.buffers}, call.out);
    call.mark.End();
  }
  // The logger has released the entry of that packet.
  void on_released(const UnitCall& call, const PacketMeta& meta) {
    Mark(call, [&] {
      unit.on_released(call.now, meta, {*nf, call.buffers}, call.out);
    });
  }

  // Sends a command that says nothing of packets by the outbox, and counts how
  // state moves.
  template <typename Outbox>
  void Send(const UnitCommand& command, StateFigures& figures,
            Outbox&& outbox) const;

 private:
  template <typename CallUnit>
  void Mark(const UnitCall& call, const CallUnit& call_unit) {
    call.mark.Begin({.unit = unit.id()});
    call_unit();
    call.mark.End();
  }
};

template <typename Execute>
bool UnitShell::Deliver(const UnitCall& call, const ControllerCommand& order,
                        const Execute& execute) {
  using Kind = ControllerCommand::Kind;
  const Instant now = call.now;
  UnitOut& out = call.out;
  switch (order.kind) {
    case Kind::kReplicas:
      unit.on_replicas(order.replicas);
      return false;
    case Kind::kEndFlow:
      Mark(call, [&] {
        unit.on_end_flow(now, order.end, {*nf, call.buffers}, out);
      });
      return true;
    case Kind::kAliasAck:
      Mark(call, [&] {
        unit.on_alias_ack(now, order.alias_ack, {*nf, call.buffers}, out);
      });
      return true;
    case Kind::kPieces:
      unit.on_pieces(now, order.pieces, out);
      return true;
    case Kind::kReclaim:
      unit.on_reclaim(order.pieces.pool, out);
      return true;
    case Kind::kRedirect:
      unit.on_redirect(now, order.redirect, out);
      return true;
    case Kind::kForget:
      unit.on_takeover(now, {.flow = order.end.flow, .clock = order.end.last},
                       out);
      return true;
    case Kind::kForsake:
      while (unit.on_forsake(now, order.end.flow, out)) GoOn(call, execute);
      return true;
    case Kind::kStopUnit:
      unit.on_stop(out);
      leaves = true;
      return true;
    default:
      SNF_CHECK(false);
  }
  return false;
}

inline void UnitShell::Deliver(const UnitCall& call, const UnitCommand& message,
                               std::span<const std::byte> record) {
  using Kind = UnitCommand::Kind;
  switch (message.kind) {
    case Kind::kSendPull:
      unit.on_pull(call.now, message.pull, call.out);
      break;
    case Kind::kSendState:
      unit.on_state(call.now, message.state, record, call.out);
      break;
    case Kind::kSendTakeover:
      unit.on_takeover(call.now, message.takeover, call.out);
      break;
    case Kind::kSendTakeoverAck:
      unit.on_takeover_ack(call.now, message.takeover_ack, call.out);
      break;
    default:
      SNF_CHECK(false);
  }
}

template <typename Execute>
bool UnitShell::Begin(const UnitCall& call, const Execute& execute) {
  const size_t before = call.out.commands().size();
  bool serves = unit.begin(call.now, call.out);
  if (call.out.commands().size() != before) execute();
  while (unit.has_more()) {
    if (!call.out.empty()) execute();
    serves = unit.Resume(call.now, call.out);
    execute();
  }
  return serves;
}

template <typename Outbox>
void UnitShell::Send(const UnitCommand& command, StateFigures& figures,
                     Outbox&& outbox) const {
  using Kind = UnitCommand::Kind;
  switch (command.kind) {
    case Kind::kSendPull:
      ++figures.pulls;
      outbox.SendPull(command);
      break;
    case Kind::kSendState: {
      const State& state = command.state;
      // A store forgets a flow without a clock.
      const bool forgets = state.applied == Clock{};
      if (!forgets) CountSent(figures, state);
      outbox.SendState(command, forgets ? std::span<const std::byte>{}
                                        : unit.bytes_of(state));
      break;
    }
    case Kind::kSendTakeover:
    case Kind::kSendTakeoverAck:
      outbox.SendToUnit(command);
      break;
    case Kind::kSendAlias:
      outbox.SendAlias(command, unit.alias(command.meta.flow));
      break;
    case Kind::kWait:
      outbox.Wait();
      break;
    case Kind::kStopped:
      outbox.Stop();
      break;
    default:
      outbox.SendToController(command);
      break;
  }
}

}  // namespace snf

#endif  // SNF_RUNTIME_SHELL_UNIT_SHELL_H_
