// SPDX-License-Identifier: Apache-2.0
//
// Bodies of the functions that know their host's type; controller_loop.h
// includes it.
#ifndef SNF_CONTROLLER_LIVE_CONTROLLER_LOOP_INL_H_
#define SNF_CONTROLLER_LIVE_CONTROLLER_LOOP_INL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/check.h"
#include "controller/live/controller_loop.h"
#include "controller/live/loop_recovery_inl.h"
#include "controller/live/unled_loop_inl.h"

namespace snf {

// Makes a call of the controller, and sends what it commands.
template <typename MakeCall, ControllerHost Host>
void ControllerLoop::Call(const MakeCall& call, Host& host) {
  out_.clear();
  call();
  ExecuteAll(host);
  FlushAll();
}

template <ControllerHost Host>
bool ControllerLoop::Lease(UnitId unit, uint32_t share, Host& host) {
  bool is_leased = false;
  Call([&] { is_leased = controller_.on_lease(now_, unit, share, out_); },
       host);
  return is_leased;
}

template <ControllerHost Host>
bool ControllerLoop::Revoke(UnitId unit, bool at_once, Host& host) {
  bool is_revoked = false;
  Call([&] { is_revoked = controller_.on_revoke(now_, unit, at_once, out_); },
       host);
  return is_revoked;
}

template <ControllerHost Host>
bool ControllerLoop::DeleteFlow(FlowId flow, Deletion why, Host& host) {
  if (!is_led()) return false;
  bool is_deleted = false;
  Call([&] { is_deleted = controller_.DeleteFlow(now_, flow, out_, why); },
       host);
  return is_deleted;
}

template <ControllerHost Host>
bool ControllerLoop::TakeFlow(const HandedFlow& flow, const State& state,
                              std::span<const std::byte> record, Host& host) {
  if (!is_led()) return false;
  bool is_taken = false;
  const auto take = [&] {
    const auto id = FlowHandOver::Take(controller_, now_, flow, out_);
    is_taken = id.has_value();
    if (!is_taken) return;
    const UnitId unit = controller_.flows().cold(slot_of(*id)).owner;
    State own = state;
    own.flow = *id;
    own.pushed = true;  // no unit has asked for it
    host.on_flow_taken(*id, flow.last);
    links_.to(unit).Send(ControllerCommand::Take(unit, own), record);
  };
  Call(take, host);
  return is_taken;
}

template <ControllerHost Host>
void ControllerLoop::AddPieces(const PieceBlock& pieces, Host& host) {
  Call([&] { controller_.AddPieces(now_, pieces, false, out_); }, host);
}

template <ControllerHost Host>
void ControllerLoop::HandleBatch(Host& host) {
  if (!is_led()) [[unlikely]]
    return unled_->HoldBatch(host);
  for (size_t done = 0; done < batch_.size();) {
    out_.clear();
    done += controller_.on_packets(now_, std::span(batch_).subspan(done), out_);
    ExecuteAll(host);
  }
  batch_.clear();
  FlushAll();
}

template <ControllerHost Host>
bool ControllerLoop::Turn(Host& host) {
  if (!has_controller()) [[unlikely]]
    return unled_->Turn(host);
  std::optional<StateRelay>& relay = links_.relay();
  const bool has_relayed = relay.has_value() && relay->Turn();
  links_.ReceiveAll();
  links_.CloseBroken();
  // The clock is read after the messages were taken: no packet is released
  // before the time at which its unit ran it.
  ReadClock();
  size_t messages = 0;
  for (size_t i = 0; i < links_.size(); ++i) {
    messages += HandleLink(i, /*of_logger=*/false, host);
  }
  for (size_t i = 0; i < links_.loggers().size(); ++i) {
    messages += HandleLink(i, /*of_logger=*/true, host);
  }
  ReportDrained(host);
  const bool is_due = now_ >= NextTimer();
  if (is_due) {
    commands_.FinishStarts(now_);
    out_.clear();
    controller_.on_timers(now_, out_);
    ExecuteAll(host);
    tables_.RunTimers(now_, links_);
  }
  if (!is_led()) [[unlikely]]
    unled_->Mend(host);
  // Packets that the host released may have come back.
  if (!batch_.empty() && messages > 0) HandleBatch(host);
  links_.ReleaseHandled(FlushAll());
  return messages > 0 || is_due || has_relayed;
}

template <ControllerHost Host>
size_t ControllerLoop::HandleLink(size_t loop, bool of_logger, Host& host) {
  return links_.in(loop, of_logger)
      .Handle(links_.words(loop, of_logger),
              [&](const Cell& cell, std::span<const std::byte> payload) {
                const auto& command = cell.As<UnitCommand>();
                if (command.kind <= UnitCommand::Kind::kDropPayload)
                    [[likely]] {
                  if (links_.knows_packets() && !links_.Take(loop, command)) {
                    return Refuse(command.unit, "end of a packet", "packet",
                                  value(command.packet));
                  }
                  host.on_packet(now_, command);
                } else {
                  ReportDrained(host);
                  words_.Take(now_, loop, of_logger, cell, payload, host);
                  ExecuteAll(host);
                }
              });
}

template <ControllerHost Host>
void ControllerLoop::ExecuteAll(Host& host) {
  for (const ControllerCommand& command : out_.commands()) {
    if (command.kind == ControllerCommand::Kind::kEnqueue) [[likely]] {
      slots_.Enter(command.meta);
      if (links_.knows_packets()) {
        links_.Give(command);
        if (recovery_.has_value()) recovery_->OnEnd(command.packet);
      }
      host.on_enqueue(command.meta);
      links_.to(command.unit).Send(command);
    } else {
      commands_.Execute(now_, command, host);
    }
  }
}

template <ControllerHost Host>
void ControllerLoop::EndLoop(size_t loop, Host& host) {
  SNF_CHECK(recovery_.has_value());
  if (is_led()) [[likely]] {
    recovery_->End(loop, host);
  } else {
    unled_->EndLoop(loop, host);
  }
}

template <ControllerHost Host>
void ControllerLoop::Fail(Rng& rng, const Prepare& prepare, Host& host) {
  SNF_CHECK(unled_.has_value() && is_led());
  unled_->set_prepare(prepare);
  unled_->Fail(rng, host);
}

inline void ControllerLoop::FreeSlot(const UnitCommand& command,
                                     ControllerEvents& events) {
  const PacketMeta& meta = command.meta;
  slots_.Leave(meta);
  if (recovery_.has_value() && recovery_->IsOld(command)) return;
  if (!has_controller()) [[unlikely]]
    return;  // reports tell which are in use
  if (slots_.has_drained_other(command.unit)) ReportDrained(events);
  slots_.Drain(command.unit, controller_.CostOf(meta.original_length),
               meta.has_payload());
}

}  // namespace snf

#endif  // SNF_CONTROLLER_LIVE_CONTROLLER_LOOP_INL_H_
