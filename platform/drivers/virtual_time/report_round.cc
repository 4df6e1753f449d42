// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_time/report_round.h"

#include <algorithm>

#include "base/check.h"
#include "controller/core/failover.h"
#include "platform/drivers/virtual_time/log_channel.h"

namespace snf {
namespace {

// Lets a unit go on that obeyed a withdrawn Stop while packets were in its
// channel.
void GoOnIfAwaited(UnitProcess& process) {
  if (process.state == UnitProcess::State::kStopped && process.in_channel > 0) {
    process.state = UnitProcess::State::kRuns;
  }
}

}  // namespace

ReportRound::ReportRound(const RunOptions& options, Loggers& loggers,
                         Controller& controller, VirtualUnits& units,
                         VirtualNetwork& network, Observers& observers,
                         KeptByUnits& kept, Succession& succession,
                         std::vector<Held>& held, Rng& rng)
    : options_(options),
      loggers_(loggers),
      controller_(controller),
      units_(units),
      network_(network),
      observers_(observers),
      kept_(kept),
      succession_(succession),
      held_(held),
      rng_(rng),
      of_units_(options.controller.max_units) {}

void ReportRound::Begin() {
  reports_.clear();
  for (uint32_t i = 0; i < of_units_.size(); ++i) {
    AskUnit(UnitId{static_cast<uint16_t>(i)});
  }
}

void ReportRound::Forget() {
  for (OfUnit& of : of_units_) of = {};
}

void ReportRound::Await(size_t source, Event query) {
  succession_.Await(source);
  const auto more = static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(
      std::max(kQueryJitterNs, options_.chaos.state_delay_max.ns))));
  query.epoch = epoch();
  network_.After(Nanos{options_.hop_delay.ns + more}, query);
}

// The resource manager reports units without a process, and units known to have
// failed. A unit whose death is not detected yet is asked like a live one.
void ReportRound::AskUnit(UnitId unit) {
  using ProcessState = UnitProcess::State;
  OfUnit& of = Of(unit);
  const bool was_never_warm = kept_.incarnation(unit) == 0 &&
                              (options_.controller.leased ||
                               value(unit) >= options_.controller.warm_units);
  UnitReport report = {.unit = unit, .incarnation = kept_.incarnation(unit)};
  if (was_never_warm) {
    succession_.rebuild().on_unit(report);
    return;
  }
  VirtualUnit& shell = units_.of(unit);
  GoOnIfAwaited(shell.process);
  const ProcessState state = shell.process.state;
  if (state == ProcessState::kRuns || state == ProcessState::kDead) {
    of.is_asked = true;
    Await(SourceOf(unit), Event::OfUnit(Event::Kind::kReportQueryAtUnit, unit));
  } else {
    of.is_heard = true;
    report.was_sealed =
        state == ProcessState::kFailed || shell.log->logger().was_sealed();
    report.has_failed = state == ProcessState::kFailed &&
                        succession_.known(controller_).units().state(unit) !=
                            UnitPool::State::kCrashed;
    succession_.rebuild().on_unit(report);
  }
  // A logger that is being replaced has nothing that its unit does not report.
  const bool may_keep_flows =
      shell.log->logger().was_sealed() && !shell.log->failure.has_value();
  if (state == ProcessState::kFailed || may_keep_flows) AskLogger(unit);
}

void ReportRound::AskLogger(UnitId unit) {
  Of(unit).logger = {.is_awaited = true};
  Await(LoggerSourceOf(unit),
        Event::OfUnit(Event::Kind::kReportQueryAtLogger, unit));
}

// The unit may have died since, and another process of it begun.
void ReportRound::on_unit_query(UnitId unit) {
  if (Of(unit).is_asked && !has_reported(unit)) MakeReport(unit);
}

void ReportRound::on_logger_query(UnitId unit) {
  if (!Of(unit).logger.has_reported) MakeLoggerReport(unit);
}

void ReportRound::MakeReportsBefore(const Event& event) {
  if (MustLoggerReportFirst(event)) MakeLoggerReport(event.unit);
  if (MustReportFirst(event)) MakeReport(event.unit);
}

// Collects the report of a unit; open requests wait behind it.
class ReportRound::Collector final : public Unit::Report {
 public:
  Collector(UnitReports& reports, std::vector<Held>& asks)
      : reports_(reports), asks_(asks) {}
  void on_flow(const FlowReport& flow) override {
    reports_.flows.push_back(flow);
  }
  void on_packet(const PacketReport& packet) override {
    reports_.packets.push_back(packet);
  }
  void on_open_alias(const Alias& alias) override {
    asks_.push_back({.event = Event::Of(
                         Event::Kind::kToController, reports_.unit.unit,
                         {.kind = UnitCommand::Kind::kSendAlias, .ended = {}}),
                     .alias = alias});
  }
  void on_open_request(const PieceRequest& request) override {
    asks_.push_back(
        {.event = Event::Of(Event::Kind::kToController, reports_.unit.unit,
                            UnitCommand::Send(request)),
         .alias = {}});
  }

 private:
  UnitReports& reports_;
  std::vector<Held>& asks_;
};

UnitReport ReportRound::StandingOf(VirtualUnit& shell) {
  const UnitId self = shell.unit.id();
  UnitReport unit = {.unit = self,
                     .was_sealed = shell.log->logger().was_sealed(),
                     .incarnation = kept_.incarnation(self),
                     .grants = kept_.report(self).grants()};
  for (const auto& [name, inside] : shell.process.inside) {
    ++unit.slots;
    unit.bytes += controller_.CostOf(inside.meta.original_length);
  }
  SNF_CHECK(unit.slots == shell.process.in_channel);
  // If packets wait in a unit whose start has failed, it is started again.
  if (!shell.process.is_up && unit.slots > 0) {
    shell.process.is_up = true;
    observers_.on_unit_up(network_.now(), self);
  }
  unit.state = shell.ready           ? UnitReport::State::kActive
               : shell.process.is_up ? UnitReport::State::kStarting
                                     : UnitReport::State::kWarm;
  return unit;
}

// Returns true if the event's sender has reported, and its receiver has not. A
// unit that was not asked has nothing to report. A unit drops its copy of what
// its own logger has taken, so it reports before it hears of that.
bool ReportRound::MustReportFirst(const Event& event) const {
  const bool is_taken = event.kind == Event::Kind::kTakenAtUnit;
  if (!is_gathering() || (!is_taken && !event.is_between_units())) {
    return false;
  }
  const OfUnit& of = of_units_[value(event.unit)];
  return of.is_asked && !of.has_reported &&
         (is_taken ? of.logger.has_reported : event.epoch == epoch());
}

// As MustReportFirst, of a logger, which also gets the Takeovers to a dead
// unit.
bool ReportRound::MustLoggerReportFirst(const Event& event) const {
  if (!is_gathering()) return false;
  const bool is_for_dead =
      event.is_between_units() &&
      event.command.kind == UnitCommand::Kind::kSendTakeover &&
      !units_.of(event.unit).process.lives();
  if (!is_for_dead && !event.is_to_other_logger()) return false;
  const OfLogger& of = of_units_[value(event.unit)].logger;
  return of.is_awaited && !of.has_reported && event.epoch == epoch();
}

// If a unit's death is known, its logger seals the unit; the logger's answers
// are its report (on_logger_report).
void ReportRound::MakeLoggerReport(UnitId self) {
  VirtualUnit& shell = units_.of(self);
  OfUnit& of = Of(self);
  of.logger.has_reported = true;
  shell.process.log_epoch = epoch();
  const uint32_t round = Failover::FirstRound({.epoch = epoch()});
  // A logger that is being replaced has nothing that its unit does not report;
  // and its unit may wait for an answer of the successor.
  if (shell.log->failure.has_value()) {
    network_.AfterHop(
        Event::Of(Event::Kind::kFromLogger,
                  UnitCommand::Done({.round = round, .unit = self})));
    return;
  }
  const bool has_failed = shell.process.state == UnitProcess::State::kFailed;
  loggers_.SealLogger({.unit = self,
                       .is_sealed = !has_failed || shell.log->logger().sealed(),
                       .incarnation = kept_.incarnation(self),
                       .round = round});
}

void ReportRound::MakeReport(UnitId self) {
  VirtualUnit& shell = units_.of(self);
  // A dead unit reports nothing.
  if (!shell.process.lives()) return;
  OfUnit& of = Of(self);
  of.has_reported = true;
  shell.process.epoch = epoch();
  // A Stop is void from now on.
  if (shell.stopping || shell.leaves) {
    shell.stopping = shell.leaves = shell.log->has_stopped = false;
    shell.unit.on_start();
  }
  UnitReports& reports = reports_.emplace_back();
  // The process may have ended meanwhile, by a Stop of the dead controller.
  GoOnIfAwaited(shell.process);
  if (shell.process.state == UnitProcess::State::kStopped) {
    reports.unit = {.unit = self, .incarnation = kept_.incarnation(self)};
  } else {
    reports.unit = StandingOf(shell);
    std::vector<Held> asks;
    Collector collector(reports, asks);
    shell.unit.MakeReport(collector);
    for (Held& ask : asks) {
      ask.event.life = shell.process.life;
      held_.push_back(ask);
    }
    kept_.report(self).ForEachName(
        [&](const FlowName& name) { reports.names.push_back(name); });
    kept_.report(self).ForEachGrant(
        [&](const GrantReport& grant) { reports.grants.push_back(grant); });
    // Ends of flows that the logger may not have yet.
    const LogChannel& log = *shell.log;
    for (uint64_t n = log.first(); !log.entry(n).empty(); ++n) {
      const auto entry = log.Parse(log.entry(n));
      SNF_CHECK(entry.has_value());
      if (!(*entry)->is(LogEntry::kEnd)) continue;
      reports.flows.push_back({.flow = (*entry)->meta.flow,
                               .clock = Clock{value((*entry)->meta.clock) - 1},
                               .unit = self,
                               .kind = FlowReport::Kind::kEnd});
    }
  }
  network_.AfterHop({.kind = Event::Kind::kReportAtController,
                     .epoch = epoch(),
                     .number = reports_.size() - 1});
}

bool ReportRound::on_report(uint64_t number) {
  const UnitReports& reports = reports_[number];
  Of(reports.unit.unit).is_heard = true;
  Rebuild& rebuild = succession_.rebuild();
  for (const FlowName& name : reports.names) rebuild.on_name(name);
  for (const FlowReport& flow : reports.flows) rebuild.on_flow(flow);
  for (const PacketReport& packet : reports.packets) {
    rebuild.on_packet(packet);
  }
  for (const GrantReport& grant : reports.grants) rebuild.on_grant(grant);
  rebuild.on_unit(reports.unit);
  succession_.on_reported(SourceOf(reports.unit.unit));
  return true;
}

// A logger reports a flow, or, with kNoFlow, the end of its report.
bool ReportRound::on_logger_report(const DoneAnswer& answer) {
  Rebuild& rebuild = succession_.rebuild();
  if (answer.flow != kNoFlow) {
    rebuild.on_flow({.flow = answer.flow,
                     .clock = answer.applied,
                     .unit = answer.unit,
                     .kind = answer.is_over ? FlowReport::Kind::kOverAtLogger
                                            : FlowReport::Kind::kAtLogger});
    return false;
  }
  kept_.report(answer.unit).ForEachName([&](const FlowName& name) {
    rebuild.on_name(name);
  });
  succession_.on_reported(LoggerSourceOf(answer.unit));
  return true;
}

bool ReportRound::on_failure(UnitId unit) {
  OfUnit& of = Of(unit);
  if (!of.is_asked) return false;
  of.is_asked = false;
  of.is_heard = true;
  UnitReport report = {.unit = unit,
                       .was_sealed = true,
                       .has_failed = true,
                       .incarnation = kept_.incarnation(unit)};
  succession_.rebuild().on_unit(report);
  // The logger's earlier report lacks what its unit did since.
  succession_.rebuild().ForgetLogger(unit);
  if (!of.logger.is_awaited || of.logger.has_reported) AskLogger(unit);
  succession_.on_reported(SourceOf(unit));
  return true;
}

}  // namespace snf
