// SPDX-License-Identifier: Apache-2.0
#include "controller/live/controller_loop.h"

#include <thread>
#include <utility>

#include "base/check.h"
#include "runtime/wire/link_payload.h"

namespace snf {

ControllerLoop::ControllerLoop(const ControllerLoopOptions& options,
                               const PlacementPolicy& policy, TableHomes tables,
                               const RealClock& clock, ControllerLinks links)
    : clock_(clock),
      options_(options.controller),
      policy_(&policy),
      cold_start_delay_(options.cold_start_delay),
      warm_start_delay_(options.warm_start_delay),
      shares_thread_(options.shares_thread),
      is_leased_(options.controller.leased),
      shares_units_(options.shares_units),
      leased_up_(options.controller.max_units),
      controller_(options.controller, policy),
      tables_(std::move(tables)),
      links_(std::move(links)) {
  SNF_CHECK(!links_.loops.empty());
  const auto loops = static_cast<uint32_t>(links_.loops.size());
  using Sender = WordsToController::Sender;
  const auto add_words = [&](std::vector<WordsToController>& words,
                             uint32_t loop, Sender sender) {
    words.emplace_back(
        UnitsOfLoop(loop, loops, options.controller.max_units),
        WordsToController::Limits{.max_flows = options.controller.max_flows,
                                  .nf_reasons = options.nf_reasons,
                                  .pools = options.pools,
                                  .sender = sender},
        *links_.buffers, tables_, *links_.faults);
  };
  const bool has_loggers = !links_.loggers.empty();
  SNF_CHECK(!has_loggers || links_.loggers.size() == loops);
  for (uint32_t loop = 0; loop < loops; ++loop) {
    add_words(words_, loop,
              has_loggers ? Sender::kUnitsWithLoggers : Sender::kUnits);
    if (has_loggers) add_words(logger_words_, loop, Sender::kLoggers);
  }
  for (uint32_t unit = 0; unit < options.controller.max_units; ++unit) {
    link_to_.push_back(&links_.loops[unit % links_.loops.size()].out);
  }
  if (options.counts_flows) {
    under_way_ =
        LazyArray<uint64_t>(options.controller.max_flows, Pages::kGrowing);
  }
  bells_ = links_.other_bells;
  bells_.push_back(links_.bell);
  if (!links_.relayed.empty()) {
    relay_.emplace(std::move(links_.relayed), options.controller.max_units,
                   links_.record_bytes, *links_.faults);
    relay_->set_may_pull([this](const Pull& pull) { return MayPull(pull); });
  }
  SNF_CHECK(links_.copies.empty() || links_.copies.size() == loops);
  if (options.recovers || !links_.copies.empty()) {
    packets_.emplace(*links_.buffers);
  }
  if (options.recovers) {
    SNF_CHECK(has_loggers);
    recovery_.emplace(Recovery{
        .loops = std::vector<Recovery::Loop>(loops),
        .old_numbers = std::vector<uint64_t>(options.controller.max_units)});
  }
  if (options.fails) {
    SNF_CHECK(has_loggers);
    SNF_CHECK(links_.controllers != nullptr);
    succession_.emplace(options.controller, loops);
    keeps_words_ = !links_.copies.empty();
    SNF_CHECK(keeps_words_ || !options.inherits);
    if (options.inherits) Inherit(policy);
  }
  starting_.reserve(options.controller.max_units);
  batch_.reserve(2 * kBatch);
}

bool ControllerLoop::FlushAll() {
  bool is_all = true;
  for (ControllerLinks::UnitLoopEnds& loop : links_.loops) {
    is_all &= succession_.has_value()
                  ? loop.out.FlushWhole(PayloadFromController)
                  : loop.out.Flush();
  }
  if (is_all && succession_.has_value()) succession_->on_flushed();
  if (!recovery_.has_value()) return is_all;
  for (ControllerLinks::LoggerLoopEnd& loop : links_.loggers) {
    is_all &= loop.out->Flush();
  }
  return is_all;
}

void ControllerLoop::ReceiveAll() {
  for (ControllerLinks::UnitLoopEnds& loop : links_.loops) Receive(loop.in);
  for (ControllerLinks::LoggerLoopEnd& loop : links_.loggers) Receive(loop.in);
  if (!keeps_words_) return;
  for (const ControllerLinks::LoggerLoopEnd& loop : links_.loggers) {
    loop.note->taken.store(loop.in.taken(), std::memory_order_release);
  }
}

// What was said stays in its ring until what it led to is sent. But a unit
// whose ring gets full may take nothing itself before there is room.
void ControllerLoop::ReleaseHandled(bool is_flushed) {
  const auto release = [is_flushed](LinkIn& in) {
    if (is_flushed || in.is_half_full()) in.Release();
  };
  for (ControllerLinks::UnitLoopEnds& loop : links_.loops) release(loop.in);
  for (ControllerLinks::LoggerLoopEnd& loop : links_.loggers) release(loop.in);
}

void ControllerLoop::IdleWait(Nanos most) {
  if (!is_led()) {
    std::this_thread::yield();
    return;
  }
  const auto has_items = [this] {
    const auto has = [](auto& loop) { return loop.in.has_items(); };
    return std::ranges::any_of(links_.loops, has) ||
           std::ranges::any_of(links_.loggers, has) ||
           (relay_.has_value() && relay_->has_items());
  };
  // A sleep takes longer than this.
  constexpr Nanos kShort = Microseconds(100);
  // Units of the same thread are not heard of until they get a turn.
  const Nanos left =
      std::min(most, (shares_thread_ ? NextDue() : NextTimer()) - now_);
  if (left < kShort) {
    if (!shares_thread_) std::this_thread::yield();
    return;
  }
  Doorbell::WaitAtAll(bells_, has_items, {left.ns - kShort.ns / 2},
                      RealClock::Monotonic(),
                      shares_thread_ ? 0 : Doorbell::kSpins);
}

Instant ControllerLoop::NextDue() const {
  Instant due = NextTimer();
  for (const ControllerLinks::UnitLoopEnds& loop : links_.loops) {
    due = std::min(due, Instant{loop.progress->next_due.load()});
  }
  return due;
}

// Messages received are counted first: see LoopProgress.
bool ControllerLoop::IsQuiet() const {
  if (!is_led()) return false;
  uint64_t received = 0;
  uint64_t sent = 0;
  for (const ControllerLinks::UnitLoopEnds& loop : links_.loops) {
    received += loop.in.handled() + loop.progress->received.load();
  }
  for (const ControllerLinks::LoggerLoopEnd& loop : links_.loggers) {
    received += loop.in.handled() + loop.progress->received.load();
  }
  if (relay_.has_value()) received += relay_->handled();
  const bool is_due = NextDue() <= clock_.Now();
  for (const ControllerLinks::UnitLoopEnds& loop : links_.loops) {
    sent += loop.out.sent_in_all() + loop.progress->sent.load();
  }
  for (const ControllerLinks::LoggerLoopEnd& loop : links_.loggers) {
    sent += loop.progress->sent.load();
    if (loop.out.has_value()) sent += loop.out->sent_in_all();
  }
  if (relay_.has_value()) sent += relay_->sent();
  return received == sent && !is_due && batch_.empty() && !IsRecovering();
}

void ControllerLoop::Refuse(UnitId unit, std::string_view kind,
                            std::string_view field, uint64_t value) {
  const size_t loop = snf::value(unit) % links_.loops.size();
  links_.loops[loop].in.Close();
  if (logger_words_.empty() || recovery_.has_value()) {
    // Loggers say what units have said; if these may end alone, it is theirs,
    // and what others have said is heard.
    words_[loop].Refuse(unit, kind, field, value);
    return;
  }
  logger_words_[loop].Refuse(unit, kind, field, value);
  links_.loggers[loop].in.Close();
}

// A link whose ring has had a position that cannot be, at either end.
void ControllerLoop::CloseBrokenLinks() {
  for (size_t i = 0; i < links_.loops.size(); ++i) {
    LinkIn& in = links_.loops[i].in;
    if (in.faults() + links_.loops[i].out.faults() == 0 || in.is_closed())
        [[likely]]
      continue;
    words_[i].Refuse(kNoUnit, "ring", "position", in.received());
    in.Close();
  }
  for (size_t i = 0; i < links_.loggers.size(); ++i) {
    LinkIn& in = links_.loggers[i].in;
    if (in.faults() == 0 || in.is_closed()) [[likely]]
      continue;
    logger_words_[i].Refuse(kNoUnit, "ring", "position", in.received());
    in.Close();
  }
}

// Leaves in out_ what the controller commands.
void ControllerLoop::HandleOther(size_t loop, bool of_logger, const Cell& cell,
                                 std::span<const std::byte> payload,
                                 ControllerEvents& events) {
  using Kind = UnitCommand::Kind;
  ReportDrained(events);
  out_.clear();
  if (!words_[loop].IsSound(cell, payload)) {
    links_.loops[loop].in.Close();
    return;
  }
  if (cell.is_table()) {
    on_table(LoadAs<TableMessage>(payload.data()));
    return;
  }
  const auto& command = cell.As<UnitCommand>();
  switch (command.kind) {
    case Kind::kReportTakeover:
      controller_.on_takeover(command.takeover);
      break;
    case Kind::kSendAlias:
      on_alias(LoadAs<Alias>(payload.data()), events);
      break;
    case Kind::kSendNote:
    case Kind::kSendEnded:
      HandleTell(command, events);
      break;
    case Kind::kSendTimerDue:
      controller_.on_timer_due(now_, command.timer_due, out_);
      break;
    case Kind::kRequestPieces:
      controller_.on_piece_request(now_, command.request, out_);
      break;
    case Kind::kReturnPieces:
      controller_.on_pieces_returned(now_, command.pieces, out_);
      break;
    case Kind::kStopped:
      if (controller_.on_unit_stopped(command.unit)) {
        if (!is_leased_) break;
        left_.push_back(command.unit);
        TellUp(command.unit, false, events);
      } else if (!is_leased_ && !recovery_.has_value()) {
        // Else a lease has withdrawn the Stop, or a recovery, which found no
        // other unit; or the unit has failed as it stopped.
        Refuse(command.unit, "stopped", "flows",
               controller_.units().owned_flows(command.unit));
      }
      break;
    case Kind::kSendDone:
    case Kind::kSendGrants:
      HandleRecovery(command, of_logger, events);
      break;
    default:
      // Another process of loggers reports again if the one before it may not
      // have got to the end.
      if (of_logger && succession_.has_value() && succession_->begun()) break;
      // A report that nobody has asked for.
      Refuse(command.unit, "report", "kind",
             static_cast<uint8_t>(command.kind));
  }
}

void ControllerLoop::on_alias(const Alias& alias, ControllerEvents& events) {
  if (controller_.on_alias(alias, out_) != AliasResult::kGranted) return;
  events.on_alias_granted(alias,
                          controller_.flows().hot(slot_of(alias.flow)).key);
}

void ControllerLoop::on_table(const TableMessage& message) {
  tables_.Count(message);
  tables_.on_message(now_, message, [this](const TableMessage& answer) {
    SendToUnit(answer);
  });
}

void ControllerLoop::RunTableTimers() {
  for (size_t table = 0; table < tables_.size(); ++table) {
    tables_.on_timers(now_, table, [this](const TableMessage& message) {
      SendToUnit(message);
    });
  }
}

void ControllerLoop::SendToUnit(const TableMessage& message) {
  if (!hears(message.unit)) return;
  tables_.Count(message);
  link_to_[value(message.unit)]->Send(Cell::OfTable(),
                                      std::as_bytes(std::span(&message, 1)));
}

void ControllerLoop::ReportDrained(ControllerEvents& events) {
  if (drained_.packets == 0) return;
  with_payload_.unit = drained_.unit;
  if (controller_.on_drained(now_, drained_)) [[likely]] {
    events.on_drained(now_, with_payload_);
  } else {
    Refuse(drained_.unit, "release", "bytes in all", drained_.bytes);
  }
  drained_ = {};
  with_payload_ = {};
}

void ControllerLoop::GivePacket(const ControllerCommand& command) {
  packets_->Add(command);
  if (recovery_.has_value()) recovery_->OnEnd(command.packet);
  if (links_.copies.empty() || command.packet == kNoPacket) return;
  const size_t loop = value(command.unit) % links_.loops.size();
  links_.buffers->CopyTo(links_.copies[loop], command.packet);
}

// The buffer of a packet that an NF made is of the share of its loop, which may
// die before that comes back.
bool ControllerLoop::TakePacket(size_t loop, const UnitCommand& command) {
  using Kind = UnitCommand::Kind;
  if (!packets_->On(command)) return false;
  if (links_.copies.empty() || command.kind == Kind::kAdvance) return true;
  BufferPool& copies = links_.copies[loop];
  copies.CopyTo(*links_.buffers, command.packet);
  if (command.kind == Kind::kEmit) copies.Claim(command.packet);
  return true;
}

void ControllerLoop::ReturnBuffer(BufferPool::Party owner,
                                  PacketHandle packet) {
  const auto party = static_cast<size_t>(owner);
  SNF_CHECK(party > 0);
  if (recovery_.has_value() && recovery_->loops[party - 1].has_ended) {
    recovery_->loops[party - 1].buffers.push_back(packet);
    return;
  }
  if (!links_.copies.empty()) {
    links_.copies[party - 1].Disclaim(packet);
  } else if (recovery_.has_value()) {
    links_.buffers->Disclaim(packet);
  }
  if (!has_controller()) {
    succession_->of_loop(party - 1).returns.push_back(packet);
    return;
  }
  links_.loops[party - 1].out.Send(ControllerCommand::Drop(packet, {}));
}

void ControllerLoop::Execute(const ControllerCommand& command,
                             ControllerEvents& events) {
  using Kind = ControllerCommand::Kind;
  switch (command.kind) {
    case Kind::kDrop:
      figures_.aliases_unknown +=
          command.reason == DropReason::kNoAlias ? 1 : 0;
      if (recovery_.has_value()) recovery_->OnEnd(command.packet);
      events.on_drop(now_, command.packet, command.reason);
      return;
    case Kind::kName:
      if (hears(command.unit)) SendName(command);
      return;
    case Kind::kStartUnit:
      if (succession_.has_value()) succession_->set_up(command.unit, true);
      TellUp(command.unit, true, events);
      StartUnit(command);
      return;
    case Kind::kParkUnit:
      if (succession_.has_value()) succession_->set_up(command.unit, false);
      TellUp(command.unit, false, events);
      // A start that has failed is not waited for.
      std::erase_if(starting_, [&command](const UnitStart& start) {
        return start.command.unit == command.unit;
      });
      break;
    case Kind::kEndFlow:
      events.on_end_flow(command.end);
      break;
    case Kind::kForsake:
      // All units hear of it, one of them as the owner.
      events.on_forsake(now_, command.end);
      break;
    case Kind::kSeal:
      SendSeal(command);
      return;
    case Kind::kForget:
      if (!command.of_logger) break;
      links_.loggers[value(command.unit) % links_.loops.size()].out->Send(
          command);
      return;
    default:
      break;
  }
  if (hears(command.unit)) Send(command);
}

void ControllerLoop::StartUnit(const ControllerCommand& command) {
  if (starter_ != nullptr && !starter_->on_start(command.unit)) {
    starting_.push_back({.ready = Instant::max(), .command = command});
    return;
  }
  const Nanos delay = command.warm ? warm_start_delay_ : cold_start_delay_;
  if (delay.ns == 0) {
    FinishStart(command);
    return;
  }
  starting_.push_back({.ready = now_ + delay, .command = command});
  next_ready_ = std::min(next_ready_, starting_.back().ready);
}

void ControllerLoop::FinishStart(const ControllerCommand& command) {
  Send(command);
  // The unit's loop runs: what follows in the link finds the unit started.
  controller_.on_unit_ready(now_, command.unit);
}

void ControllerLoop::BeginStarts(size_t loop) {
  for (UnitStart& start : starting_) {
    const size_t of_start = value(start.command.unit) % links_.loops.size();
    if (start.ready != Instant::max() || of_start != loop) continue;
    start.ready = next_ready_ = now_;
  }
}

// A lease may begin anew while its unit is being left.
void ControllerLoop::TellUp(UnitId unit, bool is_up, ControllerEvents& events) {
  if (is_leased_) {
    if (shares_units_ || leased_up_[value(unit)] == is_up) return;
    leased_up_[value(unit)] = is_up;
  }
  if (is_up) {
    events.on_unit_up(now_, unit);
  } else {
    events.on_unit_down(now_, unit);
  }
}

bool ControllerLoop::IsIdle(size_t loop) {
  ControllerLinks::UnitLoopEnds& ends = links_.loops[loop];
  return ends.out.released() == ends.out.cells() && !ends.in.has_items() &&
         ends.progress->buffers.load() == 0;
}

void ControllerLoop::FinishStarts() {
  if (now_ < next_ready_) return;
  const auto is_ready = [this](const UnitStart& start) {
    return start.ready <= now_;
  };
  for (const UnitStart& start : starting_) {
    if (is_ready(start)) FinishStart(start.command);
  }
  std::erase_if(starting_, is_ready);
  next_ready_ = Instant::max();
  for (const UnitStart& start : starting_) {
    next_ready_ = std::min(next_ready_, start.ready);
  }
}

}  // namespace snf
