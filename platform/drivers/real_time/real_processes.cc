// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_time/real_processes.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "platform/drivers/loops/unit_process.h"
#include "platform/drivers/loops/unit_threads.h"
#include "platform/drivers/real_time/loop_options.h"
#include "platform/run/run_setup.h"
#include "runtime/tables/unit_tables.h"

namespace snf {
namespace {

// Processes on other hosts are not started before the hosts are known.
std::optional<uint32_t> ParkedAtOnce(const RealOptions& real) {
  if (!real.warm_pool.has_value() || real.host_source == nullptr) {
    return real.warm_pool;
  }
  return std::min(*real.warm_pool, real.own_units);
}

}  // namespace

absl::Status RealProcesses::Start(const NfSpec& nf, RealSetup& setup) {
  const RealOptions& real = setup.real;
  LoopRegion& memory = run_.memory;
  if (setup.recovers) memory.faults->BlameLoops(setup.layout.loops);
  if (real.host_source != nullptr) {
    const uint32_t loops = setup.layout.loops;
    hosts_ = std::make_unique<HostedUnits>(
        *real.host_source,
        HostAssignment::Options{
            .own = real.own_units,
            .placed = PlacedLoops(loops, setup.run.controller.max_units),
            .places = loops},
        run_.loop);
  }
  UnitProcesses::Options options = OptionsOf(nf, setup);
  if (setup.host.has_value()) {
    const auto readable = OpenReadable(setup.host->fd());
    if (!readable.ok()) return readable.status();
    options.host = {.writable = setup.host->fd(), .readable = *readable};
  }
  const int readable = options.host.readable;
  auto processes = UnitProcesses::Start(std::move(options));
  // The launcher has descriptors of its own.
  if (readable >= 0) close(readable);
  setup.host.reset();
  if (!processes.ok()) return processes.status();
  processes_ = *std::move(processes);
  if (setup.recovers) {
    const auto renew = [&memory, of = setup.layout](size_t loop,
                                                    uint32_t logger_process) {
      LoopRegion::Renew(memory.apart[loop].bytes(), of, logger_process,
                        memory.loops[loop].log_control->ends);
      memory.loops[loop].clock->Follow(*memory.clock);
    };
    faults_.emplace(
        setup.run, real.notice, renew, memory.loops, *processes_,
        *memory.faults, run_.loop, run_.egress,
        FailedPackets(memory.buffers, run_.names, real.failed_packets),
        run_.result.faults);
  }
  if (real.warm_pool.has_value()) {
    starts_.emplace(*ParkedAtOnce(real), *processes_, run_.loop, memory.loops,
                    run_.result.real.starts, faults(), hosts_.get());
  }
  if (!real.pin || !real.pin_place.pins_caller) return absl::OkStatus();
  return PinThread(pthread_self(), setup.cpus[0]);
}

UnitProcesses::Options RealProcesses::OptionsOf(const NfSpec& nf,
                                                RealSetup& setup) const {
  const RealOptions& real = setup.real;
  const LoopRegion& memory = run_.memory;
  const uint32_t replicas = run_.loop.controller().replicas();
  Doorbell* const bell = &run_.bell;
  UnitProcesses::Options options = {
      .program = real.program,
      .setup = {.region = setup.layout,
                .loop = UnitLoopOptionsOf(setup, replicas),
                .loggers = LoggerLoopOptionsOf(setup, replicas),
                .nf_patience = setup.run.nf_patience,
                .busy_poll = real.busy_poll.value_or(Nanos{-1}),
                .isolation = real.isolation,
                .at_once = ParkedAtOnce(real).value_or(~uint32_t{0}),
                .rehearses = real.warm_pool.has_value(),
                .hosts = real.hosts,
                .host_store = setup.host_of,
                .host_key = HostMemoryKey::Draw(),
                .places_change = hosts_ != nullptr},
      .nf = LaunchedNfOf(nf).SerializeAsString(),
      .regions = {},
      .own_region =
          memory.own_memory.has_value() ? memory.own_memory->fd() : -1,
      .host = {},
      .cpus = {},
      .like = {},
      .told =
          [faults = memory.faults.get(), bell] {
            faults->AddOther();
            bell->Ring();
          },
      .killed = [bell] { bell->Ring(); },
      .blamed =
          [&memory, bell](uint32_t loop, std::optional<uint32_t> ends,
                          std::string what) {
            // Else it is a process that has ended since, or none.
            if (loop < memory.loops.size()) {
              const uint32_t now = memory.loops[loop].log_control->ends.load();
              if (ends.value_or(now) == now) {
                memory.faults->Blame(loop, std::move(what));
              }
            }
            bell->Ring();
          },
      .may_be_killed = setup.recovers,
      .ready = [bell] { bell->Ring(); },
      .printed = nullptr};
  options.cpus = CpusOf(setup, options.setup.processes());
  if (hosts_ != nullptr) {
    options.argument = [hosts = hosts_.get()](size_t process) {
      return hosts->Start(process);
    };
  }
  // Replays show what an NF prints as it is.
  if (real.amend != nullptr) options.printed = real.notice;
  for (const SharedRegion& apart : memory.apart) {
    options.regions.push_back(apart.fd());
  }
  if (real.keep.has_value()) {
    options.keep = KeepOf(setup, options.regions);
    options.kept_memories = options.keep->descriptors.size();
    if (setup.kept.has_value()) options.kept.emplace(*std::move(setup.kept));
  }
  const std::string command =
      real.command.substr(0, options.setup.command.size() - 1);
  std::ranges::copy(command, options.setup.command.begin());
  std::vector<uint64_t>& counts = options.like.figures.nf_counts;
  for (const NetworkFunction::Part& part : run_.example.parts()) {
    counts.resize(counts.size() + part.nf->counts().size());
  }
  options.like.tables.emplace_back(
      LogsTables(setup, run_.example) ? 0 : TablesOf(run_.example).size());
  return options;
}

LaunchKeep RealProcesses::KeepOf(const RealSetup& setup,
                                 const std::vector<int>& regions) const {
  const RealOptions::Keep& by = *setup.real.keep;
  LaunchKeep keep = {
      .socket = by.socket,
      .patience_ms = static_cast<int>(by.patience.ns / 1'000'000),
      .identity = setup.identity,
      .descriptors = regions};
  keep.descriptors.push_back(run_.memory.own_memory->fd());
  keep.descriptors.push_back(run_.memory.memory.fd());
  if (run_.tables != nullptr) keep.descriptors.push_back(run_.tables->fd());
  return keep;
}

// The loggers share a CPU with units, if there are two.
std::vector<int> RealProcesses::CpusOf(const RealSetup& setup,
                                       size_t processes) {
  std::vector<int> cpus;
  if (!setup.real.pin) return cpus;
  for (size_t i = 0; i < processes; ++i) {
    cpus.push_back(setup.cpus[std::min<size_t>(i + 1, setup.real.threads - 1)]);
  }
  return cpus;
}

std::string_view RealProcesses::HostOf(UnitId unit) const {
  if (hosts_ != nullptr) return hosts_->HostOf(unit);
  const auto loops = static_cast<uint32_t>(run_.memory.loops.size());
  const uint32_t units = run_.loop.controller().units().max_units();
  const HostPlace* const host =
      run_.hosts.Of(value(unit) % loops, PlacedLoops(loops, units));
  return host == nullptr ? "" : host->name.data();
}

void RealProcesses::AddHosts(LiveFigures& figures) const {
  if (hosts_ != nullptr) hosts_->AddTo(figures);
  for (const HostPlace& host : run_.hosts.hosts()) {
    figures.hosts.push_back({.name = host.name.data(),
                             .address = host.address.data(),
                             .state = "joined",
                             .units = host.processes});
  }
  if (figures.hosts.empty()) return;
  for (LiveFigures::Unit& unit : figures.units) unit.host = HostOf(unit.id);
}

void RealProcesses::AddResults(std::vector<LoopResults>& results) {
  const LoopResults none;
  for (auto& of_process : processes_->Finish()) {
    results.push_back(of_process.value_or(none));
  }
}

}  // namespace snf
