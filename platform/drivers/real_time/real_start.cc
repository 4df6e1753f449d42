// SPDX-License-Identifier: Apache-2.0
//
// Starts a run in real time: its loops, threads and processes.
#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "controller/rebuild/lease_finder.h"
#include "platform/drivers/real_time/real_driver.h"
#include "platform/drivers/real_time/real_setup.h"
#include "platform/drivers/real_time/unit_process.h"
#include "platform/drivers/real_time/unit_threads.h"
#include "platform/run/run_setup.h"
#include "runtime/core/service_model.h"
#include "runtime/tables/table_homes.h"
#include "runtime/tables/unit_tables.h"

namespace snf {
namespace {

cpu_set_t SetOf(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return set;
}

ServiceModel ServiceOf(const ControllerOptions& options) {
  return ServiceModel(options.unit_capacity_bps, options.unit_packets_ps);
}

ControllerLoopOptions LoopOptionsOf(const RealSetup& setup,
                                    const NetworkFunction& example) {
  const RunOptions& run = setup.run;
  const RealOptions& real = setup.real;
  const bool starts_at_once =
      real.unpaced || real.warm_pool.has_value() || run.controller.leased;
  return {.controller = run.controller,
          .cold_start_delay = starts_at_once ? Nanos{} : run.unit_start_delay,
          .warm_start_delay = starts_at_once ? Nanos{} : run.warm_start_delay,
          .nf_reasons = static_cast<uint32_t>(example.drop_reasons().size()),
          .pools = static_cast<uint32_t>(example.pools().size()),
          .counts_flows = HasSides(example),
          .shares_thread = real.threads == 1,
          .shares_units = real.host != nullptr,
          .recovers = setup.recovers,
          .fails = setup.may_fail,
          .inherits = setup.kept.has_value()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<RealDriver>> RealDriver::Start(
    const RunOptions& options, const RealOptions& real,
    const PlacementPolicy& policy, const NfSpec& nf, Observers observers) {
  auto setup = RealSetup::Make(options, real, nf);
  if (!setup.ok()) return setup.status();
  std::unique_ptr<RealDriver> driver(
      new RealDriver(*setup, policy, nf, std::move(observers)));
  if (auto s = driver->OpenStores(setup->layout.loops); !s.ok()) return s;
  if (driver->has_processes()) {
    if (auto s = driver->StartProcesses(nf, *setup); !s.ok()) return s;
    if (auto s = driver->PinProcesses(setup->cpus); !s.ok()) return s;
  } else {
    if (auto s = driver->StartThreads(nf, *setup); !s.ok()) return s;
  }
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
      recovers_(setup.recovers),
      may_fail_(setup.may_fail),
      is_heir_(setup.kept.has_value()),
      result_(EmptyResult(*example_)),
      region_(std::move(setup.region.memory)),
      apart_(std::move(setup.region.apart)),
      own_region_(std::move(setup.region.own_memory)),
      tables_region_(std::move(setup.tables)),
      faults_(std::move(setup.region.faults)),
      buffers_(std::move(setup.region.buffers)),
      clock_(*setup.region.clock),
      loops_(setup.region.loops),
      controller_bell_(setup.region.controller.bell),
      pace_(real_.speed),
      ingress_(options_, *example_, buffers_),
      loop_(LoopOptionsOf(setup, *example_), policy, HomesOfTables(), clock_,
            LinksOf(setup.region)),
      egress_(options_, WithTap(std::move(observers)), ingress_, buffers_,
              loop_, result_),
      look_(options_, real_, *example_, loops_, loop_, egress_, result_),
      loggers_control_(setup.region.loggers_control),
      loggers_bell_(setup.region.loggers_bell),
      patience_(real_.patience) {
  look_.set_hosts([this](LiveFigures& figures) { AddHosts(figures); });
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
  }
  if (real_.aliases != nullptr) ingress_.set_listener(*real_.aliases);
  if (real_.lease_finder != nullptr) {
    loop_.set_lease_finder(*real_.lease_finder);
  }
  if (!real_.unpaced) {
    constexpr uint32_t kMaxPacket = 65'535;
    const Nanos service =
        ServiceOf(options_.controller).ServiceTime(kMaxPacket);
    patience_.ns += std::max({options_.unit_start_delay,
                              options_.warm_start_delay, service})
                        .ns;
  }
  if (real_.warm_pool.has_value()) patience_.ns += UnitProcesses::kPatience.ns;
  if (options_.state == StateMode::kExternal) {
    patience_.ns += 2 * options_.store.patience.ns;
  }
  const auto most = [this](uint32_t of_size) {
    return std::max(std::min({options_.controller.unit_queue_packets,
                              options_.controller.start_buffer_packets,
                              options_.hold_packets, of_size}),
                    1u);
  };
  most_under_way_ = {most(real_.buffers.small), most(real_.buffers.medium),
                     most(real_.buffers.large)};
}

TableHomes RealDriver::HomesOfTables() const {
  const uint32_t max_units = options_.controller.max_units;
  TableHomes homes(*example_, max_units,
                   TableOptionsOf(options_, logs_tables()));
  if (tables_region_.has_value()) {
    homes.Keep(clock_.Now(), tables_region_->bytes(), max_units);
  }
  return homes;
}

ControllerLinks RealDriver::LinksOf(LoopRegion& region) {
  region.controller.buffers = &buffers_;
  return std::move(region.controller);
}

RealDriver::~RealDriver() {
  nf_call.names = nullptr;
  StopWorkers();
}

LoggerLoopOptions RealDriver::LoggerOptions() const {
  const UnitOptions unit =
      UnitOptionsOf(options_, loop_.controller().replicas());
  return {.loops = static_cast<uint32_t>(loops_.size()),
          .max_units = options_.controller.max_units,
          .max_copies =
              unit.max_flows + unit.queue_packets + unit.packets_elsewhere,
          .reports = may_fail_,
          .tables = TableOptionsOf(options_)};
}

UnitLoopOptions RealDriver::WorkerOptions() const {
  UnitLoopOptions options;
  options.loops = static_cast<uint32_t>(loops_.size());
  options.max_units = options_.controller.max_units;
  options.unit = UnitOptionsOf(options_, loop_.controller().replicas());
  options.unit.guard_every = real_.guard_every;
  options.measures_busy = real_.measures_busy;
  options.tables = TableOptionsOf(options_);
  if (!real_.unpaced) {
    options.service = ServiceOf(options_.controller);
  }
  return options;
}

absl::Status RealDriver::StartThreads(const NfSpec& nf,
                                      const RealSetup& setup) {
  const NfCallNames& flows = *this;  // a private base
  unit_threads_.emplace(
      UnitThreads::Options{.threads = real_.threads,
                           .pin = real_.pin,
                           .host = real_.host,
                           .controller = options_.controller.controller_id,
                           .nf = nf.text(),
                           .nf_patience = options_.nf_patience,
                           .loop = WorkerOptions()},
      flows);
  const LoopRegion::Options& of = setup.layout;
  if (of.loggers) {
    absl::Status status =
        unit_threads_->CreateLoggers(nf, region_.bytes(), own_region_->bytes(),
                                     of, LoggerOptions(), *faults_);
    if (!status.ok()) return status;
  }
  absl::Status status = unit_threads_->CreateLoops(
      nf, region_.bytes(), of, clock_, *faults_, stores_,
      [this](PacketHandle packet) { return Describe(buffers_, packet); });
  if (!status.ok()) return status;
  return unit_threads_->Start(setup.cpus, loop_.ends(0));
}

absl::Status RealDriver::OpenStores(uint32_t loops) {
  if (options_.state != StateMode::kExternal) return absl::OkStatus();
  auto redis = RunRedis::Open(real_.redis, options_.store);
  if (!redis.ok()) return redis.status();
  redis_ = *std::move(redis);
  for (uint32_t i = 0; i < loops; ++i) stores_.push_back(redis_->MakeStore());
  return absl::OkStatus();
}

Observers RealDriver::WithTap(Observers observers) {
  if (real_.watch != nullptr) {
    const NfCallNames& flows = *this;  // a private base
    tap_.emplace(*real_.watch, flows);
    observers.Add(*tap_);
  }
  return observers;
}

// Processes on other hosts are not started before the hosts are known.
std::optional<uint32_t> RealDriver::ParkedAtOnce() const {
  if (!real_.warm_pool.has_value() || real_.host_source == nullptr) {
    return real_.warm_pool;
  }
  return std::min(*real_.warm_pool, real_.own_units);
}

absl::Status RealDriver::StartProcesses(const NfSpec& nf, RealSetup& setup) {
  const LoopRegion::Options& of = setup.layout;
  if (real_.host_source != nullptr) {
    hosted_units_.emplace(
        *real_.host_source,
        HostAssignment::Options{
            .own = real_.own_units,
            .placed = PlacedLoops(of.loops, options_.controller.max_units),
            .places = of.loops},
        loop_);
  }
  UnitProcesses::Options options = {
      .program = real_.program,
      .setup = {.region = of,
                .loop = WorkerOptions(),
                .loggers = LoggerOptions(),
                .nf_patience = options_.nf_patience,
                .isolation = real_.isolation,
                .at_once = ParkedAtOnce().value_or(~uint32_t{0}),
                .rehearses = real_.warm_pool.has_value(),
                .hosts = real_.hosts,
                .places_change = hosted_units_.has_value()},
      .nf = LaunchedNfOf(nf).SerializeAsString(),
      .regions = {},
      .own_region = own_region_.has_value() ? own_region_->fd() : -1,
      .like = {},
      .told =
          [faults = faults_.get(), bell = controller_bell_] {
            faults->AddOther();
            bell->Ring();
          },
      .killed = [bell = controller_bell_] { bell->Ring(); },
      .blamed =
          [this](uint32_t loop, std::optional<uint32_t> ends,
                 std::string what) {
            // Else it is a process that has ended since, or none.
            if (loop < loops_.size()) {
              const uint32_t now = loops_[loop].log_control->ends.load();
              if (ends.value_or(now) == now) {
                faults_->Blame(loop, std::move(what));
              }
            }
            controller_bell_->Ring();
          },
      .may_be_killed = recovers_,
      .ready = [bell = controller_bell_] { bell->Ring(); },
      .printed = nullptr};
  if (hosted_units_.has_value()) {
    options.argument = [this](size_t process) {
      return hosted_units_->Start(process);
    };
  }
  // Replays show what an NF prints as it is.
  if (real_.amend != nullptr) options.printed = real_.notice;
  for (const SharedRegion& memory : apart_) {
    options.regions.push_back(memory.fd());
  }
  if (real_.keep.has_value()) {
    options.keep = LaunchKeep{
        .socket = real_.keep->socket,
        .patience_ms = static_cast<int>(real_.keep->patience.ns / 1'000'000),
        .identity = setup.identity,
        .descriptors = options.regions};
    options.keep->descriptors.push_back(own_region_->fd());
    options.keep->descriptors.push_back(region_.fd());
    if (tables_region_.has_value()) {
      options.keep->descriptors.push_back(tables_region_->fd());
    }
    options.kept_memories = options.keep->descriptors.size();
    if (is_heir_) options.kept.emplace(*std::move(setup.kept));
  }
  const std::string command =
      real_.command.substr(0, options.setup.command.size() - 1);
  std::ranges::copy(command, options.setup.command.begin());
  for (const NetworkFunction::Part& part : example_->parts()) {
    options.like.figures.nf_counts.resize(
        options.like.figures.nf_counts.size() + part.nf->counts().size());
  }
  options.like.tables.emplace_back(logs_tables() ? 0
                                                 : TablesOf(*example_).size());
  if (recovers_) faults_->BlameLoops(of.loops);
  auto processes = UnitProcesses::Start(std::move(options));
  if (!processes.ok()) return processes.status();
  processes_ = *std::move(processes);
  if (recovers_) {
    const auto renew = [this, of](size_t loop, uint32_t logger_process) {
      LoopRegion::Renew(apart_[loop].bytes(), of, logger_process,
                        loops_[loop].log_control->ends);
      loops_[loop].clock->Follow(clock_);
    };
    unit_faults_.emplace(options_, real_.notice, renew, loops_, *processes_,
                         *faults_, loop_, egress_,
                         FailedPackets(buffers_, *this, real_.failed_packets),
                         result_.faults);
    // Others wait for a report as long.
    const Nanos reports = RealFaults::PatienceFor(options_);
    if (reports != Nanos::max()) patience_.ns += reports.ns;
  }
  if (real_.warm_pool.has_value()) {
    unit_starts_.emplace(*ParkedAtOnce(), *processes_, loop_, loops_,
                         result_.real.starts,
                         recovers_ ? &*unit_faults_ : nullptr,
                         hosted_units_.has_value() ? &*hosted_units_ : nullptr);
  }
  return absl::OkStatus();
}

// The loggers share a CPU with units, if there are two.
absl::Status RealDriver::PinProcesses(const std::vector<int>& cpus) {
  if (!real_.pin) return absl::OkStatus();
  for (size_t i = 0; i < processes_->size(); ++i) {
    const int cpu = cpus[std::min<size_t>(i + 1, real_.threads - 1)];
    const cpu_set_t set = SetOf(cpu);
    if (processes_->pid(i) <= 1) continue;  // it was killed meanwhile
    if (sched_setaffinity(processes_->pid(i), sizeof set, &set) != 0) {
      return absl::UnavailableError(
          fmt::format("cannot pin process {} to CPU {}: {}", processes_->pid(i),
                      cpu, std::strerror(errno)));
    }
  }
  return PinThread(pthread_self(), cpus[0]);
}

}  // namespace snf
