// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_time/real_setup.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "base/text/wording.h"
#include "controller/units/host_map.h"
#include "platform/drivers/loops/unit_process.h"
#include "platform/drivers/loops/unit_threads.h"
#include "platform/modules/file_versions.h"
#include "platform/run/run_setup.h"
#include "runtime/logger/log_entry.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/nf_module.h"
#include "runtime/tables/table_homes.h"
#include "runtime/tables/unit_tables.h"

namespace snf {
namespace {

// The share of a loop of units, for packets that NFs make.
constexpr BufferPool::Options kWorkerBuffers = {
    .small = 512, .medium = 16, .large = 2};
// If the logs of NFs have a reader, each packet may bring a batch of records.
constexpr BufferPool::Options kLoggingBuffers = {
    .small = 4'096, .medium = 16, .large = 2};

// --- Options. ---

bool Recovers(const RunOptions& options, const RealOptions& real) {
  return options.loggers && real.isolation != Isolation::kThread;
}

bool MayFail(const RunOptions& options, const RealOptions& real) {
  return options.faults.any_controller() || real.keep.has_value();
}

absl::Status CheckFailures(const RunOptions& options, const RealOptions& real) {
  if (real.keep.has_value() && !Recovers(options, real)) {
    return absl::InvalidArgumentError(
        "only processes of units with output loggers can be kept");
  }
  if (!MayFail(options, real)) return absl::OkStatus();
  if (!options.loggers) {
    return absl::InvalidArgumentError(
        "a controller that fails needs units with output loggers");
  }
  return absl::OkStatus();
}

void SettleFailures(const RealOptions& real, RunOptions& options) {
  const bool recovers = Recovers(options, real);
  const bool may_fail = MayFail(options, real);
  if (!recovers && !may_fail) return;
  if (recovers) AddSpareUnits(options.controller);
  PrepareForFailures(options.controller);
  AwaitEnds(recovers, may_fail, options.controller);
}

absl::Status CheckWarmPool(const RunOptions& options, const RealOptions& real) {
  if (!real.warm_pool.has_value()) return absl::OkStatus();
  if (real.isolation == Isolation::kThread || real.pin) {
    return absl::InvalidArgumentError(
        "a warm pool needs units in processes that are not pinned");
  }
  if (MayFail(options, real)) {
    return absl::InvalidArgumentError(
        "a warm pool is not possible if a controller may fail");
  }
  return absl::OkStatus();
}

absl::Status CheckHosts(const RunOptions& options, const RealOptions& real,
                        uint32_t loops) {
  if (real.hosts.empty() && real.host_source == nullptr) {
    return absl::OkStatus();
  }
  if (!Recovers(options, real)) {
    return absl::InvalidArgumentError(
        "units on other hosts need --isolation=process or lxc, and "
        "--loggers=on: a host may be lost");
  }
  if (real.pin) {
    return absl::InvalidArgumentError(
        "units on other hosts cannot be pinned to CPUs of this one");
  }
  if (real.host_source != nullptr && !real.warm_pool.has_value()) {
    return absl::InvalidArgumentError(
        "units on hosts that join and leave need processes that come and go");
  }
  return real.hosts.Check(PlacedLoops(loops, options.controller.max_units));
}

absl::Status CheckHostState(const RunOptions& options,
                            const RealOptions& real) {
  if (!real.host_state) return absl::OkStatus();
  if (options.state == StateMode::kExternal) {
    return absl::InvalidArgumentError(
        "--host_state: not with --state=external: a store has the states");
  }
  return absl::OkStatus();
}

// If all units of the run are on one host, the controller names none of them
// for pushes (proto/protocol.md 2.8). Else units leave out units of their host.
HostStore::Options SettleHostState(const RealOptions& real,
                                   const LoopRegion::Options& layout,
                                   RunOptions& options) {
  if (!real.host_state) return {};
  const bool is_spread = !real.hosts.empty() || real.host_source != nullptr;
  ControllerOptions& controller = options.controller;
  if (!is_spread) {
    controller.units_per_host =
        std::min(controller.max_units, HostMap::kMaxUnitsPerHost);
  }
  HostStore::Options of = {.max_units = controller.max_units,
                           .loops = layout.loops,
                           .record_bytes = layout.record_bytes,
                           .spread = is_spread};
  of.slots = HostStore::SlotsFor(controller.max_flows, of);
  return of;
}

absl::StatusOr<std::optional<SharedRegion>> HostMemoryFor(
    const HostStore::Options& of) {
  if (of.slots == 0) return std::nullopt;
  auto memory = SharedRegion::Create(
      {.name = "snf host", .bytes = HostStore::BytesFor(of), .in_advance = 0});
  if (!memory.ok()) return memory.status();
  return *std::move(memory);
}

uint32_t HowManyThreads(const RunOptions& options, const RealOptions& real,
                        uint32_t cpus) {
  if (real.host != nullptr) return 1 + real.host->threads();
  if (real.warm_pool.has_value()) {
    return 1 + (options.loggers ? 1 : 0) +
           std::min(options.controller.max_units,
                    RealOptions::kMaxUnitProcesses);
  }
  if (real.threads > 0) return real.threads;
  const uint32_t least = real.isolation == Isolation::kThread ? 1 : 2;
  if (real.one_of_two_cpus && cpus <= 2) return least;
  const uint32_t most = real.pin ? real.pin_place.ThreadsOn(cpus, least) : cpus;
  return std::clamp(most, least, RealOptions::kMaxThreads);
}

// `real.threads` is their number.
absl::Status CheckThreads(const RunOptions& options, const RealOptions& real) {
  const bool has_processes = real.isolation != Isolation::kThread;
  if (real.threads > RealOptions::kMaxThreads) {
    return absl::InvalidArgumentError(fmt::format(
        "{} threads are more than {}", real.threads, RealOptions::kMaxThreads));
  }
  if (has_processes && real.threads == 1) {
    return absl::InvalidArgumentError(
        "units in processes need 2 or more threads");
  }
  if (options.state == StateMode::kExternal &&
      (options.loggers || has_processes)) {
    return absl::InvalidArgumentError(
        "units with an external store must be threads without output loggers");
  }
  return absl::OkStatus();
}

// Of three threads or more, loggers have one, if all are the driver's.
uint32_t HowManyWorkers(const RealOptions& real, bool has_loggers) {
  const bool have_one = has_loggers && real.threads > 2 && real.host == nullptr;
  return std::max(real.threads - (have_one ? 2 : 1), uint32_t{1});
}

LoopRegion::Options LayoutOf(const RunOptions& options, const RealOptions& real,
                             const NetworkFunction& example) {
  const StateSchema& schema = example.schema();
  return {.controller = real.buffers,
          .loop = options.nf_logs ? kLoggingBuffers : kWorkerBuffers,
          .loops = HowManyWorkers(real, options.loggers),
          .apart = real.isolation != Isolation::kThread,
          .record_bytes = schema.record_bytes(),
          .loggers = options.loggers,
          .entry_bytes = MaxLogEntryBytes(
              schema, Recovers(options, real) ? LoggedTablesOf(example)
                                              : std::vector<TableShape>()),
          .recovers = Recovers(options, real),
          .reports = MayFail(options, real),
          .piece_words = LoggerLoop::PieceWordsOf(example),
          .bells = real.host != nullptr ? real.host->bells() : nullptr};
}

// --- Memory, and processes that were kept. ---

template <typename Value>
void Add(std::string_view name, const Value& value, std::string& identity) {
  fmt::format_to(std::back_inserter(identity), "{}\t{}\n", name, value);
}

// Tells one program from another one, or a newer one of the same name.
std::string VersionOf(const std::string& program) {
  struct stat file = {};
  if (stat(program.c_str(), &file) != 0) return program;
  return fmt::format("{}:{}, {} bytes of {}.{:09}", file.st_dev, file.st_ino,
                     file.st_size, file.st_mtim.tv_sec, file.st_mtim.tv_nsec);
}

struct Memory {
  LoopRegion region;
  std::optional<SharedRegion> tables;
  std::optional<Launcher::Kept> kept;
};

void TellAnew(const RealOptions& real, const std::string& why) {
  if (real.notice != nullptr) real.notice("begins anew: " + Printable(why));
}

// Returns true if the loggers that were kept live, and have all that units
// keep. Loggers that had been killed just before have not.
bool HaveAll(const KeptProcess& loggers,
             std::span<const LoopRegion::Loop> loops) {
  const uint32_t process = loggers.starts - 1;
  return loggers.pid > 0 &&
         std::ranges::all_of(loops, [process](const LoopRegion::Loop& loop) {
           return loop.control->logger_process == process &&
                  loop.log_control->restored == process;
         });
}

// Returns the memory of what was kept for this run; absent if nothing was, or
// if it cannot be used.
absl::StatusOr<std::optional<Memory>> AdoptMemory(
    const RealOptions& real, const std::string& identity,
    const LoopRegion::Options& layout, size_t table_bytes) {
  if (!real.keep.has_value() || !real.keep->takes_over) return std::nullopt;
  auto kept = Launcher::TakeOver(real.keep->socket, identity);
  if (!kept.ok()) TellAnew(real, std::string(kept.status().message()));
  if (!kept.ok() || !kept->has_value()) return std::nullopt;
  const std::vector<int>& fds = (*kept)->descriptors;
  const size_t of_region = layout.loops + 2;
  const size_t all = of_region + (table_bytes > 0 ? 1 : 0);
  if (fds.size() < all) {
    return absl::InternalError(
        "the previous process kept too few memory regions");
  }
  auto region = LoopRegion::Adopt(layout, std::span(fds).first(of_region));
  if (!region.ok()) return region.status();
  if (!HaveAll((*kept)->processes.back(), region->loops)) {
    for (const int fd : fds) close(fd);
    TellAnew(real, "the kept loggers lack state of the kept units");
    return std::nullopt;
  }
  std::optional<SharedRegion> tables;
  if (table_bytes > 0) {
    auto memory = SharedRegion::Map(fds[of_region], 0);
    if (!memory.ok()) return memory.status();
    tables.emplace(*std::move(memory));
  }
  for (const int fd : std::span(fds).first(all)) close(fd);
  return Memory{*std::move(region), std::move(tables), **std::move(kept)};
}

absl::StatusOr<Memory> MakeMemory(const LoopRegion::Options& layout,
                                  size_t table_bytes) {
  auto region = LoopRegion::Create(layout);
  if (!region.ok()) return region.status();
  std::optional<SharedRegion> tables;
  if (table_bytes > 0) {
    auto memory = SharedRegion::Create(
        {.name = "snf tables", .bytes = table_bytes, .in_advance = 0});
    if (!memory.ok()) return memory.status();
    tables.emplace(*std::move(memory));
  }
  return Memory{*std::move(region), std::move(tables), std::nullopt};
}

}  // namespace

std::string KeptIdentity(const RunOptions& options, const RealOptions& real,
                         const LoopRegion::Options& of, const NfSpec& nf) {
  const ControllerOptions& c = options.controller;
  std::string identity;
  Add("--nf", nf.text(), identity);
  for (const auto& [file, version] : FileVersionsOf(nf)) {
    Add("file " + file, version, identity);
  }
  for (const std::string& module : LoadedNfModules()) {
    Add(fmt::format("file {} (a module)", module), FileVersionOf(module),
        identity);
  }
  Add("--controller", fmt::format("{}/{}", c.controller_id, real.controllers),
      identity);
  Add("--isolation",
      real.isolation == Isolation::kContainer ? "lxc" : "process", identity);
  Add("loops of units (--threads)", of.loops, identity);
  Add("--host", real.hosts.text(), identity);
  Add("--host_state", real.host_state, identity);
  Add("--max_units", c.max_units, identity);
  Add("--max_flows", c.max_flows, identity);
  Add("packet buffers",
      fmt::format("{} {} {}", of.controller.small, of.controller.medium,
                  of.controller.large),
      identity);
  Add("--unit_queue", c.unit_queue_packets, identity);
  Add("--start_buffer", c.start_buffer_packets, identity);
  Add("--hold_queue", options.hold_packets, identity);
  Add("--nf_logs", options.nf_logs, identity);
  Add("--replicas", c.replicas, identity);
  Add("--state", static_cast<int>(options.state), identity);
  Add("--unit_capacity",
      real.unpaced ? "none" : fmt::format("{} bit/s", c.unit_capacity_bps),
      identity);
  Add("--unit_packets", c.unit_packets_ps, identity);
  Add("--nf_patience", fmt::format("{} ns", options.nf_patience.ns), identity);
  Add("calls between two guards", real.guard_every, identity);
  Add("program", VersionOf(real.program), identity);
  return identity;
}

absl::StatusOr<RealSetup> RealSetup::Make(const RunOptions& options,
                                          const RealOptions& real,
                                          const NfSpec& nf) {
  const std::unique_ptr<NetworkFunction> example = nf.create();
  if (auto s = CheckFailures(options, real); !s.ok()) return s;
  if (auto s = CheckWarmPool(options, real); !s.ok()) return s;
  if (auto s = CheckHostState(options, real); !s.ok()) return s;
  RunOptions run = options;
  SettleFailures(real, run);
  std::vector<int> cpus(real.pin_place.cpus.begin(), real.pin_place.cpus.end());
  if (cpus.empty()) cpus = OwnCpus();
  const auto own = static_cast<uint32_t>(std::max<size_t>(cpus.size(), 1));
  RealOptions resolved = real;
  resolved.threads = HowManyThreads(run, real, own);
  if (auto s = CheckThreads(run, resolved); !s.ok()) return s;
  if (real.pin) {
    auto pinned = real.pin_place.CpusOf(cpus, resolved.threads);
    if (!pinned.ok()) return pinned.status();
    cpus = *std::move(pinned);
  }

  const LoopRegion::Options layout = LayoutOf(run, resolved, *example);
  if (auto s = CheckHosts(run, resolved, layout.loops); !s.ok()) return s;
  const HostStore::Options host_of = SettleHostState(resolved, layout, run);
  std::string identity;
  size_t table_bytes = 0;
  if (real.keep.has_value()) {
    identity = KeptIdentity(run, resolved, layout, nf);
    table_bytes = TableHomes::BytesToKeep(*example, run.controller.max_units);
  }
  auto adopted = AdoptMemory(resolved, identity, layout, table_bytes);
  if (!adopted.ok()) return adopted.status();
  std::optional<Memory> memory = *std::move(adopted);
  std::optional<SharedRegion> host;  // absent: a kept launcher has it
  if (!memory.has_value()) {
    auto made = MakeMemory(layout, table_bytes);
    if (!made.ok()) return made.status();
    memory.emplace(*std::move(made));
    auto of_host = HostMemoryFor(host_of);
    if (!of_host.ok()) return of_host.status();
    host = *std::move(of_host);
  }
  const bool recovers = Recovers(run, resolved);
  const bool may_fail = MayFail(run, resolved);
  return RealSetup{.run = std::move(run),
                   .real = std::move(resolved),
                   .cpus = cpus,
                   .recovers = recovers,
                   .may_fail = may_fail,
                   .layout = layout,
                   .identity = std::move(identity),
                   .region = std::move(memory->region),
                   .tables = std::move(memory->tables),
                   .host_of = host_of,
                   .host = std::move(host),
                   .kept = std::move(memory->kept)};
}

}  // namespace snf
