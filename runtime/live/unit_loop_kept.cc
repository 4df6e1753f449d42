// SPDX-License-Identifier: Apache-2.0
//
// What a loop of units does where what its units did is kept outside of them:
// by output loggers, or in a store; and what it reports of it to a controller
// that takes the place of one that has failed.
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "runtime/live/unit_loop.h"

namespace snf {
namespace {

// Sends what a unit reports, and keeps what it waits for.
class Sender final : public Unit::Report {
 public:
  explicit Sender(LinkOut& out) : out_(out) {}
  void on_flow(const FlowReport& flow) override {
    out_.Send(UnitCommand::Of(flow));
  }
  void on_packet(const PacketReport& packet) override {
    out_.Send(UnitCommand::Of(UnitCommand::Kind::kReportPacket, packet));
  }
  void on_parked(const PacketReport& packet) override {
    out_.Send(UnitCommand::Of(UnitCommand::Kind::kReportParked, packet));
  }
  void on_open_alias(const Alias& alias) override { aliases_.push_back(alias); }
  void on_open_request(const PieceRequest& request) override {
    requests_.push_back(request);
  }

  // Asks the new controller.
  void AskAgain() {
    for (const Alias& alias : aliases_) {
      UnitCommand ask =
          UnitCommand::OfPacket(UnitCommand::Kind::kSendAlias, kNoPacket, {});
      ask.unit = alias.unit;
      ask.meta.flow = alias.flow;
      ask.meta.clock = alias.clock;
      out_.Send(ask, std::as_bytes(std::span(&alias, 1)));
    }
    for (const PieceRequest& request : requests_) {
      UnitCommand ask = UnitCommand::Send(request);
      ask.unit = request.unit;
      out_.Send(ask);
    }
  }

 private:
  LinkOut& out_;
  std::vector<Alias> aliases_;
  std::vector<PieceRequest> requests_;
};

// Finds the flows of which packets are in a unit.
class Flows final : public Unit::Report {
 public:
  void on_flow(const FlowReport& /*flow*/) override {}
  void on_packet(const PacketReport& packet) override {
    flows_.insert(packet.meta.flow);
  }
  void on_open_alias(const Alias& /*alias*/) override {}
  void on_open_request(const PieceRequest& /*request*/) override {}
  bool Has(FlowId flow) const { return flows_.contains(flow); }

 private:
  absl::flat_hash_set<FlowId> flows_;
};

}  // namespace

// --- Output loggers. ---

// What a unit commands in one call is for its logger first.
void UnitLoop::ExecuteLogged(LoopUnit& shell) {
  for (const UnitCommand& command : out_.commands()) {
    if (!logs_->Take(command, shell.unit)) Execute(shell, command);
    if (shell.tables.are_logged()) {
      shell.tables.on_logged(logs_->updates(shell.unit.id()));
    }
  }
  logs_->EndCall(shell.unit.id());
  out_.clear();
}

void UnitLoop::LookForReleased() {
  logs_->LookForReleased();
  if (!logs_->TakeFault()) [[likely]]
    return;
  links_.faults->Add({.loop = index_,
                      .kind = "ring",
                      .field = "position",
                      .value = logs_->acknowledged(),
                      .of_logger = true});
}

// Returns true if there was any. What follows each call of a unit follows the
// last of them.
bool UnitLoop::HandleReleased() {
  LoopUnit* shell = nullptr;
  while (const UnitLogs::Sent* const next = logs_->NextReleased()) {
    const UnitLogs::Sent entry = *next;
    logs_->PopReleased();
    LoopUnit* const of_entry = &Shell(entry.unit);
    if (shell != nullptr && shell != of_entry) AfterCall(*shell);
    shell = of_entry;
    on_released(*shell, entry);
  }
  if (shell == nullptr) return false;
  AfterCall(*shell);
  return true;
}

void UnitLoop::on_released(LoopUnit& shell, const UnitLogs::Sent& entry) {
  out_.clear();
  if (entry.kind == LogEntry::Kind::kForget) {
    // It is given up, or a controller that may fail has told of the taker.
    if (entry.taker == kNoUnit) {
      if (links_.controllers == nullptr) return;
      UnitCommand gone = UnitCommand::Report({.flow = entry.meta.flow,
                                              .clock = entry.meta.clock,
                                              .taker = entry.unit});
      gone.unit = entry.unit;
      links_.to_controller.Send(gone);
      return;
    }
    SendToUnit(
        UnitCommand::Send(entry.taker, TakeoverAck{.flow = entry.meta.flow,
                                                   .clock = entry.meta.clock,
                                                   .sender = entry.unit}),
        {});
    return;
  }
  if (entry.kind != LogEntry::Kind::kClock) return;
  // The controller has ended the flow by itself.
  if (entry.is_end()) {
    logs_->SendEnded(entry.unit, entry.meta.flow, entry.meta.clock);
  }
  for (uint32_t i = 0; i < entry.gives; ++i) {
    shell.unit.on_pieces_released(logs_->TakeGiven(), out_);
    ExecuteMore(shell);
  }
  shell.on_released(CallNow(), entry.meta);
  ExecuteMore(shell);
}

// --- Failures of loggers. ---

// Returns true, as there was something to do. Entries for which the ring has no
// room stay here: its reader waits for what is handed over. So does whoever
// waits for the answer of a controller that has failed, whose successor waits
// for the loggers to report.
bool UnitLoop::HandOver() {
  const uint32_t process =
      links_.control->logger_process.load(std::memory_order_acquire);
  if (std::exchange(handing_over_, process) != process) {
    LookForReleased();
    now_ = clock_.Now();
    HandleReleased();
    Publish();
    Flush();
    std::vector<LogHandover::Kept> units;
    for (const LoopUnit& shell : shells_) {
      units.push_back({.unit = &shell.unit, .names = &shell.kept});
    }
    handover_->Begin(process, *logs_, std::move(units));
  }
  if (handover_->Send()) handed_over_ = process;
  return true;
}

// --- Failures of units. ---

// All at once: flows that come or go meanwhile could be left out.
void UnitLoop::AnswerQueries() {
  for (LoopUnit& shell : shells_) {
    const uint32_t round = std::exchange(shell.asked_round, 0);
    if (round == 0) continue;
    DoneAnswer last = {.round = round, .unit = shell.unit.id()};
    for (uint32_t at = 0;;) {
      auto done = shell.unit.NextDone(at);
      if (!done.has_value()) break;
      done->round = round;
      links_.to_controller.Send(UnitCommand::Done(*done));
    }
    links_.to_controller.Send(UnitCommand::Done(last));
  }
  queries_ = 0;
}

// --- A store. ---

bool UnitLoop::PollStore() {
  return links_.store->Poll(
      [this](const StoreAnswer& answer) { TakeFromStore(answer); });
}

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
  if (links_.store == nullptr) {
    SendToUnit(command, record);
  } else {
    links_.store->Write(command.state, record);
  }
}

// --- Another controller. ---

void UnitLoop::on_name(LoopUnit& shell, const FlowName& name) {
  if (handover_.has_value()) logs_->SendName(shell.unit.id(), name);
  std::optional<Flows> flows;
  shell.kept.on_name(name, [&](FlowId flow) {
    if (shell.unit.Keeps(flow)) return true;
    if (!flows.has_value()) {
      flows.emplace();
      shell.unit.MakeReport(*flows);
    }
    return flows->Has(flow);
  });
}

// Whether it is starting, and what it has of its channel, is not for the unit
// to say; its logger says what it was granted.
UnitReport UnitLoop::StandingOf(const LoopUnit& shell) const {
  UnitReport standing = {.unit = shell.unit.id(),
                         .incarnation = shell.incarnation};
  if (shell.has_left) return standing;  // its lease is over
  if (shell.ready) {
    standing.state = UnitReport::State::kActive;
  } else if (shell.incarnation > 0) {
    standing.state = UnitReport::State::kWarm;
  }
  return standing;
}

// The controller before has failed, so its ring gets no more.
void UnitLoop::MakeReport() {
  const uint32_t epoch =
      links_.controllers->newest.load(std::memory_order_acquire);
  while (HandleController() > 0 || links_.from_controller.has_items()) {
    if (links_.from_controller.is_closed()) return;
    links_.from_controller.Receive();
  }
  epoch_ = epoch;
  if (shells_.empty()) return;
  LinkOut& out = links_.to_controller;
  Sender sender(out);
  for (LoopUnit& shell : shells_) {
    shell.unit.on_start();  // a Stop is void from now on
    if (shell.incarnation > 0 && !shell.has_left) {
      shell.tables.on_ready(now_, shell.incarnation);
      NoteTimer(shell);
    }
    const UnitId unit = shell.unit.id();
    if (links_.turns != nullptr && shell.ready && !shell.has_left) {
      shell.leaves = false;
      links_.turns->on_start(unit);
    }
    shell.kept.ForEachName([&](const FlowName& name) {
      out.Send(UnitCommand::OfName(unit), std::as_bytes(std::span(&name, 1)));
    });
    // One that is starting has packets as well.
    shell.unit.MakeReport(sender);
    out.Send(UnitCommand::Of(StandingOf(shell)));
  }
  // The marks of ends that the loggers may not have.
  logs_->ForEachUnreleased([&](const UnitLogs::Sent& sent) {
    if (!sent.is_end()) return;
    out.Send(
        UnitCommand::Of(FlowReport{.flow = sent.meta.flow,
                                   .clock = Clock{value(sent.meta.clock) - 1},
                                   .unit = sent.unit,
                                   .kind = FlowReport::Kind::kEnd}));
  });
  out.Send(UnitCommand::Reported(shells_[0].unit.id(), epoch));
  logs_->SendReport(epoch);
  sender.AskAgain();
}

}  // namespace snf
