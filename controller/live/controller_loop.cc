// SPDX-License-Identifier: Apache-2.0
#include "controller/live/controller_loop.h"

#include <thread>
#include <utility>

#include "base/byte_order.h"
#include "base/check.h"
#include "controller/core/owner_history.h"
#include "runtime/wire/link_payload.h"

namespace snf {

ControllerLoop::ControllerLoop(const ControllerLoopOptions& options,
                               const PlacementPolicy& policy, TableHomes tables,
                               const RealClock& clock, ControllerLinks links)
    : clock_(clock),
      options_(options.controller),
      policy_(&policy),
      shares_thread_(options.shares_thread),
      is_leased_(options.controller.leased),
      shares_units_(options.shares_units),
      leased_up_(options.controller.max_units),
      controller_(options.controller, policy),
      tables_(std::move(tables)),
      links_(std::move(links), options, tables_),
      starter_(options.cold_start_delay, options.warm_start_delay,
               options.controller.max_units) {
  if (options.counts_flows) {
    under_way_ =
        LazyArray<uint64_t>(options.controller.max_flows, Pages::kGrowing);
  }
  if (links_.relay().has_value()) {
    links_.relay()->set_may_pull(
        [this](const Pull& pull) { return MayPull(pull); });
  }
  if (options.recovers) {
    recovery_.emplace(*this, links_.size(), options.controller.max_units);
  }
  if (options.fails) {
    unled_.emplace(*this, options.controller, links_.size());
    if (options.inherits) unled_->Inherit();
  }
  batch_.reserve(2 * kBatch);
}

bool ControllerLoop::FlushAll() {
  const bool is_all = links_.Flush();
  if (is_all && unled_.has_value()) unled_->on_flushed();
  return links_.FlushToLoggers() && is_all;
}

void ControllerLoop::IdleWait(Nanos most) {
  if (!is_led()) {
    std::this_thread::yield();
    return;
  }
  // The shortest sleep takes about this.
  constexpr Nanos kShort = Microseconds(100);
  // Units of the same thread ring no bell: they wait for their turn.
  const Nanos left =
      std::min(most, (shares_thread_ ? NextDue() : NextTimer()) - now_);
  if (left < kShort) {
    if (!shares_thread_) std::this_thread::yield();
    return;
  }
  Doorbell::WaitAtAll(
      links_.bells(), [this] { return links_.has_items(); },
      {left.ns - kShort.ns / 2}, RealClock::Monotonic(),
      shares_thread_ ? 0 : Doorbell::kSpins);
}

void ControllerLoop::AwaitUnits(Nanos most,
                                absl::FunctionRef<bool()> is_other_work) {
  const auto has_work = [&] { return links_.has_items() || is_other_work(); };
  Doorbell::WaitAtAll(links_.bells(), has_work, most, RealClock::Monotonic(),
                      Doorbell::SpinsOnSpareCpus());
}

Instant ControllerLoop::NextDue() const {
  return std::min(NextTimer(), links_.next_due());
}

// Messages received are counted first: see LoopProgress.
bool ControllerLoop::IsQuiet() const {
  if (!is_led()) return false;
  const uint64_t received = links_.received();
  const bool is_due = NextDue() <= clock_.Now();
  return received == links_.sent() && !is_due && batch_.empty() &&
         !IsRecovering() && !links_.have_updates();
}

// Leaves in out_ what the controller commands.
void ControllerLoop::HandleOther(size_t loop, bool of_logger, const Cell& cell,
                                 std::span<const std::byte> payload,
                                 ControllerEvents& events) {
  using Kind = UnitCommand::Kind;
  ReportDrained(events);
  out_.clear();
  // Loggers forward other words of units.
  const bool is_loggers = of_logger && cell.is_table();
  if (!links_.words(loop, is_loggers).IsSound(cell, payload)) {
    links_.in(loop, is_loggers).Close();
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
        SetUp(command.unit, false, events);
      } else if (!is_leased_ && !recovery_.has_value()) {
        // Otherwise a lease, or a recovery that found no other unit, has
        // withdrawn the Stop; or the unit has failed as it stopped.
        Refuse(command.unit, "stopped", "flows",
               controller_.units().owned_flows(command.unit));
      }
      break;
    case Kind::kSendDone:
      SNF_CHECK(recovery_.has_value());
      recovery_->on_done(command.done, of_logger, events);
      break;
    case Kind::kSendGrants:
      SNF_CHECK(recovery_.has_value());
      controller_.on_grants_sealed(now_, command.unit, command.grants, out_);
      break;
    default:
      // A new process of loggers reports again if its predecessor may not have
      // finished.
      if (of_logger && unled_.has_value() && unled_->succession().begun()) {
        break;
      }
      // No controller has asked for a report.
      Refuse(command.unit, "report", "kind",
             static_cast<uint8_t>(command.kind));
  }
}

// Leaves in out_ what the controller commands.
void ControllerLoop::HandleTell(const UnitCommand& word,
                                ControllerEvents& events) {
  out_.clear();
  if (word.kind == UnitCommand::Kind::kSendEnded) {
    controller_.on_ended(word.ended.flow);
    return;
  }
  if (word.note.over) events.on_alias_over(word.note.flow, word.note.clock);
  controller_.on_flow_note(now_, word.note, out_);
  if (unled_.has_value()) unled_->Note(word);
}

void ControllerLoop::SendName(const ControllerCommand& command) {
  const FlowName name = controller_.NameOf(command.end.flow);
  links_.to(command.unit).Send(command, std::as_bytes(std::span(&name, 1)));
}

void ControllerLoop::on_alias(const Alias& alias, ControllerEvents& events) {
  if (controller_.on_alias(alias, out_) != AliasResult::kGranted) return;
  events.on_alias_granted(alias,
                          controller_.flows().hot(slot_of(alias.flow)).key);
}

void ControllerLoop::on_table(const TableMessage& message) {
  tables_.Count(message);
  tables_.on_message(now_, message,
                     [this](const TableMessage& answer) { Answer(answer); });
}

void ControllerLoop::Answer(const TableMessage& answer) {
  if (answer.kind != TableMessage::Kind::kLoggedAck) return SendToUnit(answer);
  tables_.Count(answer);
  links_.loggers()[links_.loop_of(answer.unit)].out->Send(
      Cell::OfTable(), std::as_bytes(std::span(&answer, 1)));
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
  links_.to(message.unit)
      .Send(Cell::OfTable(), std::as_bytes(std::span(&message, 1)));
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

void ControllerLoop::ReturnBuffer(BufferPool::Party owner,
                                  PacketHandle packet) {
  const auto party = static_cast<size_t>(owner);
  SNF_CHECK(party > 0);
  if (recovery_.has_value() && recovery_->KeepBuffer(party - 1, packet)) return;
  links_.Disclaim(party - 1, packet);
  if (!has_controller()) {
    unled_->KeepBuffer(party - 1, packet);
    return;
  }
  links_.loops()[party - 1].out.Send(ControllerCommand::Drop(packet, {}));
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
      SetUp(command.unit, true, events);
      if (starter_.Begin(now_, command)) FinishStart(command);
      return;
    case Kind::kParkUnit:
      SetUp(command.unit, false, events);
      // The start has failed: it is no longer under way.
      starter_.Forget([&](UnitId unit) { return unit == command.unit; });
      break;
    case Kind::kEndFlow:
      events.on_end_flow(command.end);
      break;
    case Kind::kForsake:
      // All units hear of it, one of them as the owner.
      events.on_forsake(now_, command.end);
      break;
    case Kind::kSeal:
      recovery_->SendSeal(command);
      return;
    case Kind::kForget:
      if (!command.of_logger) break;
      links_.loggers()[links_.loop_of(command.unit)].out->Send(command);
      return;
    default:
      break;
  }
  if (hears(command.unit)) Send(command);
}

void ControllerLoop::FinishStart(const ControllerCommand& command) {
  Send(command);
  // The unit's loop runs: what follows in the link finds the unit started.
  controller_.on_unit_ready(now_, command.unit);
}

void ControllerLoop::BeginStarts(size_t loop) {
  starter_.BeginLoop(now_,
                     [&](UnitId unit) { return links_.loop_of(unit) == loop; });
}

void ControllerLoop::SetUp(UnitId unit, bool is_up, ControllerEvents& events) {
  if (unled_.has_value()) unled_->set_up(unit, is_up);
  // A lease may begin anew while its unit is being left.
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

// --- Loops of units that end, and controllers that fail. ---

// With a starter, a loop that has ended may rest until one of its units starts.
bool ControllerLoop::IsRecovering() const {
  return controller_.is_recovering() ||
         (recovery_.has_value() && !starter_.has_starter() &&
          recovery_->any_ended());
}

const PacketsUnderWay::Sent* ControllerLoop::FindIn(size_t loop,
                                                    PacketHandle packet) {
  if (!links_.knows_packets()) return nullptr;
  const PacketsUnderWay::Sent* const sent = links_.packets().Find(packet);
  return sent != nullptr && links_.loop_of(sent->unit) == loop ? sent : nullptr;
}

bool ControllerLoop::MayBegin(size_t loop) const {
  return has_controller() && recovery_->MayBegin(loop);
}

void ControllerLoop::StartLoop(size_t loop) {
  recovery_->Start(loop);
  ControllerEpoch* const controllers = links_.loops()[loop].controllers;
  if (controllers == nullptr || !unled_.has_value()) return;
  const uint32_t epoch = unled_->succession().epoch();
  controllers->newest.store(epoch, std::memory_order_release);
  controllers->begun.store(epoch, std::memory_order_release);
}

void ControllerLoop::BeginLoop(size_t loop) {
  recovery_->Begin(loop);
  FlushAll();
}

// The flow's history has each former owner until its state is taken over; an
// owner may pull from its predecessors. Without a controller, the history of
// the failed one counts. If the history is unknown or incomplete, any unit may
// pull.
bool ControllerLoop::MayPull(const Pull& pull) const {
  if (!has_controller() && unled_->is_heir()) return true;
  const Controller& known = this->known();
  if (known.owners().forgotten() > 0) return true;
  const FlowTable& flows = known.flows();
  const uint32_t slot = slot_of(pull.flow);
  if (slot >= flows.used() ||
      flows.numbers(slot).generation != generation_of(pull.flow)) {
    return false;
  }
  bool may = flows.cold(slot).owner == pull.requester;
  known.owners().ForEach(slot, [&](const OwnerHistory::Run& run) {
    may |= run.unit == pull.requester;
  });
  return may;
}

bool ControllerLoop::IsUp(UnitId unit) const {
  if (!has_controller()) return unled_->was_up(unit);
  switch (controller_.units().state(unit)) {
    case UnitPool::State::kStopped:
    case UnitPool::State::kCrashed:
    case UnitPool::State::kFailed:
      return false;
    default:
      return true;
  }
}

// The history of a failed controller is out of date once a unit has failed
// since. An heir has no history.
bool ControllerLoop::NeedsLoggers() const {
  if (links_.have_undrained()) return true;
  if (!has_controller() && (unled_->is_heir() || unled_->has_ended())) {
    return true;
  }
  const Controller& known = this->known();
  bool is_source = known.is_recovering();
  for (uint32_t slot = 0; slot < known.flows().used(); ++slot) {
    known.owners().ForEach(slot, [&](const OwnerHistory::Run& run) {
      is_source |= run.at_logger && !run.is_taken && !run.is_superseded;
    });
  }
  return is_source;
}

void ControllerLoop::set_prepare(Prepare prepare, Prepare settle) {
  unled_->set_prepare(std::move(prepare));
  unled_->set_settle(std::move(settle));
}

void ControllerLoop::Succeed() {
  SNF_CHECK(unled_.has_value());
  unled_->Succeed();
}

}  // namespace snf
