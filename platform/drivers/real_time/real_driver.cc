// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_time/real_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "base/quantity.h"
#include "controller/rebuild/lease_finder.h"
#include "platform/drivers/loops/unit_process.h"
#include "platform/drivers/real_time/loop_options.h"
#include "platform/drivers/real_time/real_drain.h"
#include "platform/drivers/real_time/real_setup.h"
#include "platform/run/figures/run_totals.h"
#include "platform/run/figures/table_totals.h"
#include "platform/run/flow_keys.h"
#include "platform/run/run_setup.h"
#include "runtime/shell/state_figures.h"
#include "runtime/tables/table_homes.h"

namespace snf {
namespace {

absl::Status NoneMayDie() {
  return absl::FailedPreconditionError(
      "only processes with loggers can be killed: use --isolation=process or "
      "lxc, and --loggers=on");
}

}  // namespace

// --- The start. ---

absl::StatusOr<std::unique_ptr<RealDriver>> RealDriver::Start(
    const RunOptions& options, const RealOptions& real,
    const PlacementPolicy& policy, const NfSpec& nf, Observers observers) {
  auto setup = RealSetup::Make(options, real, nf);
  if (!setup.ok()) return setup.status();
  std::unique_ptr<RealDriver> driver(
      new RealDriver(*setup, policy, nf, std::move(observers)));
  if (auto s = driver->OpenStores(setup->layout.loops); !s.ok()) return s;
  const bool has_processes = setup->real.isolation != Isolation::kThread;
  const absl::Status started = has_processes
                                   ? driver->StartProcesses(nf, *setup)
                                   : driver->StartThreads(nf, *setup);
  if (!started.ok()) return started;
  if (driver->is_heir_) {
    if (auto s = driver->TakeOver(); !s.ok()) return s;
  }
  return driver;
}

RealDriver::RealDriver(RealSetup& setup, const PlacementPolicy& policy,
                       const NfSpec& nf, Observers observers)
    : nf_(nf),
      options_(setup.run),
      real_(setup.real),
      example_(nf.create()),
      is_heir_(setup.kept.has_value()),
      logs_tables_(LogsTables(setup, *example_)),
      result_(EmptyResult(*example_)),
      region_(std::move(setup.region)),
      tables_region_(std::move(setup.tables)),
      controller_bell_(region_.controller.bell),
      ingress_(options_, *example_, region_.buffers),
      loop_(ControllerLoopOptionsOf(setup, *example_), policy,
            HomesOf(setup, *example_, tables_region_, *region_.clock),
            *region_.clock, TakeLinks()),
      egress_(options_, WithTap(std::move(observers)), ingress_,
              region_.buffers, loop_, result_),
      look_(options_, real_, *example_, region_.loops, loop_, egress_, result_),
      failure_(*region_.faults, region_.buffers, *this, real_.interrupted),
      turns_(loop_, egress_, look_, parts_, real_.notice),
      patience_(PatienceOf(setup)),
      intake_(options_, real_, patience_, IntakeRun()),
      known_flows_(options_, *example_, loop_, *region_.clock),
      pieces_(*example_, options_.controller.controller_id, real_.controllers,
              loop_, egress_) {
  ingress_.KeepEarlyFragments();
  const auto prepare = [this](Controller& controller) {
    AddPiecePools(*example_, controller, options_.controller.controller_id,
                  real_.controllers);
  };
  prepare(loop_.controller());
  if (is_heir_) {
    loop_.set_prepare(prepare, [this](const Controller&) {
      if (real_.keep->settle != nullptr) real_.keep->settle(*this);
    });
  }
  if (options_.faults.any_controller()) {
    controller_faults_.emplace(options_, real_.notice, prepare, loop_, egress_,
                               result_.controller_faults);
    parts_.controller_faults = &*controller_faults_;
  }
  if (real_.aliases != nullptr) ingress_.set_listener(*real_.aliases);
  if (real_.lease_finder != nullptr) {
    loop_.set_lease_finder(*real_.lease_finder);
  }
}

ControllerLinks RealDriver::TakeLinks() {
  region_.controller.buffers = &region_.buffers;
  return std::move(region_.controller);
}

Observers RealDriver::WithTap(Observers observers) {
  if (real_.watch != nullptr) {
    const NfCallNames& flows = *this;  // a private base
    tap_.emplace(*real_.watch, flows);
    observers.Add(*tap_);
  }
  return observers;
}

PacedIntake::Run RealDriver::IntakeRun() {
  return {.ingress = ingress_,
          .loop = loop_,
          .egress = egress_,
          .turns = turns_,
          .parts = parts_,
          .failure = failure_,
          .clock = *region_.clock,
          .result = result_};
}

RealDriver::~RealDriver() {
  nf_call.names = nullptr;
  StopWorkers();
}

absl::Status RealDriver::OpenStores(uint32_t loops) {
  if (options_.state != StateMode::kExternal) return absl::OkStatus();
  auto redis = RunRedis::Open(real_.redis, options_.store);
  if (!redis.ok()) return redis.status();
  redis_ = *std::move(redis);
  failure_.WatchStore(*redis_, options_.store.patience);
  for (uint32_t i = 0; i < loops; ++i) stores_.push_back(redis_->MakeStore());
  return absl::OkStatus();
}

absl::Status RealDriver::StartThreads(const NfSpec& nf, RealSetup& setup) {
  const NfCallNames& flows = *this;  // a private base
  const uint32_t replicas = controller().replicas();
  unit_threads_.emplace(
      UnitThreads::Options{.threads = real_.threads,
                           .pin = real_.pin,
                           .pins_caller = real_.pin_place.pins_caller,
                           .host = real_.host,
                           .controller = options_.controller.controller_id,
                           .nf = nf.text(),
                           .nf_patience = options_.nf_patience,
                           .loop = UnitLoopOptionsOf(setup, replicas)},
      flows);
  parts_.threads = &*unit_threads_;
  const LoopRegion::Options& of = setup.layout;
  if (of.loggers) {
    absl::Status status = unit_threads_->CreateLoggers(
        nf, shared_memory(), own_memory(), of,
        LoggerLoopOptionsOf(setup, replicas), *region_.faults);
    if (!status.ok()) return status;
  }
  host_region_ = std::move(setup.host);
  if (host_region_.has_value()) {
    unit_threads_->UseHost(setup.host_of, host_region_->bytes());
  }
  absl::Status status = unit_threads_->CreateLoops(
      nf, shared_memory(), of, *region_.clock, *region_.faults, stores_,
      [this](PacketHandle packet) {
        return Describe(region_.buffers, packet);
      });
  if (!status.ok()) return status;
  return unit_threads_->Start(setup.cpus, loop_.ends(0));
}

absl::Status RealDriver::StartProcesses(const NfSpec& nf, RealSetup& setup) {
  processes_.emplace(RealProcesses::Run{
      .memory = region_,
      .bell = *controller_bell_,
      .tables = tables_region_.has_value() ? &*tables_region_ : nullptr,
      .example = *example_,
      .names = *this,
      .loop = loop_,
      .egress = egress_,
      .result = result_,
      .hosts = real_.hosts});
  absl::Status status = processes_->Start(nf, setup);
  if (!status.ok()) return status;
  parts_.unit_faults = processes_->faults();
  parts_.starts = processes_->starts();
  failure_.WatchProcesses(processes_->all());
  look_.set_hosts(
      [this](LiveFigures& figures) { processes_->AddHosts(figures); });
  return absl::OkStatus();
}

// Makes the controller of what the units of a process had that was killed.
absl::Status RealDriver::TakeOver() {
  const Instant begin = RealClock::Monotonic();
  egress_.on_start(loop_.ReadClock());
  loop_.Succeed();
  while (!loop_.is_led() && !has_failed() &&
         RealClock::Monotonic() - begin < UnitProcesses::kPatience) {
    if (!turns_.Turn()) std::this_thread::yield();
  }
  if (!loop_.is_led()) {
    return absl::UnavailableError(
        "units did not report the state of the previous process: " +
        (has_failed() ? failure_.Why() : std::string("timeout")));
  }
  inherited_flows_ = controller().flows().size();
  if (real_.notice != nullptr) {
    real_.notice(
        fmt::format("took over {} flows and {} packets in units from the "
                    "killed process, after {}",
                    *inherited_flows_, result_.packets_inherited,
                    FormatDuration(RealClock::Monotonic() - begin)));
  }
  return absl::OkStatus();
}

// --- Between Begin and Finish. ---

void RealDriver::Begin(Instant now) {
  has_begun_ = true;
  if (!is_heir_) region_.clock->Start(now);
  SetClocks();
  look_.Begin(loop_.ReadClock());
  // Of several controllers, each counts from the first packet of all.
  if (controller_faults_.has_value() && first_packet_.has_value()) {
    controller_faults_->on_start(*first_packet_);
  }
}

// Processes of units read clocks of their own.
void RealDriver::SetClocks() {
  for (const LoopRegion::Loop& loop : region_.loops) {
    loop.clock->Follow(*region_.clock);
  }
}

bool RealDriver::Poll() {
  loop_.HandleBatch(egress_);
  return turns_.Turn();
}

Nanos RealDriver::MayWait(Nanos most) const {
  if (loop_.in_channels() > 0) return Nanos{};
  if (!loop_.is_led()) return Nanos{};
  const Instant due = loop_.NextDue();
  const Instant now = clock().Now();
  most = std::min(most, turns_.LongestWait());
  return due - now < most ? std::max(due - now, Nanos{}) : most;
}

void RealDriver::AwaitUnits(Nanos most,
                            absl::FunctionRef<bool()> is_other_work) {
  if (has_threads() && loop_.is_led()) {
    loop_.AwaitUnits(most, is_other_work);
  } else {
    std::this_thread::yield();
  }
}

void RealDriver::Offer(const CapturedPacket& captured) {
  if (!std::exchange(has_first_, true)) {
    if (!has_begun_) Begin(captured.time);
    result_.first_packet = first_packet_.value_or(captured.time);
    if (!is_heir_) egress_.on_start(result_.first_packet);
    const Instant began = loop_.ReadClock();
    look_.set_began(began);
    if (parts_.unit_faults != nullptr) parts_.unit_faults->on_start(began);
    if (controller_faults_.has_value() && !first_packet_.has_value()) {
      controller_faults_->on_start(began);
    }
  }
  intake_.Offer(captured);
}

bool RealDriver::Tune(const ControllerOptions& options) {
  return loop_.controller().Tune(loop_.ReadClock(), options);
}

bool RealDriver::Lease(UnitId unit, uint32_t share) {
  loop_.ReadClock();
  const bool begins =
      loop_.has_controller() &&
      loop_.controller().units().state(unit) == UnitPool::State::kStopped;
  if (begins && parts_.starts != nullptr && !parts_.starts->MayLease(unit)) {
    return false;
  }
  if (!begins && LeaveHost(unit)) return false;
  return loop_.Lease(unit, share, egress_);
}

// Without another unit, packets of its flows would be dropped.
bool RealDriver::LeaveHost(UnitId unit) {
  if (!loop_.has_controller() || parts_.starts == nullptr ||
      !parts_.starts->IsMisplaced(unit)) {
    return false;
  }
  const UnitPool& units = loop_.controller().units();
  const uint32_t itself = units.placeable(unit) ? 1 : 0;
  if (units.placeable_units() == itself) return false;
  Revoke(unit, false);
  return !units.placeable(unit);
}

absl::StatusOr<RealFaults::Killed> RealDriver::KillUnit(UnitId unit) {
  if (parts_.unit_faults == nullptr) return NoneMayDie();
  return parts_.unit_faults->KillUnit(unit);
}

absl::StatusOr<RealFaults::Killed> RealDriver::KillLoggers() {
  if (parts_.unit_faults == nullptr) return NoneMayDie();
  return parts_.unit_faults->KillLoggers();
}

FlowKey RealDriver::FlowOf(FlowId flow) const {
  return KeyOf(controller().flows(), options_.controller.max_flows, flow);
}

// --- The end. ---

RunResult RealDriver::Finish() {
  if (!has_begun_) Begin(Instant{});
  intake_.TakeKept(Instant::max());
  RealDrain drain({.loop = loop_,
                   .egress = egress_,
                   .turns = turns_,
                   .parts = parts_,
                   .failure = failure_,
                   .loops = region_.loops,
                   .clock = *region_.clock,
                   .example = *example_,
                   .result = result_,
                   .patience = patience_});
  if (parts_.starts != nullptr) parts_.starts->Close();
  bool is_over = drain.AwaitPackets();
  if (!is_over && !has_failed()) {
    egress_.Violate(
        fmt::format("{} packets never left their units", loop_.in_channels()));
  }
  result_.real.wall = clock().Now() - look_.began();
  look_.Publish();
  look_.Stop();  // time skips from here on
  is_over = is_over && drain.SkipTimers();
  if (parts_.unit_faults != nullptr) parts_.unit_faults->Stop();
  if (controller_faults_.has_value()) controller_faults_->Finish();
  StopWorkers();
  if (unit_threads_.has_value()) unit_threads_->AddResults(results_);
  StopLoggers();
  if (processes_.has_value()) processes_->AddResults(results_);
  if (has_failed()) {
    failure_.Report(egress_, result_);
  } else if (is_over) {
    egress_.CheckNoneWaits();
    if (unit_threads_.has_value() && options_.check) CheckLoggers();
  }
  result_.real.threads = real_.threads;
  look_.TellBusy();
  egress_.Finish(loop_.now());
  Collect();
  return std::move(result_);
}

void RealDriver::StopWorkers() {
  if (processes_.has_value() && processes_->has_started()) {
    processes_->all().LetEnd();
  }
  if (real_.host == nullptr) {
    for (const LoopRegion::Loop& loop : region_.loops) {
      loop.control->stops = true;
      loop.bell->Ring();
    }
  }
  if (unit_threads_.has_value()) unit_threads_->StopLoops();
}

void RealDriver::StopLoggers() {
  if (unit_threads_.has_value()) unit_threads_->StopLoggers();
  if (region_.loggers_control == nullptr) return;
  region_.loggers_control->stops = true;
  region_.loggers_bell->Ring();
}

// At the end of a run, each logger has what its unit has.
void RealDriver::CheckLoggers() {
  unit_threads_->CheckLoggers(
      example_->pools().size(),
      [this](uint32_t unit, const std::string& difference) {
        egress_.Violate(fmt::format("I5: the logger of unit {} differs: {}",
                                    unit, difference));
      });
}

void RealDriver::Collect() {
  result_.faults.null_packets_lost = loop_.null_packets_lost();
  result_.faults.pulls_refused = loop_.pulls_refused();
  result_.state.messages_lost = loop_.relayed_lost();
  const ControllerLoopFigures& figures = loop_.figures();
  result_.aliases.packets_offered = figures.packets_by_alias;
  result_.aliases.packets_found =
      figures.packets_by_alias - figures.aliases_unknown;
  AddNfCounters(*example_, result_);
  for (const auto& store : stores_) AddTo(result_.store, store->figures());
  const uint32_t max_units = options_.controller.max_units;
  auto tables = AddLoops(results_, max_units, result_);
  result_.state.pulls -= result_.state.units.pulls_repeated;
  AddTotals(controller(), ingress_, egress_.provisioning(), result_);
  if (logs_tables_) {
    for (uint16_t unit = 0; unit < max_units; ++unit) {
      for (size_t i = 0; i < loop_.tables().size(); ++i) {
        const uint64_t updates = loop_.tables().logged(i, UnitId{unit});
        tables[unit].push_back({.updates = updates});
      }
    }
  }
  if (loop_.tables().are_of_cluster()) {
    // Other controllers may go on with the homes: copies may differ.
    for (auto& of_unit : tables) {
      for (TableCopyFigures& copy : of_unit) copy.joined = 0;
    }
    loop_.LeaveTables();
  }
  AddTables(loop_.tables(), tables, *example_, result_);
  AddNfReports(*example_, result_);
}

uint32_t RealDriver::buffers_in_use() const {
  uint32_t sum = region_.buffers.in_use();
  if (unit_threads_.has_value()) sum += unit_threads_->buffers_in_use();
  if (!processes_.has_value()) return sum;
  for (const LoopResults& of_loop : results_) sum += of_loop.buffers_in_use;
  return sum;
}

}  // namespace snf
