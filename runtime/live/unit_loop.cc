// SPDX-License-Identifier: Apache-2.0
#include "runtime/live/unit_loop.h"

#include <algorithm>
#include <utility>

#include "base/byte_order.h"
#include "base/check.h"
#include "base/counters.h"
#include "runtime/core/unit_limits.h"
#include "runtime/tables/table_message.h"
#include "runtime/wire/link_payload.h"

namespace snf {

UnitLoop::UnitLoop(const UnitLoopOptions& options, const NfSpec& nf,
                   const RealClock& clock, UnitLoopLinks links)
    : links_(std::move(links)),
      clock_(clock),
      schema_(nf.create()->schema()),
      index_(options.index),
      loops_(options.loops),
      service_(options.service),
      measures_busy_(options.measures_busy) {
  const std::unique_ptr<NetworkFunction> example = nf.create();
  std::vector<TableShape> logged;
  if (links_.to_new_loggers.has_value()) logged = LoggedTablesOf(*example);
  for (uint32_t i = options.index; i < options.max_units; i += options.loops) {
    const UnitId id{static_cast<uint16_t>(i)};
    std::unique_ptr<NetworkFunction> own = nf.create();
    Unit unit(id, options.unit, schema_, own->pools());
    if (!logged.empty()) unit.LogTables(TablesOf(*own));
    UnitTables tables(id, *own, options.tables, !logged.empty());
    shells_.push_back(
        {{.unit = std::move(unit), .nf = std::move(own)}, std::move(tables)});
  }
  shell_of_.resize(options.max_units);
  for (LoopUnit& shell : shells_) shell_of_[value(shell.unit.id())] = &shell;
  for (const LoopUnit& shell : shells_) timers_.push_back(NextTimer(shell));
  runnable_.reserve(shells_.size());
  if (links_.controllers != nullptr) epoch_ = links_.controllers->begun.load();
  SNF_CHECK(options.unit.has_logger == links_.to_loggers.has_value());
  if (options.unit.has_logger) {
    logs_.emplace(*std::move(links_.to_loggers), options.max_units,
                  options.incarnation, schema_);
  }
  if (links_.to_new_loggers.has_value()) {
    SNF_CHECK(logs_.has_value());
    handover_.emplace(*std::move(links_.to_new_loggers), schema_);
    if (!shells_.empty()) {
      logs_->KeepForLoggers(shells_[0].nf->pools(), logged);
    }
  }
  const auto units_of = [&](uint32_t loop) {
    return UnitsOfLoop(loop, options.loops, options.max_units);
  };
  const UnitsOfLoop own = units_of(options.index);
  words_.emplace(own,
                 WordsToUnits::Limits{.max_units = options.max_units,
                                      .tables = static_cast<uint32_t>(
                                          TablesOf(*example).size())},
                 links_.buffers, *links_.faults);
  const auto add_words = [&](const UnitsOfLoop& from) {
    unit_words_.emplace_back(from, own, schema_.record_bytes(), *links_.faults);
  };
  if (links_.is_relayed) {
    SNF_CHECK(links_.from_loops.size() == 2 && links_.to_loops.size() == 2);
    add_words(own);
    add_words(UnitsOfLoop(0, 1, options.max_units));
  } else {
    for (uint32_t i = 0; i < links_.from_loops.size(); ++i) {
      add_words(units_of(i));
    }
  }
}

bool UnitLoop::has_mail() {
  if (links_.from_controller.has_items() || must_report()) return true;
  if (logs_.has_value() && logs_->has_released()) return true;
  if (links_.from_loggers.has_value() && links_.from_loggers->has_items()) {
    return true;
  }
  return std::ranges::any_of(links_.from_loops,
                             [](LinkIn& link) { return link.has_items(); });
}

Nanos UnitLoop::MayWait() const {
  // The clock may skip, unseen; to units that do not run that is nothing.
  const Nanos most = is_asleep() ? Seconds(1) : Milliseconds(10);
  const Instant due = std::min(next_timer_, next_service_end_);
  return due == Instant::max() ? most : std::min(most, due - clock_.Now());
}

void UnitLoop::Run(absl::FunctionRef<bool()> beside) {
  const auto has_work = [this] {
    return links_.control->stops.load(std::memory_order_seq_cst) || has_mail();
  };
  while (!links_.control->stops.load(std::memory_order_relaxed)) {
    const bool did = Turn();
    if (beside() || did) continue;
    const Nanos timeout = MayWait();
    if (timeout.ns < 50'000) continue;
    ++sleeps_;
    links_.bell->Wait(has_work, timeout);
  }
}

void UnitLoop::Stop() {
  links_.control->stops.store(true, std::memory_order_seq_cst);
  links_.bell->Ring();
}

bool UnitLoop::Turn() {
  if (must_hand_over()) [[unlikely]]
    return HandOver();
  if (!Flush()) return true;
  bool did = Receive();
  if (links_.store != nullptr) [[unlikely]]
    did |= PollStore();
  if (logs_.has_value()) did |= HandleReleased();
  if (now_ >= next_timer_) {
    RunTimers();
    did = true;
  }
  did |= measures_busy_ ? ServeAllByTheClock() : ServeAll();
  // Before anybody can have got any of it: see LoopProgress.
  Publish();
  Flush();
  if (!did && links_.store != nullptr && links_.store->is_waiting()) {
    links_.store->Wait(kStoreWait);
    return true;
  }
  return did;
}

bool UnitLoop::Receive() {
  links_.from_controller.Receive();
  for (LinkIn& link : links_.from_loops) link.ReceiveKept();
  if (links_.from_loggers.has_value()) links_.from_loggers->Receive();
  CloseBrokenLinks();
  if (logs_.has_value()) LookForReleased();
  // Read after the messages were taken: what they speak of has happened by
  // then.
  now_ = clock_.Now();
  if (must_report()) [[unlikely]] {
    MakeReport();
    HandleLinks();
    return true;
  }
  return HandleLinks() > 0;
}

size_t UnitLoop::HandleController() {
  return links_.from_controller.Handle(
      *words_, [this](const Cell& cell, std::span<const std::byte> payload) {
        if (payload.empty()) [[likely]] {
          Handle(cell.As<ControllerCommand>());
        } else if (!words_->IsSound(cell, payload)) {
          links_.from_controller.Close();
        } else if (cell.is_table()) {
          Handle(LoadAs<TableMessage>(payload.data()));
        } else {
          on_name(Shell(cell.As<ControllerCommand>().unit),
                  LoadAs<FlowName>(payload.data()));
        }
      });
}

size_t UnitLoop::HandleLinks() {
  size_t messages = HandleController();
  for (size_t i = 0; i < links_.from_loops.size(); ++i) {
    messages += links_.from_loops[i].Handle(
        unit_words_[i],
        [this](const Cell& cell, std::span<const std::byte> record) {
          Handle(cell.As<UnitCommand>(), record);
        });
    links_.from_loops[i].Release();
  }
  if (links_.from_loggers.has_value()) {
    messages += links_.from_loggers->Handle(
        unit_words_[links_.is_relayed ? 0 : index_],
        [this](const Cell& cell, std::span<const std::byte> record) {
          Handle(cell.As<UnitCommand>(), record);
        });
  }
  if (queries_ > 0) [[unlikely]]
    AnswerQueries();
  return messages;
}

// A link whose ring has had a position that cannot be, at either end.
void UnitLoop::CloseBrokenLinks() {
  const auto is_broken = [](const LinkIn& in, const LinkOut& out) {
    return in.faults() + out.faults() > 0 && !in.is_closed();
  };
  if (is_broken(links_.from_controller, links_.to_controller)) [[unlikely]] {
    words_->Refuse("ring", "position", links_.from_controller.received());
    links_.from_controller.Close();
  }
  for (size_t i = 0; i < links_.from_loops.size(); ++i) {
    LinkIn& in = links_.from_loops[i];
    if (!is_broken(in, links_.to_loops[i])) [[likely]]
      continue;
    unit_words_[i].Refuse("ring", "position", in.received());
    in.Close();
  }
}

inline void UnitLoop::Handle(const ControllerCommand& command) {
  if (command.kind == ControllerCommand::Kind::kEnqueue) [[likely]] {
    // It neither commands anything nor arms a timer.
    LoopUnit& shell = Shell(command.unit);
    if (!shell.unit.has_room()) [[unlikely]] {
      words_->Refuse("packet", "number", command.meta.channel_number);
      links_.from_controller.Close();
      return;
    }
    shell.unit.on_packet(command.packet, command.meta);
    List(shell);
  } else {
    HandleOther(command);
  }
}

void UnitLoop::HandleOther(const ControllerCommand& command) {
  using Kind = ControllerCommand::Kind;
  if (command.kind == Kind::kDrop) {
    // The buffer comes back to its owner.
    if (links_.buffers.Return(command.packet)) return;
    words_->Refuse("drop", "packet", value(command.packet));
    links_.from_controller.Close();
    return;
  }
  LoopUnit& shell = Shell(command.unit);
  out_.clear();
  switch (command.kind) {
    case Kind::kStartUnit:
      // The unit may have obeyed a Stop that was withdrawn meanwhile.
      shell.unit.on_start();
      shell.leaves = shell.has_left = false;
      if (links_.turns != nullptr) links_.turns->on_start(command.unit);
      shell.incarnation = command.incarnation;
      shell.tables.on_ready(now_, shell.tables.are_logged()
                                      ? logs_->incarnation()
                                      : command.incarnation);
      shell.ready = true;
      if (service_.has_value()) shell.service.Start(now_);
      links_.progress->started.store(RealClock::Monotonic().ns,
                                     std::memory_order_relaxed);
      break;
    case Kind::kParkUnit:
      shell.ready = false;
      return;
    case Kind::kDoneQuery:
      queries_ += shell.asked_round == 0 ? 1 : 0;
      shell.asked_round = command.done_query.round;
      return;
    case Kind::kAliasAck:
      if (logs_.has_value()) {
        logs_->on_alias_ack(command.unit, command.alias_ack);
      }
      [[fallthrough]];
    default:
      if (!shell.Deliver(CallNow(), command, [&] { ExecuteAll(shell); })) {
        return;
      }
      break;
  }
  AfterCall(shell);
}

void UnitLoop::Handle(const UnitCommand& message,
                      std::span<const std::byte> record) {
  if (message.kind == UnitCommand::Kind::kUpdatesMerged) [[unlikely]] {
    if (logs_.has_value())
      logs_->on_updates_merged(message.unit, message.entry);
    return;
  }
  LoopUnit& shell = Shell(message.unit);
  out_.clear();
  shell.Deliver(CallNow(), message, record);
  AfterCall(shell);
}

void UnitLoop::Handle(const TableMessage& message) {
  LoopUnit& shell = Shell(message.unit);
  shell.tables.on_message(now_, message, [this](const TableMessage& answer) {
    SendToHome(answer);
  });
  if (shell.tables.TakeGone()) SendStopped(message.unit);
  NoteTimer(shell);
}

void UnitLoop::SendToHome(const TableMessage& message) {
  links_.to_controller.Send(Cell::OfTable(),
                            std::as_bytes(std::span(&message, 1)));
}

void UnitLoop::SendStopped(UnitId unit) {
  UnitCommand stopped = UnitCommand::Stopped();
  stopped.unit = unit;
  if (logs_.has_value()) {
    logs_->SendStopped(unit);
  } else {
    links_.to_controller.Send(stopped);
  }
  if (links_.turns == nullptr) return;
  Shell(unit).has_left = true;
  links_.turns->on_stopped(unit);
}

void UnitLoop::AfterCall(LoopUnit& shell) {
  ExecuteMore(shell);
  shell.tables.on_called(now_);
  NoteTimer(shell);
  List(shell);
}

void UnitLoop::List(LoopUnit& shell) {
  if (shell.is_listed || !shell.ready) return;
  shell.is_listed = true;
  runnable_.push_back(&shell);
}

// Units without a timer that is due are left alone: the memory of all of them
// would push the packets' out of the caches.
void UnitLoop::RunTimers() {
  next_timer_ = Instant::max();
  for (size_t i = 0; i < timers_.size(); ++i) {
    if (timers_[i] <= now_) RunTimers(shells_[i]);
    next_timer_ = std::min(next_timer_, timers_[i]);
  }
}

void UnitLoop::RunTimers(LoopUnit& shell) {
  if (shell.unit.next_wakeup() <= now_) {
    out_.clear();
    if (links_.control->stops_timers.load(std::memory_order_relaxed)) {
      shell.unit.StopTimers();
    }
    shell.unit.on_timers(now_, out_);
    AfterCall(shell);
  }
  if (shell.tables.next_wakeup() <= now_) {
    shell.tables.on_timers(
        now_, [this](const TableMessage& message) { SendToHome(message); });
  }
  NoteTimer(shell);
}

// Units that have nothing to do any more leave the list.
bool UnitLoop::ServeAll() {
  bool did = false;
  next_service_end_ = Instant::max();
  for (size_t i = 0; i < runnable_.size();) {
    LoopUnit& shell = *runnable_[i];
    did |= Serve(shell);
    NoteTimer(shell);
    if (shell.unit.busy()) {
      // Until its turn comes, the service of another inbox has an end.
      if (!shell.awaits_turn) {
        next_service_end_ = std::min(next_service_end_, shell.service.end());
      }
    } else if (!shell.is_listed) {
      runnable_[i] = runnable_.back();
      runnable_.pop_back();
      continue;
    }
    ++i;
  }
  return did;
}

bool UnitLoop::ServeAllByTheClock() {
  const Instant begin = RealClock::Monotonic();
  const bool did = ServeAll();
  if (did && !service_.has_value()) {
    busy_.ns += (RealClock::Monotonic() - begin).ns;
  }
  return did;
}

// Clears is_listed if there is nothing more to do.
bool UnitLoop::Serve(LoopUnit& shell) {
  bool did = false;
  out_.clear();
  for (uint32_t served = 0; served < kServedInATurn; ++served) {
    if (!shell.unit.busy() && (!shell.ready || !Begin(shell))) {
      shell.is_listed = false;
      if (links_.turns != nullptr) [[unlikely]]
        SeeEmpty(shell);
      break;
    }
    if (shell.awaits_turn && !TakeTurn(shell)) break;
    if (shell.service.end() > now_) break;
    Finish(shell);
    if (links_.turns != nullptr) [[unlikely]]
      EndTurn(shell);
    did = true;
  }
  ExecuteAll(shell);
  if (did) shell.tables.on_called(now_);
  return did;
}

// Returns true if a packet is in service now. What becomes of those before it
// may stay in out_: it is cheaper to execute all at once.
bool UnitLoop::Begin(LoopUnit& shell) {
  const bool serves = shell.Begin(CallNow(), [&] { ExecuteAll(shell); });
  held_packets_max_ = std::max(held_packets_max_, shell.unit.held_packets());
  if (!serves) {
    shell.service.SeeIdle();
    return false;
  }
  if (links_.turns != nullptr) [[unlikely]] {
    shell.awaits_turn = true;
    links_.turns->on_next(
        shell.unit.id(), std::max(shell.unit.in_service().original_length, 1u));
    return true;
  }
  BeginService(shell);
  return true;
}

// A packet begins when the unit was free, be that long ago, as with one inbox.
bool UnitLoop::TakeTurn(LoopUnit& shell) {
  if (!links_.turns->Begin(shell.unit.id())) return false;
  shell.awaits_turn = false;
  const Instant free_since = links_.turns->last_end(shell.unit.id());
  if (service_.has_value() && free_since != Instant::min()) {
    shell.service.Start(now_ + (free_since - RealClock::Monotonic()));
  }
  BeginService(shell);
  return true;
}

void UnitLoop::EndTurn(const LoopUnit& shell) {
  Instant end = Instant::min();
  if (service_.has_value()) {
    end = RealClock::Monotonic() + (shell.service.end() - now_);
  }
  links_.turns->on_served(shell.unit.id(), end);
}

void UnitLoop::SeeEmpty(LoopUnit& shell) {
  links_.turns->on_empty(shell.unit.id());
  if (!shell.leaves || shell.unit.held_packets() > 0) return;
  shell.leaves = false;
  links_.turns->on_drained(shell.unit.id());
}

inline void UnitLoop::BeginService(LoopUnit& shell) {
  const PacketMeta& meta = shell.unit.in_service();
  const Nanos wait = shell.unit.in_service_wait();
  const bool is_again = shell.unit.in_service_again();
  // Few packets are counted: the call took 15 instructions of each.
  if (!is_again && BeginsMovedFlowlet(meta)) [[unlikely]]
    CountMove(state_, shell.unit.id(), meta, wait);
  if (service_.has_value() && meta.has_payload()) {
    const Nanos takes = service_->ServiceTime(meta.original_length);
    shell.service.Begin(now_, meta.arrival,
                        is_again || wait != Unit::kNeverHeld, takes);
    busy_.ns += takes.ns;
  }
}

void UnitLoop::Finish(LoopUnit& shell) {
  if (out_.room() < kMaxUnitCommandsPerCall) ExecuteAll(shell);
  const size_t before = out_.commands().size();
  shell.Finish(CallNow());
  // Other commands than what becomes of the packet are about the state as it
  // is now, and an entry is about this call.
  if (out_.commands().size() != before + 1 || logs_.has_value()) {
    ExecuteAll(shell);
  }
}

void UnitLoop::ExecuteAll(LoopUnit& shell) {
  using Kind = UnitCommand::Kind;
  if (logs_.has_value()) [[unlikely]] {
    ExecuteLogged(shell);
    return;
  }
  for (const UnitCommand& command : out_.commands()) {
    if (command.kind == Kind::kRelease) [[likely]] {
      links_.to_controller.Send(command).unit = shell.unit.id();
    } else {
      Execute(shell, command);
    }
  }
  out_.clear();
}

class UnitLoop::Outbox {
 public:
  Outbox(UnitLoop& loop, LoopUnit& shell) : loop_(loop), shell_(shell) {}

  void SendPull(const UnitCommand& command) {
    StateStore* const store = loop_.links_.store;
    if (store != nullptr && store->Read(command.pull)) return;
    if (command.to_logger) {
      loop_.logs_->SendPull(command.unit, command.pull);
    } else {
      loop_.SendToUnit(command, {});
    }
  }
  void SendState(const UnitCommand& command,
                 std::span<const std::byte> record) {
    loop_.SendRecord(command, record);
  }
  void SendToUnit(const UnitCommand& command) { loop_.SendToUnit(command, {}); }
  void SendAlias(const UnitCommand& command, const Alias& alias) {
    UnitCommand named = command;
    named.unit = shell_.unit.id();
    loop_.links_.to_controller.Send(named, std::as_bytes(std::span(&alias, 1)));
  }
  void SendToController(const UnitCommand& command) {
    loop_.links_.to_controller.Send(command).unit = shell_.unit.id();
  }
  void Wait() {}
  // All that its NF wrote into tables has to be with the homes first.
  void Stop() {
    if (shell_.tables.joined()) {
      shell_.tables.on_stop();
    } else {
      loop_.SendStopped(shell_.unit.id());
    }
  }

 private:
  UnitLoop& loop_;
  LoopUnit& shell_;
};

void UnitLoop::Execute(LoopUnit& shell, const UnitCommand& command) {
  shell.Send(command, state_, Outbox(*this, shell));
}

void UnitLoop::SendToUnit(const UnitCommand& command,
                          std::span<const std::byte> record) {
  size_t to = value(command.unit) % loops_;
  if (links_.is_relayed) to = to == index_ ? 0 : 1;
  LinkOut& link = links_.to_loops[to];
  if (!link.has_room(record.size())) {
    ++state_.messages_lost;
    return;
  }
  link.Send(command, record);
}

bool UnitLoop::Flush() {
  for (LinkOut& link : links_.to_loops) link.Flush();
  const bool is_logged = !logs_.has_value() || logs_->Flush();
  return links_.to_controller.Flush() && is_logged;
}

void UnitLoop::Publish() {
  uint64_t sent = links_.to_controller.sent_in_all();
  uint64_t received = links_.from_controller.handled();
  for (const LinkOut& link : links_.to_loops) sent += link.sent_in_all();
  for (const LinkIn& link : links_.from_loops) received += link.handled();
  if (links_.from_loggers.has_value()) {
    received += links_.from_loggers->handled();
  }
  if (logs_.has_value()) {
    sent += logs_->sent();
    received += logs_->acknowledged();
  }
  const Instant due = std::min(next_timer_, next_service_end_);
  LoopProgress& progress = *links_.progress;
  progress.seamless.store(state_.seamless, std::memory_order_relaxed);
  progress.pulled.store(state_.pulled, std::memory_order_relaxed);
  progress.buffers.store(links_.buffers.in_use(), std::memory_order_relaxed);
  progress.busy_ns.store(busy_.ns, std::memory_order_relaxed);
  progress.sent.store(sent, std::memory_order_release);
  progress.received.store(received, std::memory_order_release);
  progress.next_due.store(due.ns, std::memory_order_release);
}

UnitLoopFigures UnitLoop::figures() const {
  UnitLoopFigures figures = {.state = state_,
                             .held_packets_max = held_packets_max_,
                             .sleeps = sleeps_,
                             .logs = {},
                             .nf_counts = {}};
  if (logs_.has_value()) figures.logs = logs_->figures();
  for (const LoopUnit& shell : shells_) {
    AddCounters(figures.state.units, shell.unit.counters());
    size_t i = 0;
    for (const NetworkFunction::Part& part : shell.nf->parts()) {
      for (const uint64_t n : part.nf->counts()) {
        if (i == figures.nf_counts.size()) figures.nf_counts.push_back(0);
        figures.nf_counts[i++] += n;
      }
    }
  }
  return figures;
}

}  // namespace snf
