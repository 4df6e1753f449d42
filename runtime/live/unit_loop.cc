// SPDX-License-Identifier: Apache-2.0
#include "runtime/live/unit_loop.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/counters.h"
#include "runtime/core/piece_part.h"
#include "runtime/tables/table_message.h"

namespace snf {

UnitLoop::UnitLoop(const UnitLoopOptions& options, const NfSpec& nf,
                   const RealClock& clock, UnitLoopLinks links)
    : clock_(clock),
      schema_(nf.create()->schema()),
      index_(options.index),
      links_(options, static_cast<uint32_t>(TablesOf(*nf.create()).size()),
             schema_.record_bytes(), std::move(links)),
      reporter_(links_.all().controllers),
      server_(options.service, options.measures_busy, links_.all().turns,
              state_) {
  std::optional<LinkOut>& to_loggers = links_.all().to_loggers;
  std::optional<LinkOut>& to_new_loggers = links_.all().to_new_loggers;
  std::vector<TableShape> logged;
  if (to_new_loggers.has_value()) logged = LoggedTablesOf(*nf.create());
  std::vector<NetworkFunction::Pool> pools;
  const std::unique_ptr<NetworkFunction> example = nf.create();
  for (const NetworkFunction::Pool& pool : example->pools()) {
    pools.push_back(
        PiecePart(pool, options.part, options.parts).value_or(pool));
  }
  HostRecords* const host = links_.all().host;
  if (host != nullptr) host->on_report(reporter_.epoch());
  for (uint32_t i = options.index; i < options.max_units; i += options.loops) {
    const UnitId id{static_cast<uint16_t>(i)};
    std::unique_ptr<NetworkFunction> own = nf.create();
    Unit unit(id, options.unit, schema_, pools);
    if (!logged.empty()) unit.LogTables(TablesOf(*own));
    if (host != nullptr) unit.UseHost(*host);
    UnitTables tables(id, *own, options.tables, !logged.empty());
    shells_.push_back(
        {{.unit = std::move(unit), .nf = std::move(own)}, std::move(tables)});
  }
  shell_of_.resize(options.max_units);
  for (LoopUnit& shell : shells_) shell_of_[value(shell.unit.id())] = &shell;
  for (const LoopUnit& shell : shells_) timers_.Add(shell.next_timer());
  server_.Reserve(shells_.size());
  SNF_CHECK(options.unit.has_logger == to_loggers.has_value());
  SNF_CHECK(to_loggers.has_value() || !to_new_loggers.has_value());
  if (!to_loggers.has_value()) return;
  UnitLogs logs(*std::move(to_loggers), options.max_units, options.incarnation,
                schema_);
  if (to_new_loggers.has_value() && !shells_.empty()) {
    logs.KeepForLoggers(shells_[0].nf->pools(), logged);
  }
  loggers_.emplace(std::move(logs), std::move(to_new_loggers), schema_,
                   links_.all().controllers != nullptr, *links_.all().faults);
}

bool UnitLoop::has_mail() {
  if (links_.has_mail() || reporter_.is_due()) return true;
  return loggers_.has_value() && loggers_->logs().has_released();
}

Nanos UnitLoop::MayWait() const {
  // The clock may skip, unseen; to units that do not run that is nothing.
  const bool is_over = is_asleep() && !(loggers_.has_value() &&
                                        loggers_->logs().has_unreleased());
  const Nanos most = is_over ? Seconds(1) : Milliseconds(10);
  const Instant due = NextDue();
  return due == Instant::max() ? most : std::min(most, due - clock_.Now());
}

bool UnitLoop::AwaitsRelease() const {
  if (!loggers_.has_value()) return false;
  return loggers_->logs().has_awaited() ||
         std::ranges::any_of(shells_, [](const LoopUnit& shell) {
           return shell.unit.is_waiting();
         });
}

void UnitLoop::Run(absl::FunctionRef<bool()> beside) {
  const auto has_work = [this] {
    return control().stops.load(std::memory_order_seq_cst) || has_mail();
  };
  while (!control().stops.load(std::memory_order_relaxed)) {
    const bool did = Turn();
    if (beside() || did) continue;
    const Nanos timeout = MayWait();
    if (timeout.ns < 50'000) continue;
    ++sleeps_;
    using Sleep = Doorbell::Sleep;
    links_.all().bell->Wait(has_work, timeout, Doorbell::spins(),
                            AwaitsRelease() ? Sleep::kLight : Sleep::kDeep);
  }
}

void UnitLoop::Stop() {
  control().stops.store(true, std::memory_order_seq_cst);
  links_.all().bell->Ring();
}

// The side of the loop that PacketServer and LoggedUnits call.
class UnitLoop::Calls {
 public:
  explicit Calls(UnitLoop& loop) : loop_(loop) {}

  UnitCall CallNow() { return loop_.CallNow(); }
  LoopUnit& Shell(UnitId unit) { return loop_.Shell(unit); }
  void Execute(LoopUnit& shell, const UnitCommand& command) {
    loop_.Execute(shell, command);
  }
  void ExecuteAll(LoopUnit& shell) { loop_.ExecuteAll(shell); }
  void ExecuteMore(LoopUnit& shell) { loop_.ExecuteMore(shell); }
  void AfterCall(LoopUnit& shell) { loop_.AfterCall(shell); }
  bool ExecutesEach() const { return loop_.loggers_.has_value(); }
  void NoteTimer(const LoopUnit& shell) { loop_.NoteTimer(shell); }
  void SendToUnit(const UnitCommand& command) { loop_.SendToUnit(command, {}); }
  void SendToController(const UnitCommand& command) {
    loop_.links_.to_controller().Send(command);
  }

 private:
  UnitLoop& loop_;
};

bool UnitLoop::Turn() {
  if (loggers_.has_value() && loggers_->must_hand_over(control())) [[unlikely]]
    return HandOver();
  if (!Flush()) return true;
  bool did = Receive();
  StateStore* const store = links_.all().store;
  if (store != nullptr) [[unlikely]] {
    did |= store->Poll(
        [this](const StoreAnswer& answer) { TakeFromStore(answer); });
  }
  if (loggers_.has_value()) did |= loggers_->HandleReleased(Calls(*this));
  if (now_ >= timers_.next()) {
    timers_.ForEachDue(now_, [this](size_t i) { RunTimers(shells_[i]); });
    did = true;
  }
  did |= server_.ServeAll(now_, Calls(*this));
  // Before anybody can have got any of it: see LoopProgress.
  Publish();
  Flush();
  if (!did && store != nullptr && store->is_waiting()) {
    store->Wait(kStoreWait);
    return true;
  }
  return did;
}

bool UnitLoop::Receive() {
  links_.Receive();
  if (loggers_.has_value()) loggers_->LookForReleased(index_);
  // Read after the messages were taken: what they speak of has happened by
  // then.
  now_ = clock_.Now();
  if (reporter_.is_due()) [[unlikely]] {
    MakeReport();
    HandleLinks();
    return true;
  }
  return HandleLinks() > 0;
}

// Turns words into calls.
class UnitLoop::Inbox {
 public:
  explicit Inbox(UnitLoop& loop) : loop_(loop) {}

  void on_order(const ControllerCommand& order) { loop_.Handle(order); }
  void on_table(const TableMessage& message) { loop_.Handle(message); }
  void on_name(UnitId unit, const FlowName& name) {
    loop_.on_name(loop_.Shell(unit), name);
  }
  void on_state(const ControllerCommand& order,
                std::span<const std::byte> record) {
    loop_.TakeState(order, record);
  }
  void on_message(const UnitCommand& message,
                  std::span<const std::byte> record) {
    loop_.Handle(message, record);
  }

 private:
  UnitLoop& loop_;
};

size_t UnitLoop::HandleController() {
  return links_.HandleController(Inbox(*this));
}

size_t UnitLoop::HandleLinks() {
  size_t messages = HandleController();
  messages += links_.HandleUnits(Inbox(*this));
  if (queries_ > 0) [[unlikely]]
    AnswerQueries();
  return messages;
}

inline void UnitLoop::Handle(const ControllerCommand& command) {
  if (command.kind == ControllerCommand::Kind::kEnqueue) [[likely]] {
    // It neither commands anything nor arms a timer.
    LoopUnit& shell = Shell(command.unit);
    if (!shell.unit.has_room()) [[unlikely]] {
      links_.Refuse("packet", "number", command.meta.channel_number);
      return;
    }
    shell.unit.on_packet(command.packet, command.meta);
    server_.List(shell);
  } else {
    HandleOther(command);
  }
}

void UnitLoop::HandleOther(const ControllerCommand& command) {
  using Kind = ControllerCommand::Kind;
  if (command.kind == Kind::kDrop) {
    // The buffer comes back to its owner.
    if (links_.buffers().Return(command.packet)) return;
    links_.Refuse("drop", "packet", value(command.packet));
    return;
  }
  LoopUnit& shell = Shell(command.unit);
  out_.clear();
  switch (command.kind) {
    case Kind::kStartUnit:
      Start(shell, command.incarnation);
      break;
    case Kind::kParkUnit:
      shell.ready = false;
      return;
    case Kind::kDoneQuery:
      queries_ += shell.asked_round == 0 ? 1 : 0;
      shell.asked_round = command.done_query.round;
      return;
    case Kind::kAskState:
      ShowState(shell, command.end.flow);
      return;
    case Kind::kTakeState:
      TakeState(command, {});
      return;
    case Kind::kAliasAck:
      if (loggers_.has_value()) {
        loggers_->logs().on_alias_ack(command.unit, command.alias_ack);
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

void UnitLoop::Start(LoopUnit& shell, uint32_t incarnation) {
  const UnitId unit = shell.unit.id();
  // The unit may have obeyed a Stop that was withdrawn meanwhile.
  shell.unit.on_start();
  shell.leaves = shell.has_left = false;
  if (links_.all().turns != nullptr) links_.all().turns->on_start(unit);
  shell.incarnation = incarnation;
  shell.tables.on_ready(now_, shell.tables.are_logged()
                                  ? loggers_->logs().incarnation()
                                  : incarnation);
  shell.ready = true;
  server_.on_start(now_, shell);
  links_.all().progress->started.store(RealClock::Monotonic().ns,
                                       std::memory_order_relaxed);
}

void UnitLoop::Handle(const UnitCommand& message,
                      std::span<const std::byte> record) {
  if (message.kind == UnitCommand::Kind::kUpdatesMerged) [[unlikely]] {
    if (loggers_.has_value()) {
      loggers_->logs().on_updates_merged(message.unit, message.entry);
    }
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
  links_.to_controller().Send(Cell::OfTable(),
                              std::as_bytes(std::span(&message, 1)));
}

void UnitLoop::SendStopped(UnitId unit) {
  UnitCommand stopped = UnitCommand::Stopped();
  stopped.unit = unit;
  if (loggers_.has_value()) {
    loggers_->logs().SendStopped(unit);
  } else {
    links_.to_controller().Send(stopped);
  }
  if (links_.all().turns == nullptr) return;
  Shell(unit).has_left = true;
  links_.all().turns->on_stopped(unit);
}

void UnitLoop::AfterCall(LoopUnit& shell) {
  ExecuteMore(shell);
  shell.tables.on_called(now_);
  NoteTimer(shell);
  server_.List(shell);
}

void UnitLoop::RunTimers(LoopUnit& shell) {
  if (shell.unit.next_wakeup() <= now_) {
    out_.clear();
    if (control().stops_timers.load(std::memory_order_relaxed)) {
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

void UnitLoop::ExecuteAll(LoopUnit& shell) {
  using Kind = UnitCommand::Kind;
  if (loggers_.has_value()) [[unlikely]] {
    ExecuteLogged(shell);
    return;
  }
  for (const UnitCommand& command : out_.commands()) {
    if (command.kind == Kind::kRelease) [[likely]] {
      links_.to_controller().Send(command).unit = shell.unit.id();
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
    StateStore* const store = loop_.links_.all().store;
    if (store != nullptr && store->Read(command.pull)) return;
    if (command.to_logger) {
      loop_.loggers_->logs().SendPull(command.unit, command.pull);
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
    loop_.links_.to_controller().Send(named,
                                      std::as_bytes(std::span(&alias, 1)));
  }
  void SendToController(const UnitCommand& command) {
    loop_.links_.to_controller().Send(command).unit = shell_.unit.id();
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
  if (!links_.SendToUnit(command, record)) ++state_.messages_lost;
}

bool UnitLoop::Flush() {
  links_.FlushToUnits();
  const bool is_logged = !loggers_.has_value() || loggers_->logs().Flush();
  return links_.to_controller().Flush() && is_logged;
}

void UnitLoop::Publish() {
  uint64_t sent = links_.sent();
  uint64_t received = links_.handled();
  if (loggers_.has_value()) {
    sent += loggers_->logs().sent();
    received += loggers_->logs().acknowledged();
  }
  LoopProgress& progress = *links_.all().progress;
  progress.seamless.store(state_.seamless, std::memory_order_relaxed);
  progress.pulled.store(state_.pulled, std::memory_order_relaxed);
  progress.buffers.store(buffers_in_use(), std::memory_order_relaxed);
  progress.busy_ns.store(server_.busy().ns, std::memory_order_relaxed);
  progress.sent.store(sent, std::memory_order_release);
  progress.received.store(received, std::memory_order_release);
  progress.next_due.store(NextDue().ns, std::memory_order_release);
}

UnitLoopFigures UnitLoop::figures() const {
  UnitLoopFigures figures = {.state = state_,
                             .held_packets_max = server_.held_packets_max(),
                             .sleeps = sleeps_,
                             .logs = {},
                             .nf_counts = {}};
  if (loggers_.has_value()) figures.logs = loggers_->logs().figures();
  for (const LoopUnit& shell : shells_) shell.AddTo(figures);
  return figures;
}

// --- Output loggers. ---

void UnitLoop::ExecuteLogged(LoopUnit& shell) {
  loggers_->Execute(shell, Calls(*this));
}

// Returns true, as there was something to do.
bool UnitLoop::HandOver() {
  const uint32_t process =
      control().logger_process.load(std::memory_order_acquire);
  if (loggers_->must_begin(process)) {
    loggers_->LookForReleased(index_);
    now_ = clock_.Now();
    loggers_->HandleReleased(Calls(*this));
    Publish();
    Flush();
    loggers_->BeginHandover(process, shells_);
  }
  loggers_->HandOver();
  return true;
}

// --- A store. ---

void UnitLoop::TakeFromStore(const StoreAnswer& answer) {
  LoopUnit& shell = Shell(answer.unit);
  bool has_more = true;
  while (has_more) {
    out_.clear();
    if (answer.is_there) {
      shell.unit.on_state(now_, answer.state, answer.record, out_);
    }
    has_more =
        !answer.is_there && shell.unit.on_store_silent(answer.state.flow, out_);
    AfterCall(shell);
  }
}

void UnitLoop::SendRecord(const UnitCommand& command,
                          std::span<const std::byte> record) {
  StateStore* const store = links_.all().store;
  if (store == nullptr) {
    SendToUnit(command, record);
  } else {
    store->Write(command.state, record);
  }
}

// --- Failures. ---

void UnitLoop::AnswerQueries() {
  for (LoopUnit& shell : shells_) {
    const uint32_t round = std::exchange(shell.asked_round, 0);
    if (round == 0) continue;
    UnitReporter::Answer(shell, round, links_.to_controller());
  }
  queries_ = 0;
}

void UnitLoop::on_name(LoopUnit& shell, const FlowName& name) {
  if (loggers_.has_value() && loggers_->hands_over()) {
    loggers_->logs().SendName(shell.unit.id(), name);
  }
  UnitReporter::Keep(shell, name);
}

void UnitLoop::ShowState(const LoopUnit& shell, FlowId flow) {
  const std::optional<State> state = shell.unit.StateToShow(flow);
  LinkOut& to_controller = links_.to_controller();
  // A controller that gets no answer asks again.
  if (!state.has_value() || !to_controller.has_room(kMaxShownBytes)) return;
  to_controller.Send(
      UnitCommand::Show(shell.unit.id(), *state),
      shell.unit.bytes_of(*state).first(RecordBytesOfShown(*state)));
}

void UnitLoop::TakeState(const ControllerCommand& order,
                         std::span<const std::byte> record) {
  LoopUnit& shell = Shell(order.unit);
  out_.clear();
  // A record that is not the NF's is counted (records_refused), and the flow
  // waits for state that does not come: the controller checks the record.
  shell.unit.on_handed_over(now_, order.state, record);
  AfterCall(shell);
}

// The predecessor has failed, so its ring gets no more.
void UnitLoop::MakeReport() {
  const uint32_t epoch = reporter_.newest();
  LinkIn& link = links_.all().from_controller;
  while (HandleController() > 0 || link.has_items()) {
    if (link.is_closed()) return;
    link.Receive();
  }
  UnitTurns* const turns = links_.all().turns;
  for (LoopUnit& shell : shells_) {
    shell.unit.on_start();  // a Stop is void from now on
    if (shell.incarnation > 0 && !shell.has_left) {
      shell.tables.on_ready(now_, shell.incarnation);
      NoteTimer(shell);
    }
    if (turns != nullptr && shell.ready && !shell.has_left) {
      shell.leaves = false;
      turns->on_start(shell.unit.id());
    }
  }
  reporter_.Report(epoch, shells_, links_.to_controller(), loggers_->logs());
  HostRecords* const host = links_.all().host;
  if (host != nullptr) host->on_report(epoch);
}

}  // namespace snf
