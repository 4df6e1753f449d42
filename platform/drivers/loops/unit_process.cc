// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/loops/unit_process.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/text/stderr_line.h"
#include "platform/drivers/loops/loop_results.h"
#include "platform/drivers/loops/real_loggers.h"
#include "platform/process/exit_code.h"
#include "platform/process/nf_guard.h"
#include "platform/process/unit_word.h"
#include "platform/run/nf_watchdog.h"
#include "resource_manager/launch/container_method.h"
#include "resource_manager/launch/launch_server.h"
#include "runtime/live/rehearsal.h"
#include "runtime/ring/doorbell.h"
#include "runtime/ring/shared_region.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {
namespace {

constexpr const char* kUnit = "snf-unit";
constexpr const char* kLoggers = "snf-loggers";

void EndForFault(const WireFault& fault) {
  TellFault(ToString(fault));
  _exit(kExitInternal);
}

// Loggers go on without the units that are hostile: those whose ends, of all of
// a loop, they have not taken in yet.
void BlameForFault(const WireFault& fault,
                   std::span<const LogControl* const> loops) {
  if (fault.loop == WireFault::kController || fault.of_logger) {
    return EndForFault(fault);
  }
  UnitWord::Blame blame = {.loop = fault.loop,
                           .ends = loops[fault.loop]->drained.load(),
                           .text = {}};
  const std::string text = ToString(fault);
  text.copy(blame.text.data(), blame.text.size() - 1);
  TellWord(UnitWord::Kind::kBlame, &blame, sizeof(blame));
}

void SetSpins(const UnitProcessSetup& setup, bool are_three) {
  if (setup.busy_poll >= Nanos{0}) {
    Doorbell::SetBusyPoll(setup.busy_poll);
  } else if (are_three) {  // a controller, a unit and a logger want a CPU each
    Doorbell::set_spins(Doorbell::SpinsOnSpareCpus());
  }
}

// Runs a loop of units until it is stopped.
int RunUnits(const UnitProcessSetup& setup, const NfSpec& nf, int region,
             int socket, const std::optional<HostMapping>& host) {
  BeginTelling(socket, kUnit, setup.command.data());
  SetSpins(setup, setup.region.loggers);
  const auto memory =
      SharedRegion::Map(region, LoopRegion::InAdvance(setup.region));
  if (!memory.ok()) {
    TellFault(std::string(memory.status().message()));
    return kExitUnavailable;
  }
  WireFaults faults(EndForFault);
  auto side = LoopRegion::Attach(memory->bytes(), setup.region,
                                 setup.loop.index, faults);
  if (!side.ok()) {
    TellFault(std::string(side.status().message()));
    return kExitInternal;
  }
  if (setup.rehearses) Rehearse(nf, setup.loop.unit);
  UnitLoopOptions options = setup.loop;
  options.incarnation += side->links.control->ends;
  std::optional<HostStore> records;
  if (host.has_value()) {
    records.emplace(setup.host_store, setup.loop.index, host->own(),
                    host->all());
    side->links.host = &*records;
  }
  UnitLoop loop(options, nf, *side->clock, std::move(side->links));
  loop.ShowCalls();
  const NfWatchdog watchdog({.nf = nf.text(),
                             .patience = setup.nf_patience,
                             .marks = {&loop.call_mark()},
                             .describe = [&loop](PacketHandle packet) {
                               return Describe(loop.buffers(), packet);
                             }});
  TellWord(UnitWord::Kind::kReady, nullptr, 0);
  loop.Run();
  const std::vector<uint64_t> words =
      LoopResults::Of(loop, setup.loop).ToWords();
  TellWord(UnitWord::Kind::kResults, words.data(),
           words.size() * sizeof(uint64_t));
  return kExitOk;
}

// Runs all loops of loggers until they are stopped. The last of the regions is
// that of the loggers, the others are those of loops of units.
int RunLoggers(const UnitProcessSetup& setup, const NfSpec& nf,
               std::span<const int> regions, int socket) {
  BeginTelling(socket, kLoggers, setup.command.data());
  SetSpins(setup, true);
  std::vector<SharedRegion> mapped;
  std::vector<std::span<std::byte>> memories;
  for (const int region : regions) {
    auto memory =
        region == regions.back()
            ? SharedRegion::Map(region, LoopRegion::OwnInAdvance(setup.region))
            : SharedRegion::Map(region, LoopRegion::InAdvance(setup.region));
    if (!memory.ok()) {
      TellFault(std::string(memory.status().message()));
      return kExitUnavailable;
    }
    memories.push_back(memory->bytes());
    mapped.push_back(*std::move(memory));
  }
  std::vector<const LogControl*> loops;
  WireFaults faults([&](const WireFault& fault) {
    if (!setup.region.recovers) return EndForFault(fault);
    BlameForFault(fault, loops);
  });
  auto side =
      LoopRegion::AttachLoggers(std::span(memories).first(memories.size() - 1),
                                memories.back(), setup.region, faults);
  if (!side.ok()) {
    TellFault(std::string(side.status().message()));
    return kExitInternal;
  }
  for (const LoggerLoopLinks& loop : side->loops) {
    if (loop.recovery.has_value()) loops.push_back(loop.recovery->control);
  }
  RealLoggers loggers(setup.loggers, nf, *std::move(side));
  TellWord(UnitWord::Kind::kReady, nullptr, 0);
  loggers.Run();
  return kExitOk;
}

// Stands for a process of units of another host, which gets the whole set-up.
// `host` must outlive the result.
LaunchMethod::Process ProcessOfHost(const UnitProcessSetup& setup,
                                    std::span<const std::byte> launch,
                                    const HostPlace& host, uint32_t loop,
                                    int region, int socket) {
  const auto body = [setup, launch, &host, loop, region,
                     socket](uint32_t /*starts*/) {
    UnitProcessSetup of_start = setup;
    of_start.loop.index = loop;
    return RunUnitsOnHost(of_start, host, launch.subspan(sizeof(setup)), region,
                          socket);
  };
  return {.body = body,
          .descriptors = {region, socket},
          .name = "snf-host",
          .is_at_once = setup.is_at_once(loop)};
}

// Returns the hosts of all loops of units; no processes: this host.
std::vector<HostPlace> HostsOf(const UnitProcessSetup& setup) {
  std::vector<HostPlace> hosts(setup.region.loops);
  const uint32_t placed = PlacedLoops(setup.region.loops, setup.loop.max_units);
  for (uint32_t i = 0; i < setup.region.loops; ++i) {
    const HostPlace* const host = setup.hosts.Of(i, placed);
    if (host != nullptr) hosts[i] = *host;
  }
  return hosts;
}

// The descriptors of the host's records follow the descriptors of memories.
HostDescriptors HostOf(const UnitProcessSetup& setup,
                       std::span<const int> descriptors) {
  if (setup.host_store.slots == 0) return {};
  const size_t at = setup.processes();
  return {.writable = descriptors[at], .readable = descriptors[at + 1]};
}

// The NF must outlive the result; so must the hosts, which starts change.
std::vector<LaunchMethod::Process> ProcessesOf(
    const UnitProcessSetup& setup, const ReadNf& nf,
    std::vector<HostPlace>& hosts, std::span<const int> descriptors) {
  std::vector<LaunchMethod::Process> processes;
  const auto sockets = descriptors.last(setup.processes());
  for (uint32_t i = 0; i < setup.region.loops; ++i) {
    processes.push_back(ProcessOfUnits(setup, nf, i, descriptors[i], sockets[i],
                                       HostOf(setup, descriptors)));
    if (!setup.places_change) continue;
    processes.back().take_argument = [&hosts,
                                      i](std::span<const std::byte> argument) {
      hosts[i] = {};
      if (argument.size() != sizeof(HostPlace)) return;
      std::memcpy(&hosts[i], argument.data(), sizeof(HostPlace));
    };
  }
  if (!setup.region.loggers) return processes;
  const auto first = descriptors.first(setup.region.loops + 1);
  const std::vector<int> regions(first.begin(), first.end());
  const int own = sockets.back();
  const auto body = [setup, &nf, regions, own](uint32_t starts) {
    UnitProcessSetup of_start = setup;
    of_start.loggers.process = starts;
    return RunLoggers(of_start, nf.nf, regions, own);
  };
  std::vector<int> theirs = regions;
  theirs.push_back(own);
  processes.push_back(
      {.body = body, .descriptors = std::move(theirs), .name = kLoggers});
  return processes;
}

// Starts processes that stand for units of other hosts by fork: in a container
// there is no network. A process has the host of its start. Units here hear by
// HostPresence which others are here.
class MethodOfHosts final : public LaunchMethod {
 public:
  MethodOfHosts(const std::vector<HostPlace>& hosts,
                std::vector<Process> of_others, LaunchMethod& of_units,
                const HostStore::Options& store, int writable)
      : hosts_(hosts),
        of_others_(std::move(of_others)),
        of_units_(of_units),
        store_(store),
        writable_(writable) {}

  absl::StatusOr<pid_t> Start(uint32_t index, uint32_t starts,
                              const Process& process) override {
    if (index < store_.loops) {
      HostPresence::Set(store_, index, writable_, !is_away(index));
    }
    if (!is_away(index)) return of_units_.Start(index, starts, process);
    return of_hosts_.Start(index, starts, of_others_[index]);
  }
  void on_ended(uint32_t index) override {
    // Before the next start: its place may be another host.
    if (index < store_.loops) {
      HostPresence::Set(store_, index, writable_, false);
    }
    if (!is_away(index)) of_units_.on_ended(index);
  }

 private:
  bool is_away(uint32_t index) const {
    return index < hosts_.size() && hosts_[index].processes > 0;
  }

  const std::vector<HostPlace>& hosts_;
  const std::vector<Process> of_others_;
  ForkMethod of_hosts_;
  LaunchMethod& of_units_;
  const HostStore::Options store_;
  const int writable_;
};

// Starts what the launch asks for, and returns when that is over.
absl::Status Serve(int socket, const Launch& launch) {
  UnitProcessSetup setup;
  if (launch.setup.size() < sizeof(setup) ||
      (std::memcpy(&setup, launch.setup.data(), sizeof(setup)),
       !setup.region.apart ||
           launch.descriptors.size() != setup.descriptors())) {
    return absl::InternalError("an invalid set-up");
  }
  if (absl::Status s = LeaveStandardStreams(); !s.ok()) return s;
  // Each process gets the NF from here, with the files that its options name;
  // a confined module is loaded by the processes of units.
  GuardNfCalls(setup.command.data());
  const std::span text = std::span(launch.setup).subspan(sizeof(setup));
  const absl::StatusOr<ReadNf> nf =
      ReadLaunchedNf({reinterpret_cast<const char*>(text.data()), text.size()});
  if (!nf.ok()) return nf.status();
  const auto method = MethodOf(setup.isolation, *nf);
  if (!method.ok()) return method.status();
  std::vector<HostPlace> hosts = HostsOf(setup);
  std::vector<LaunchMethod::Process> of_others;
  const auto sockets = std::span(launch.descriptors).last(setup.processes());
  for (uint32_t i = 0; i < setup.region.loops; ++i) {
    of_others.push_back(ProcessOfHost(setup, launch.setup, hosts[i], i,
                                      launch.descriptors[i], sockets[i]));
  }
  MethodOfHosts of_all(hosts, std::move(of_others), **method, setup.host_store,
                       HostOf(setup, launch.descriptors).writable);
  ServeLaunch(socket, of_all,
              ProcessesOf(setup, *nf, hosts, launch.descriptors),
              launch.keep.has_value() ? &*launch.keep : nullptr);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<LaunchMethod>> MethodOf(Isolation isolation,
                                                       const ReadNf& nf) {
  if (isolation != Isolation::kContainer) return std::make_unique<ForkMethod>();
  if (!nf.launched.is_confined()) return ContainerMethod::Make({});
  return ContainerMethod::Make({}, FilesOf(nf.launched));
}

LaunchMethod::Process ProcessOfUnits(const UnitProcessSetup& setup,
                                     const ReadNf& nf, uint32_t loop,
                                     int region, int socket,
                                     const HostDescriptors& host) {
  // In the new process, the NF that it has loaded itself.
  const auto own = std::make_shared<NfSpec>();
  // Mapped before that, so that no code of the NF finds the descriptors.
  const auto records = std::make_shared<std::optional<HostMapping>>();
  const bool loads = nf.launched.is_confined();
  const auto prepare = [&nf, own, records, loads, host, loop,
                        of = setup.host_store] {
    if (!host.empty()) {
      absl::StatusOr<HostMapping> mapped = HostMapping::Map(of, loop, host);
      if (!mapped.ok()) return mapped.status();
      records->emplace(*std::move(mapped));
    }
    if (!loads) return absl::OkStatus();
    absl::StatusOr<NfSpec> loaded = nf.Load();
    if (loaded.ok()) *own = *std::move(loaded);
    return loaded.status();
  };
  const auto body = [=, &nf](uint32_t /*starts*/) {
    UnitProcessSetup of_start = setup;
    of_start.loop.index = loop;
    return RunUnits(of_start, loads ? *own : nf.nf, region, socket, *records);
  };
  std::vector<int> descriptors = {region, socket};
  if (!host.empty()) {
    descriptors.push_back(host.writable);
    descriptors.push_back(host.readable);
  }
  const bool prepares = loads || !host.empty();
  return {.prepare = prepares ? prepare : std::function<absl::Status()>(),
          .body = body,
          .descriptors = std::move(descriptors),
          .name = kUnit,
          .is_at_once = setup.is_at_once(loop)};
}

std::vector<std::byte> UnitProcessSetup::WithNf(
    const std::string& launched) const {
  std::vector<std::byte> bytes(sizeof(*this) + launched.size());
  std::memcpy(bytes.data(), this, sizeof(*this));
  std::memcpy(&bytes[sizeof(*this)], launched.data(), launched.size());
  return bytes;
}

int UnitProcessMain(int socket) {
  const absl::StatusOr<Launch> launch = ReceiveLaunch(socket);
  if (!launch.ok()) {
    PrintOnStderr("snf {}: {}\n", kUnitProcessCommand,
                  std::string(launch.status().message()));
    return kExitUsage;
  }
  const absl::Status status = Serve(socket, *launch);
  if (!status.ok()) RefuseLaunch(socket, status);
  return kExitOk;
}

}  // namespace snf
