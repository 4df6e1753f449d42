// SPDX-License-Identifier: Apache-2.0
#include "controller/live/controller_loop.h"

#include <fmt/format.h>

#include <string>
#include <thread>
#include <utility>

#include "base/check.h"
#include "controller/live/state_sources.h"

namespace snf {

ControllerLoop::ControllerLoop(const ControllerLoopOptions& options,
                               const PlacementPolicy& policy, TableHomes tables,
                               const RealClock& clock, ControllerLinks links)
    : clock_(clock),
      options_(options.controller),
      policy_(&policy),
      shares_thread_(options.shares_thread),
      controller_(options.controller, policy),
      tables_(std::move(tables), controller_),
      links_(std::move(links), options, tables_.homes()),
      commands_(options, controller_, links_, recovery_, unled_),
      words_({.controller = controller_,
              .links = links_,
              .tables = tables_,
              .commands = commands_,
              .recovery = recovery_,
              .unled = unled_,
              .out = out_}) {
  if (options.counts_flows) slots_.CountFlows(options.controller.max_flows);
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
      shares_thread_ ? 0 : Doorbell::spins());
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

void ControllerLoop::ReportDrained(ControllerEvents& events) {
  if (!slots_.has_drained()) return;
  const ChannelSlots::Drained drained = slots_.Take();
  if (controller_.on_drained(now_, drained.all)) [[likely]] {
    events.on_drained(now_, drained.with_payload);
  } else {
    Refuse(drained.all.unit, "release", "bytes in all", drained.all.bytes);
  }
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

// --- Loops of units that end, and controllers that fail. ---

// With a starter, a loop that has ended may rest until one of its units starts.
bool ControllerLoop::IsRecovering() const {
  return controller_.is_recovering() ||
         (recovery_.has_value() && !commands_.starter().has_starter() &&
          recovery_->any_ended());
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

// An heir has no history.
bool ControllerLoop::MayPull(const Pull& pull) const {
  if (!has_controller() && unled_->is_heir()) return true;
  return snf::MayPull(known(), pull);
}

bool ControllerLoop::AskState(FlowId flow) {
  if (!is_led() || slot_of(flow) >= controller_.flows().used()) return false;
  const UnitId unit = controller_.flows().cold(slot_of(flow)).owner;
  if (unit == kNoUnit || controller_.IdOfSlot(slot_of(flow)) != flow ||
      !commands_.hears(unit) || !links_.to(unit).has_room(0)) {
    return false;
  }
  links_.to(unit).Send(ControllerCommand::AskState(unit, flow));
  return true;
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
std::string ControllerLoop::WhyLoggers() const {
  if (links_.have_undrained()) return "operations on tables of ended units";
  if (!has_controller() && (unled_->is_heir() || unled_->has_ended())) {
    return "reports for the next controller";
  }
  if (known().is_recovering()) return "clocks of units that have failed";
  const StatesAtLoggers states = FindStatesAtLoggers(known());
  if (states.flows == 0) return "";
  return fmt::format("states of {} flows, one of failed unit {} for unit {}",
                     states.flows, value(states.failed), value(states.owner));
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
