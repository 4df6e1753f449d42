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
#include <utility>
#include <vector>

#include "base/check.h"
#include "controller/live/controller_loop.h"

namespace snf {

// --- ControllerLoop ---

template <ControllerHost Host>
bool ControllerLoop::Lease(UnitId unit, uint32_t share, Host& host) {
  out_.clear();
  const bool is_leased = controller_.on_lease(now_, unit, share, out_);
  ExecuteAll(host);
  FlushAll();
  return is_leased;
}

template <ControllerHost Host>
bool ControllerLoop::Revoke(UnitId unit, bool at_once, Host& host) {
  out_.clear();
  const bool is_revoked = controller_.on_revoke(now_, unit, at_once, out_);
  ExecuteAll(host);
  FlushAll();
  return is_revoked;
}

template <ControllerHost Host>
bool ControllerLoop::DeleteFlow(FlowId flow, Host& host) {
  if (!is_led()) return false;
  out_.clear();
  const bool is_deleted = controller_.DeleteFlow(now_, flow, out_);
  ExecuteAll(host);
  FlushAll();
  return is_deleted;
}

template <ControllerHost Host>
void ControllerLoop::AddPieces(const PieceBlock& pieces, Host& host) {
  out_.clear();
  controller_.AddPieces(now_, pieces, false, out_);
  ExecuteAll(host);
  FlushAll();
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
    starter_.TakeReady(
        now_, [this](const ControllerCommand& start) { FinishStart(start); });
    out_.clear();
    controller_.on_timers(now_, out_);
    ExecuteAll(host);
    RunTableTimers();
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
                  HandleOther(loop, of_logger, cell, payload, host);
                  ExecuteAll(host);
                }
              });
}

template <typename Handle>
void ControllerLoop::HandleAllOfDead(size_t loop, const Handle& handle) {
  LinkIn& in = links_.in(loop, /*of_logger=*/false);
  // No more than a ring holds: another process that has mapped it may lie.
  const uint64_t most = in.received() + in.capacity();
  do {
    links_.Receive(in);
  } while ((handle() > 0 || in.has_items()) && in.received() < most);
}

template <ControllerHost Host>
void ControllerLoop::ExecuteAll(Host& host) {
  for (const ControllerCommand& command : out_.commands()) {
    if (command.kind == ControllerCommand::Kind::kEnqueue) [[likely]] {
      EnterChannel(command.meta);
      if (links_.knows_packets()) {
        links_.Give(command);
        if (recovery_.has_value()) recovery_->OnEnd(command.packet);
      }
      host.on_enqueue(command.meta);
      Send(command);
    } else {
      Execute(command, host);
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
  LeaveChannel(meta);
  if (recovery_.has_value() && recovery_->IsOld(command)) return;
  if (!has_controller()) [[unlikely]]
    return;  // reports tell which are in use
  if (drained_.unit != command.unit) ReportDrained(events);
  drained_.unit = command.unit;
  ++drained_.packets;
  const uint32_t cost = controller_.CostOf(meta.original_length);
  drained_.bytes += cost;
  if (!meta.has_payload()) return;
  ++with_payload_.packets;
  with_payload_.bytes += cost;
}

// --- LoopRecovery ---

template <ControllerHost Host>
void LoopRecovery::End(size_t loop, Host& host) {
  loop_.HandleAllOfDead(
      loop, [&] { return loop_.HandleLink(loop, /*of_logger=*/false, host); });
  loop_.ReportDrained(host);
  loop_.links_.CloseBroken();  // what follows forgets what was wrong
  EndChannels(loop);
  // When a unit fails, other units of the process may get packets, or be
  // started: these fail as well, and the next process does not get what was
  // sent to them. But if no other process has units, a unit that is started
  // waits for the next process.
  const bool keeps_started = !HasOther(loop);
  std::vector<ControllerCommand> kept;
  for (bool has_failed = true; has_failed;) {
    has_failed = false;
    for (uint32_t unit = static_cast<uint32_t>(loop);
         FailNext(loop, unit, host);) {
      if (keeps_started) TakeStarted(loop, kept);
      loop_.ExecuteAll(host);
      has_failed = true;
    }
  }
  loop_.links_.loops()[loop].out.SkipAll();
  for (const ControllerCommand& command : kept) {
    loop_.out_.clear();
    loop_.out_.push(command);
    loop_.ExecuteAll(host);
  }
  loop_.FlushAll();
}

template <typename IsLost, typename Lost>
void LoopRecovery::TakeLost(const IsLost& is_lost, const AliasTable& aliases,
                            ControllerEvents& events, const Lost& lost) {
  loop_.links_.packets().TakeOut(
      is_lost, [&](const PacketsUnderWay::Sent& sent) {
        loop_.LeaveChannel(sent.meta);
        if (aliases.clock(slot_of(sent.meta.flow)) == sent.meta.clock) {
          events.on_alias_over(sent.meta.flow, sent.meta.clock);
        }
        if (sent.packet == kNoPacket) ++null_packets_lost_;
        lost(sent);
      });
}

// --- UnledLoop ---

template <ControllerHost Host>
void UnledLoop::Fail(Rng& rng, Host& host) {
  loop_.ReportDrained(host);
  std::vector<Arrival>& batch = loop_.batch_;
  const size_t handled = rng.Below(batch.size() + 1);
  const std::span<const Arrival> first = std::span(batch).first(handled);
  for (size_t done = 0; done < handled;) {
    loop_.out_.clear();
    done += loop_.controller_.on_packets(loop_.now_, first.subspan(done),
                                         loop_.out_);
    loop_.ExecuteAll(host);
  }
  for (size_t i = handled; i < batch.size(); ++i) {
    LosePacket(batch[i].packet, host);
  }
  batch.clear();
  FailController();
  for (size_t i = 0; i < returns_.size(); ++i) CutLink(i, &rng, host);
  AbandonRecovery(host);
  MakeNext();
}

template <ControllerHost Host>
bool UnledLoop::Turn(Host& host) {
  const size_t loops = returns_.size();
  size_t messages =
      loop_.links_.relay().has_value() && loop_.links_.relay()->Turn() ? 1 : 0;
  const auto for_each_awaited = [&](const auto& visit) {
    for (size_t i = 0; i < loops; ++i) {
      for (const bool of_logger : {false, true}) {
        if (reports_.awaits(i, of_logger)) visit(i, of_logger);
      }
    }
  };
  for (uint32_t burst = 0; burst < kReportBursts; ++burst) {
    const size_t before = messages;
    for_each_awaited([&](size_t loop, bool of_logger) {
      loop_.links_.Receive(loop_.links_.in(loop, of_logger));
    });
    loop_.links_.CloseBroken();
    loop_.ReadClock();
    for_each_awaited([&](size_t loop, bool of_logger) {
      messages += HandleLink(loop, of_logger, host);
    });
    loop_.links_.FlushToLoggers();
    loop_.links_.ReleaseHandled(true);
    if (messages == before) break;
  }
  HoldBatch(host);
  if (!CanBegin()) return messages > 0;
  BeginSuccessor(host);
  for (const UnitCommand& word : reports_.TakeKept()) {
    loop_.HandleTell(word, host);
    loop_.ExecuteAll(host);
  }
  Mend(host);
  return true;
}

template <ControllerHost Host>
size_t UnledLoop::HandleLink(size_t loop, bool of_logger, Host& host) {
  return loop_.links_.in(loop, of_logger)
      .Handle(loop_.links_.words(loop, of_logger),
              [&](const Cell& cell, std::span<const std::byte> payload) {
                const auto& command = cell.As<UnitCommand>();
                if (command.kind > UnitCommand::Kind::kDropPayload) {
                  HandleWord(loop, of_logger, cell, payload);
                } else if (is_heir()) {
                  LoseWord(loop, command);
                } else if (loop_.links_.knows_packets() &&
                           !loop_.links_.Take(loop, command)) {
                  loop_.Refuse(command.unit, "end of a packet", "packet",
                               value(command.packet));
                } else {
                  host.on_packet(loop_.now_, command);
                }
              });
}

template <ControllerHost Host>
void UnledLoop::Mend(Host& host) {
  loop_.out_.clear();
  const bool is_done =
      succession_.Mend(loop_.controller_, loop_.now_, loop_.out_);
  loop_.ExecuteAll(host);
  loop_.FlushAll();
  std::vector<Arrival>& batch = loop_.batch_;
  const uint64_t in_units = loop_.in_channels_;
  const bool is_crowded =
      in_units > 0 && in_units + waiting() + batch.size() > room_;
  if (!is_done || is_crowded) return;
  const std::vector<Arrival> later = std::exchange(batch, {});
  batch = succession_.Finish();
  batch.insert(batch.end(), later.begin(), later.end());
  loop_.HandleBatch(host);
}

template <ControllerHost Host>
void UnledLoop::EndLoop(size_t loop, Host& host) {
  const Phase phase = succession_.phase();
  if (phase == Phase::kMending) FailAgain(host);
  if (phase == Phase::kGathering) {
    succession_.Restart();
    reports_.Restart();
  }
  loop_.links_.Resume();
  loop_.HandleAllOfDead(
      loop, [&] { return HandleLink(loop, /*of_logger=*/false, host); });
  loop_.links_.CloseBroken();
  EndUnits(loop, host);
  if (phase != Phase::kDead) Succeed();
}

}  // namespace snf

#endif  // SNF_CONTROLLER_LIVE_CONTROLLER_LOOP_INL_H_
