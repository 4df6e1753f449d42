// SPDX-License-Identifier: Apache-2.0
//
// How a run in real time comes to be: its memory, loops and threads.
#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "platform/process/nf_guard.h"
#include "platform/real_time/loop_host.h"
#include "platform/real_time/real_driver.h"
#include "platform/run/run_setup.h"
#include "runtime/core/service_model.h"
#include "runtime/tables/table_homes.h"
#include "runtime/tables/unit_tables.h"

namespace snf {
namespace {

// For packets that NFs make.
constexpr BufferPool::Options kWorkerBuffers = {
    .small = 512, .medium = 16, .large = 2};

std::vector<int> OwnCpus() {
  cpu_set_t set;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

cpu_set_t SetOf(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return set;
}

absl::Status PinTo(pthread_t thread, int cpu) {
  const cpu_set_t set = SetOf(cpu);
  const int error = pthread_setaffinity_np(thread, sizeof set, &set);
  if (error == 0) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("cannot pin a thread to CPU {}: {}",
                                            cpu, std::strerror(error)));
}

uint32_t HowManyThreads(const RealOptions& real, uint32_t cpus) {
  if (real.threads > 0) return real.threads;
  const uint32_t least = real.isolation == Isolation::kThread ? 1 : 2;
  return std::clamp(cpus, least, RealOptions::kMaxThreads);
}

// Of three threads or more, loggers have one, if all are the driver's.
uint32_t HowManyWorkers(const RealOptions& real, bool has_loggers) {
  const bool have_one = has_loggers && real.threads > 2 && real.host == nullptr;
  return std::max(real.threads - (have_one ? 2 : 1), uint32_t{1});
}

ServiceModel ServiceOf(const ControllerOptions& options) {
  return ServiceModel(options.unit_capacity_bps, options.unit_packets_ps);
}

// Returns true if units are processes that may be killed while the run goes on.
bool Recovers(const RunOptions& options, const RealOptions& real) {
  return options.loggers && real.isolation != Isolation::kThread;
}

// Returns true if the controller may fail, or its process.
bool MayFail(const RunOptions& options, const RealOptions& real) {
  return options.faults.any_controller() || real.keep.has_value();
}

// Tells one program from another one, or a newer one of the same name.
std::string IdentityOf(const std::string& program) {
  struct stat file = {};
  if (stat(program.c_str(), &file) != 0) return program;
  return fmt::format("program {}:{}, of {} bytes and {}.{:09}", file.st_dev,
                     file.st_ino, file.st_size, file.st_mtim.tv_sec,
                     file.st_mtim.tv_nsec);
}

// Says all that processes of units are told, so far as it can differ.
std::string IdentityOf(const RunOptions& options, const RealOptions& real,
                       const LoopRegion::Options& of, const NfSpec& nf) {
  const ControllerOptions& c = options.controller;
  return fmt::format(
      "{}; controller {} of {}, isolation {}, {} loops, {} units, {} flows, "
      "buffers {} {} {}, "
      "queues {} {} {}, replicas {}, state {}, capacity {} {}, unpaced {}, "
      "patience {}, guard {}; {}",
      TextWithModules(nf), c.controller_id, real.controllers,
      static_cast<int>(real.isolation), of.loops, c.max_units, c.max_flows,
      of.controller.small, of.controller.medium, of.controller.large,
      c.unit_queue_packets, c.start_buffer_packets, options.hold_packets,
      c.replicas, static_cast<int>(options.state), c.unit_capacity_bps,
      c.unit_packets_ps, real.unpaced, options.nf_patience.ns, real.guard_every,
      IdentityOf(real.program));
}

// Returns true if the loggers that were kept live, and have all that units
// keep. Those that had been killed just before have not.
bool HaveAll(const KeptProcess& loggers,
             std::span<const LoopRegion::Loop> loops) {
  const uint32_t process = loggers.starts - 1;
  return loggers.pid > 0 &&
         std::ranges::all_of(loops, [process](const LoopRegion::Loop& loop) {
           return loop.control->logger_process == process &&
                  loop.log_control->restored == process;
         });
}

// Returns how much memory the homes of tables need that are kept.
size_t BytesOfTables(const RunOptions& options, const RealOptions& real,
                     const NfSpec& nf) {
  return real.keep.has_value() ? TableHomes::BytesToKeep(
                                     *nf.create(), options.controller.max_units)
                               : 0;
}

void TellAnew(const RealOptions& real, const std::string& why) {
  if (real.notice != nullptr) real.notice("begins anew: " + why);
}

// Returns what is kept for this run; none if there is nothing.
std::optional<Launcher::Kept> FindKept(const RealOptions& real,
                                       const std::string& identity) {
  auto found = Launcher::TakeOver(real.keep->socket, identity);
  if (found.ok()) return *std::move(found);
  TellAnew(real, std::string(found.status().message()));
  return std::nullopt;
}

ControllerLoopOptions LoopOptionsOf(const RunOptions& options,
                                    const RealOptions& real,
                                    const NetworkFunction& example,
                                    bool is_heir) {
  const bool starts_at_once =
      real.unpaced || real.warm_pool.has_value() || options.controller.leased;
  return {
      .controller = options.controller,
      .cold_start_delay = starts_at_once ? Nanos{} : options.unit_start_delay,
      .warm_start_delay = starts_at_once ? Nanos{} : options.warm_start_delay,
      .nf_reasons = static_cast<uint32_t>(example.drop_reasons().size()),
      .pools = static_cast<uint32_t>(example.pools().size()),
      .counts_flows = HasSides(example),
      .shares_thread = real.threads == 1,
      .shares_units = real.host != nullptr,
      .recovers = Recovers(options, real),
      .fails = MayFail(options, real),
      .inherits = is_heir};
}

}  // namespace

absl::StatusOr<std::unique_ptr<RealDriver>> RealDriver::Start(
    const RunOptions& given, const RealOptions& real,
    const PlacementPolicy& policy, const NfSpec& nf, Observers observers) {
  RunOptions options = given;
  const bool recovers = Recovers(options, real);
  if (recovers) {
    AddSpareUnits(options.controller);
    PrepareForFailures(options.controller);
    options.controller.awaits_ends = true;
  }
  if (real.keep.has_value() && !recovers) {
    return absl::InvalidArgumentError(
        "only processes of units with output loggers can be kept");
  }
  if (MayFail(options, real)) {
    if (!options.loggers) {
      return absl::InvalidArgumentError(
          "a controller that fails needs units with output loggers");
    }
    if (!real.keep.has_value() && !TablesOf(*nf.create()).empty()) {
      return absl::InvalidArgumentError(
          "a controller that fails needs an NF without shared tables");
    }
    PrepareForFailures(options.controller);
    options.controller.awaits_ends = options.controller.names_flows = true;
    options.controller.forgets_copies = recovers;
  }
  const std::vector<int> cpus = OwnCpus();
  const auto own = static_cast<uint32_t>(std::max<size_t>(cpus.size(), 1));
  RealOptions resolved = real;
  resolved.threads = HowManyThreads(real, own);
  if (real.warm_pool.has_value()) {
    if (real.isolation == Isolation::kThread || real.pin) {
      return absl::InvalidArgumentError(
          "a warm pool is of processes, pinned nowhere");
    }
    if (MayFail(options, real)) {
      return absl::InvalidArgumentError(
          "where a controller may fail, processes of units do not come and go");
    }
    resolved.threads =
        1 + (options.loggers ? 1 : 0) +
        std::min(options.controller.max_units, UnitStarts::kMostProcesses);
  }
  if (real.host != nullptr) resolved.threads = 1 + real.host->threads();
  if (resolved.threads > RealOptions::kMaxThreads) {
    return absl::InvalidArgumentError(fmt::format("{} threads are more than {}",
                                                  resolved.threads,
                                                  RealOptions::kMaxThreads));
  }
  if (real.isolation != Isolation::kThread && resolved.threads == 1) {
    return absl::InvalidArgumentError(
        "1 thread has no process of units beside it: 2 or more are needed");
  }
  if (real.pin && resolved.threads > own) {
    return absl::InvalidArgumentError(fmt::format(
        "{} threads cannot be pinned to {} CPUs", resolved.threads, own));
  }
  const bool has_store = options.state == StateMode::kExternal;
  if (has_store && (options.loggers || real.isolation != Isolation::kThread)) {
    return absl::InvalidArgumentError(
        "units with an external store are threads without output loggers");
  }
  const StateSchema schema = nf.create()->schema();
  const LoopRegion::Options of = {
      .controller = real.buffers,
      .loop = kWorkerBuffers,
      .loops = HowManyWorkers(resolved, options.loggers),
      .apart = real.isolation != Isolation::kThread,
      .record_bytes = schema.record_bytes(),
      .loggers = options.loggers,
      .entry_bytes = MaxLogEntryBytes(schema),
      .recovers = recovers,
      .reports = MayFail(options, real),
      .piece_words = LoggerLoop::PieceWordsOf(*nf.create()),
      .bells = real.host != nullptr ? real.host->bells() : nullptr};
  std::optional<Launcher::Kept> kept =
      real.keep.has_value()
          ? FindKept(real, IdentityOf(options, resolved, of, nf))
          : std::nullopt;
  bool is_heir = kept.has_value();
  const size_t memories = of.loops + 2;
  const size_t of_tables = BytesOfTables(options, real, nf);
  const size_t all_memories = memories + (of_tables > 0 ? 1 : 0);
  if (is_heir && kept->descriptors.size() < all_memories) {
    return absl::InternalError("less memory was kept than there is");
  }
  auto region = is_heir ? LoopRegion::Adopt(
                              of, std::span(kept->descriptors).first(memories))
                        : LoopRegion::Create(of);
  if (!region.ok()) return region.status();
  if (is_heir && !HaveAll(kept->processes.back(), region->loops)) {
    for (const int descriptor : kept->descriptors) close(descriptor);
    kept.reset();
    is_heir = false;
    TellAnew(real, "the loggers that were kept have not what units have");
    region = LoopRegion::Create(of);
    if (!region.ok()) return region.status();
  }
  std::optional<SharedRegion> tables;
  if (of_tables > 0) {
    auto memory =
        is_heir
            ? SharedRegion::Map(kept->descriptors[memories], 0)
            : SharedRegion::Create(
                  {.name = "snf tables", .bytes = of_tables, .in_advance = 0});
    if (!memory.ok()) return memory.status();
    tables.emplace(*std::move(memory));
  }
  for (size_t i = 0; is_heir && i < all_memories; ++i) {
    close(kept->descriptors[i]);
  }
  std::unique_ptr<RealDriver> driver(
      new RealDriver(options, resolved, policy, nf, std::move(observers),
                     *std::move(region), std::move(tables), is_heir));
  absl::Status status = driver->OpenStores(of.loops);
  if (!status.ok()) return status;
  status = driver->CreateLoggers(nf, of);
  if (!status.ok()) return status;
  status = driver->has_processes()
               ? driver->StartProcesses(nf, of, std::move(kept))
               : driver->CreateWorkers(nf, of);
  if (!status.ok()) return status;
  status = driver->has_processes() ? driver->PinProcesses(cpus)
                                   : driver->StartThreads(cpus);
  if (!status.ok()) return status;
  if (is_heir) {
    if (absl::Status s = driver->TakeOver(); !s.ok()) return s;
  }
  return driver;
}

RealDriver::RealDriver(const RunOptions& options, const RealOptions& real,
                       const PlacementPolicy& policy, const NfSpec& nf,
                       Observers observers, LoopRegion region,
                       std::optional<SharedRegion> tables, bool is_heir)
    : options_(options),
      real_(real),
      example_(nf.create()),
      recovers_(Recovers(options, real)),
      is_heir_(is_heir),
      result_(EmptyResult(*example_)),
      region_(std::move(region.memory)),
      apart_(std::move(region.apart)),
      own_region_(std::move(region.own_memory)),
      tables_region_(std::move(tables)),
      faults_(std::move(region.faults)),
      buffers_(std::move(region.buffers)),
      clock_(*region.clock),
      loops_(region.loops),
      controller_bell_(region.controller.bell),
      pace_(real.speed),
      ingress_(options, HasSides(*example_), buffers_),
      loop_(LoopOptionsOf(options, real, *example_, is_heir), policy,
            HomesOfTables(), clock_, LinksOf(region)),
      egress_(options, std::move(observers), ingress_, buffers_, loop_,
              result_),
      loggers_control_(region.loggers_control),
      loggers_bell_(region.loggers_bell),
      patience_(real.patience) {
  const auto prepare = [this](Controller& controller) {
    AddPiecePools(*example_, controller, options_.controller.controller_id,
                  real_.controllers);
  };
  prepare(loop_.controller());
  if (is_heir) {
    loop_.set_prepare(prepare, [this](const Controller&) {
      if (real_.keep->settle != nullptr) real_.keep->settle(*this);
    });
  }
  if (options.faults.any_controller()) {
    controller_faults_.emplace(options, real.notice, prepare, loop_, egress_,
                               result_.controller_faults);
  }
  if (real.aliases != nullptr) ingress_.set_listener(*real.aliases);
  if (real.lease_finder != nullptr) {
    loop_.set_lease_finder(*real.lease_finder);
  }
  if (!real.unpaced) {
    constexpr uint32_t kMaxPacket = 65'535;
    const Nanos service = ServiceOf(options.controller).ServiceTime(kMaxPacket);
    patience_.ns +=
        std::max({options.unit_start_delay, options.warm_start_delay, service})
            .ns;
  }
  if (real.warm_pool.has_value()) patience_.ns += UnitProcesses::kPatience.ns;
  if (options.state == StateMode::kExternal) {
    patience_.ns += 2 * options.store.patience.ns;
  }
  if (real.live != nullptr) {
    latency_times_ = std::make_unique<LiveTimes>();
    late_times_ = std::make_unique<LiveTimes>();
  }
  const auto most = [&options](uint32_t of_size) {
    return std::max(std::min({options.controller.unit_queue_packets,
                              options.controller.start_buffer_packets,
                              options.hold_packets, of_size}),
                    1u);
  };
  most_under_way_ = {most(real.buffers.small), most(real.buffers.medium),
                     most(real.buffers.large)};
}

TableHomes RealDriver::HomesOfTables() const {
  const uint32_t max_units = options_.controller.max_units;
  TableHomes homes(*example_, max_units, TableOptionsOf(options_));
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
          .reports = MayFail(options_, real_)};
}

absl::Status RealDriver::CreateLoggers(const NfSpec& nf,
                                       const LoopRegion::Options& of) {
  if (!of.loggers || has_processes()) return absl::OkStatus();
  const std::span<std::byte> memory = region_.bytes();
  auto side = LoopRegion::AttachLoggers(std::span(&memory, 1),
                                        own_region_->bytes(), of, *faults_);
  if (!side.ok()) return side.status();
  loggers_.emplace(LoggerOptions(), nf, *std::move(side));
  return absl::OkStatus();
}

UnitLoopOptions RealDriver::WorkerOptions(uint32_t index) const {
  UnitLoopOptions options;
  options.index = index;
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

absl::Status RealDriver::OpenStores(uint32_t loops) {
  if (options_.state != StateMode::kExternal) return absl::OkStatus();
  auto redis = RunRedis::Open(real_.redis, options_.store);
  if (!redis.ok()) return redis.status();
  redis_ = *std::move(redis);
  for (uint32_t i = 0; i < loops; ++i) stores_.push_back(redis_->MakeStore());
  return absl::OkStatus();
}

absl::Status RealDriver::CreateWorkers(const NfSpec& nf,
                                       const LoopRegion::Options& of) {
  std::vector<const CallMark*> marks;
  for (uint32_t i = 0; i < of.loops; ++i) {
    auto side = LoopRegion::Attach(region_.bytes(), of, i, *faults_);
    if (!side.ok()) return side.status();
    if (!stores_.empty()) side->links.store = stores_[i].get();
    if (real_.host != nullptr) {
      side->links.turns =
          &real_.host->TurnsOf(options_.controller.controller_id, i);
    }
    workers_.push_back(
        {.loop = std::make_unique<UnitLoop>(WorkerOptions(i), nf, clock_,
                                            std::move(side->links)),
         .thread = {}});
    marks.push_back(&workers_.back().loop->call_mark());
  }
  watchdog_.emplace(
      NfWatchdog::Options{.nf = nf.text(),
                          .patience = options_.nf_patience,
                          .marks = std::move(marks),
                          .describe = [this](PacketHandle packet) {
                            return Describe(buffers_, packet);
                          }});
  return absl::OkStatus();
}

absl::Status RealDriver::StartProcesses(const NfSpec& nf,
                                        const LoopRegion::Options& of,
                                        std::optional<Launcher::Kept> kept) {
  UnitProcesses::Options options = {
      .program = real_.program,
      .setup = {.region = of,
                .loop = WorkerOptions(0),
                .loggers = LoggerOptions(),
                .nf_patience = options_.nf_patience,
                .isolation = real_.isolation,
                .at_once = real_.warm_pool.value_or(~uint32_t{0}),
                .rehearses = real_.warm_pool.has_value()},
      .nf = TextWithModules(nf),
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
      .ready = [bell = controller_bell_] { bell->Ring(); }};
  for (const SharedRegion& memory : apart_) {
    options.regions.push_back(memory.fd());
  }
  if (real_.keep.has_value()) {
    options.keep = LaunchKeep{
        .socket = real_.keep->socket,
        .patience_ms = static_cast<int>(real_.keep->patience.ns / 1'000'000),
        .identity = IdentityOf(options_, real_, of, nf),
        .descriptors = options.regions};
    options.keep->descriptors.push_back(own_region_->fd());
    options.keep->descriptors.push_back(region_.fd());
    if (tables_region_.has_value()) {
      options.keep->descriptors.push_back(tables_region_->fd());
    }
    options.kept_memories = options.keep->descriptors.size();
    if (kept.has_value()) options.kept.emplace(*std::move(kept));
  }
  const std::string command =
      real_.command.substr(0, options.setup.command.size() - 1);
  std::ranges::copy(command, options.setup.command.begin());
  for (const NetworkFunction::Part& part : example_->parts()) {
    options.like.figures.nf_counts.resize(
        options.like.figures.nf_counts.size() + part.nf->counts().size());
  }
  options.like.tables.emplace_back(TablesOf(*example_).size());
  if (recovers_) faults_->BlameLoops(of.loops);
  auto processes = UnitProcesses::Start(std::move(options));
  if (!processes.ok()) return processes.status();
  processes_ = *std::move(processes);
  if (recovers_) {
    const auto renew = [this, of](size_t loop, uint32_t logger_process) {
      LoopRegion::Renew(apart_[loop].bytes(), of, logger_process);
      loops_[loop].clock->Follow(clock_);
    };
    unit_faults_.emplace(options_, real_.notice, renew, loops_, *processes_,
                         *faults_, loop_, egress_, result_.faults);
    // Others wait for a report as long.
    const Nanos reports = RealFaults::PatienceFor(options_);
    if (reports != Nanos::max()) patience_.ns += reports.ns;
  }
  if (real_.warm_pool.has_value()) {
    unit_starts_.emplace(*real_.warm_pool, *processes_, loop_, loops_,
                         result_.real.starts,
                         recovers_ ? &*unit_faults_ : nullptr);
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
  return PinTo(pthread_self(), cpus[0]);
}

absl::Status RealDriver::StartThreads(const std::vector<int>& cpus) {
  if (!has_threads()) {
    ControllerLinks::UnitLoopEnds& ends = loop_.ends(0);
    workers_.front().loop->Join(ends.out, ends.in);
    nf_call.names = this;
    return absl::OkStatus();
  }
  if (real_.host != nullptr) {
    for (uint32_t i = 0; i < workers_.size(); ++i) {
      real_.host->Add(options_.controller.controller_id, i, *workers_[i].loop,
                      *this);
    }
    return absl::OkStatus();
  }
  for (size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    worker.thread = std::thread([this, loop = worker.loop.get()] {
      GuardThread();
      nf_call.names = this;
      loop->Run([this] { return shares_loggers() && loggers_->Turn(); });
    });
    if (!real_.pin) continue;
    absl::Status status = PinTo(worker.thread.native_handle(), cpus[i + 1]);
    if (!status.ok()) return status;
  }
  if (absl::Status s = StartLoggers(cpus); !s.ok()) return s;
  return real_.pin ? PinTo(pthread_self(), cpus[0]) : absl::OkStatus();
}

absl::Status RealDriver::StartLoggers(const std::vector<int>& cpus) {
  if (!loggers_.has_value() || shares_loggers()) return absl::OkStatus();
  std::thread& thread = loggers_->StartThread();
  if (!real_.pin) return absl::OkStatus();
  return PinTo(thread.native_handle(), cpus[real_.threads - 1]);
}

}  // namespace snf
