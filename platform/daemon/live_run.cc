// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/live_run.h"

#include <fmt/format.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "base/check.h"
#include "base/text/stderr_line.h"
#include "base/text/wording.h"
#include "controller/core/placement.h"
#include "platform/daemon/address_notes.h"
#include "platform/daemon/chains/chain_set.h"
#include "platform/daemon/chains/live_chains.h"
#include "platform/daemon/daemon.h"
#include "platform/daemon/live_traffic.h"
#include "platform/daemon/loss_log.h"
#include "platform/drivers/loops/unit_threads.h"
#include "platform/drivers/real_time/real_driver.h"
#include "platform/hosts/host_place.h"
#include "platform/outcome/capture_sink.h"
#include "platform/outcome/nf_log_files.h"
#include "platform/outcome/run_output.h"
#include "platform/process/mailbox.h"
#include "platform/report/watch/live_outputs.h"
#include "platform/run/figures/live_board.h"
#include "platform/run/packet_watch.h"
#include "platform/run/released_packet.h"
#include "platform/service/metrics_certificate.h"
#include "runtime/ring/doorbell.h"
#include "runtime/sdk/nf_call.h"

namespace snf {
namespace {

void Tell(const RunRequest& options, const LiveTraffic& traffic) {
  if (options.quiet) return;
  for (const std::string& note : traffic.notes()) {
    PrintOnStderr("{}\n", note);
  }
  for (const std::string& note : AddressNotes(options)) {
    PrintOnStderr("{}\n", note);
  }
  PrintOnStderr("Running {} between {}; Ctrl-C ends it.\n",
                Printable(options.nf), ListOf(options.ports));
}

absl::StatusOr<std::unique_ptr<LiveOutputs>> CreateOutputs(
    const RunRequest& options, bool has_readers) {
  auto metrics = WithCertificate(options.metrics, options.metrics_tls);
  if (!metrics.ok()) return metrics.status();
  return LiveOutputs::Create(
      {.watch = options.watch,
       .metrics = *std::move(metrics),
       .has_readers = has_readers,
       .title = fmt::format("{}: {} under policy {}", ListOf(options.ports),
                            Printable(options.nf), options.policies.front())},
      [](uint64_t) { return std::nullopt; });
}

void Finish(ChainSet& chains, LiveTraffic& traffic, ReplayedRun& replayed) {
  ComparedRun& run = replayed.run;
  run.result = chains.Finish();
  run.elapsed_s = static_cast<double>(run.result.real.wall.ns) / 1e9;
  traffic.Finish();
  run.result.live = traffic.figures();
  std::string wrong = traffic.WhatDoesNotAddUp(run.result, chains.earlier());
  replayed.earlier = chains.earlier();
  for (const EarlierChain& chain : replayed.earlier) {
    replayed.warnings.push_back(fmt::format(
        "Chain {}, {}, had {}{}{}.", chain.number, Printable(chain.nf),
        Plural(chain.packets_in, "packet"), chains.has_rules() ? "" : " before",
        chain.renewed_for.empty()
            ? ""
            : "; it failed and restarted: " + chain.renewed_for));
  }
  for (std::string& line : traffic.reasons()) {
    replayed.warnings.push_back(std::move(line));
  }
  if (wrong.empty() || !run.result.failure.empty()) return;
  ++run.result.violations;
  run.result.violation_messages.push_back(std::move(wrong));
}

// Keeps the options of each driver, so that a failed driver can be replaced.
// Thread-safe.
class Makers {
 public:
  // `chains` is the number of chains side by side.
  explicit Makers(size_t chains)
      : most_(4 * LiveChains::kMostChains * chains) {}

  void Add(const RealDriver& driver, const RunRequest& options) {
    const std::scoped_lock lock(mutex_);
    made_.emplace_back(&driver, options);
    if (made_.size() > most_) made_.pop_front();
  }
  RunRequest Of(const RealDriver& driver) {
    const std::scoped_lock lock(mutex_);
    const auto found = std::ranges::find(made_, &driver, &Made::first);
    SNF_CHECK(found != made_.end());
    return found->second;
  }

 private:
  using Made = std::pair<const RealDriver*, RunRequest>;

  const size_t most_;
  std::mutex mutex_;
  std::deque<Made> made_;
};

// A packet without a chain has no flow.
class NoFlows final : public NfCallNames {
 public:
  FlowKey FlowOf(FlowId /*flow*/) const override { return {}; }
  uint64_t NumberOf(PacketHandle /*packet*/) const override { return 0; }
};

// Shows a packet that no rule gives a chain to captures of drops; each of them
// may be null.
void ShowWithoutChain(const CapturedPacket& captured, RunObserver* sink,
                      PacketWatch* watch) {
  static constexpr std::string_view kReason = "no_chain";
  const ReleasedPacket packet = {.time = captured.time,
                                 .bytes = captured.bytes,
                                 .original_length = captured.original_bytes,
                                 .link = captured.link};
  if (sink != nullptr) sink->on_drop(packet, kReason);
  if (watch != nullptr && watch->is_active()) {
    watch->on_packet(packet, kReason, NoFlows());
  }
}

using Told = std::function<void(const std::string&)>;

void AddLogLosses(const NfLogFiles& logs, LiveFigures& figures) {
  NfLogFigures losses;
  logs.AddLosses(losses);
  figures.counts[&NfLogFigures::queue_full] = losses.queue_full;
  figures.counts[&NfLogFigures::write_failed] = losses.write_failed;
}

// Says how etcd and the resource manager answer, as far as they are asked.
void AddDependencies(const RunRequest& options, const Daemon* daemon,
                     LiveFigures& figures) {
  const HostSource* const hosts = options.real.host_source;
  const auto etcd = hosts != nullptr ? hosts->etcd() : std::nullopt;
  if (etcd.has_value()) TakeLonger(*etcd, figures.etcd);
  if (daemon != nullptr) daemon->AddManager(figures);
}

// Lets the calling thread run on these CPUs, and later ones that it starts. A
// thread that the dispatcher has started may be on the dispatcher's CPU alone.
void UseCpus(std::span<const int> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);  // else it stays as it is
}

// Returns the place of a chain among the chains side by side. A newer chain of
// the same name has the same CPUs.
PinPlace PlaceOf(const std::vector<Config::Chain>& side_by_side,
                 const std::string& name) {
  const auto found =
      std::ranges::find(side_by_side, name, &Config::Chain::name);
  const bool is_there = found != side_by_side.end();
  return {.number = is_there
                        ? static_cast<uint32_t>(found - side_by_side.begin())
                        : 0,
          .runs = static_cast<uint32_t>(side_by_side.size())};
}

// The parts of each host's units that the chains of this controller have.
class HostShares {
 public:
  explicit HostShares(const RunRequest& options)
      : source_(options.real.host_source),
        is_shared_(options.config.chains.size() > 1 ||
                   options.controller.count > 1) {
    const auto& chains = options.config.chains;
    const auto count = static_cast<uint32_t>(chains.size());
    for (uint32_t i = 0; source_ != nullptr && is_shared_ && i < count; ++i) {
      shares_.try_emplace(
          chains[i].name, *source_, HostShare::Sharer{i, count},
          HostShare::Sharer{options.controller.id, options.controller.count});
    }
  }

  // Returns the chain's part; null if no hosts join. A single chain has any
  // name.
  const HostSource* Of(const std::string& chain) const {
    if (!is_shared_ || source_ == nullptr) return source_;
    const auto found =
        shares_.size() == 1 ? shares_.begin() : shares_.find(chain);
    SNF_CHECK(found != shares_.end());
    return &found->second;
  }

 private:
  const HostSource* const source_;  // null: no hosts join
  const bool is_shared_;
  std::map<std::string, HostShare> shares_;  // by chain
};

// Makes the chain of the options.
absl::StatusOr<std::unique_ptr<ChainSet>> BeginAnew(
    const RunRequest& options, const LiveChainSetter::Start& start,
    const Told& told) {
  auto driver = start(options);
  if (!driver.ok()) return driver.status();
  return std::make_unique<ChainSet>(std::make_unique<LiveChains>(
      *std::move(driver), options.config.chains.front().nf.text(), told));
}

// Makes the chains of the options, which run side by side.
absl::StatusOr<std::unique_ptr<ChainSet>> BeginByRules(
    const RunRequest& options, const LiveChainSetter::Start& start,
    const Told& told) {
  auto rules = options.MakeRules();
  if (!rules.ok()) return rules.status();
  std::vector<ChainSet::Member> members;
  for (size_t i = 0; i < options.config.chains.size(); ++i) {
    RunRequest one = Alone(options, i);
    if (one.real.keep.has_value()) {
      one.real.KeepBy(LiveChainSetter::KeepAt(*options.real.keep,
                                              static_cast<uint32_t>(i)));
    }
    const std::string& name = options.config.chains[i].name;
    auto driver = start(one);
    if (!driver.ok()) {
      return absl::Status(driver.status().code(),
                          fmt::format("chain \"{}\": {}", name,
                                      std::string(driver.status().message())));
    }
    members.push_back(
        {.name = name,
         .chains = std::make_unique<LiveChains>(
             *std::move(driver), one.nf, told, static_cast<uint32_t>(i + 1))});
  }
  return std::make_unique<ChainSet>(*std::move(rules), std::move(members));
}

// Goes on with the chains of a run that was killed; null if there are none. An
// older one whose processes have ended meanwhile is left out.
absl::StatusOr<std::unique_ptr<ChainSet>> Inherit(
    Daemon& daemon, const RunRequest& options,
    const LiveChainSetter::Start& start, const Told& told) {
  using Pools = PoolExchange::Pools;
  const auto held = std::make_shared<std::vector<Pools>>();  // by older ones
  std::vector<ChainSet::Member> members;
  std::map<std::string, Pools> before;  // held by the predecessor, by name
  while (true) {
    auto next = daemon.NextKept();
    if (!next.ok()) return next.status();
    if (!next->has_value()) break;
    LiveChainSetter::Kept& kept = **next;
    const size_t own = held->size();
    if (kept.is_newest) {
      kept.options.real.keep->settle = [held](RealDriver& driver) {
        for (const Pools& older : *held) {
          PoolExchange::SettleNewest(driver, older);
        }
      };
    } else {
      held->emplace_back();
      kept.options.real.keep->settle = [held, own](RealDriver& driver) {
        (*held)[own] = PoolExchange::SettleOlder(driver);
      };
    }
    auto driver = start(kept.options);
    const bool is_heir =
        driver.ok() && (*driver)->inherited_flows().has_value();
    if (!kept.is_newest && !is_heir) {
      held->pop_back();
      continue;
    }
    if (!driver.ok()) return driver.status();
    auto member =
        std::ranges::find(members, kept.name, &ChainSet::Member::name);
    if (member == members.end()) {
      members.push_back(
          {.name = kept.name,
           .chains = std::make_unique<LiveChains>(
               *std::move(driver), kept.options.nf, told, kept.number)});
    } else {
      member->chains->Inherit(*std::move(driver), kept.options.nf, kept.number,
                              before[kept.name], kept.end_of_older);
    }
    if (!kept.is_newest) before[kept.name] = (*held)[own];
  }
  if (members.empty()) return nullptr;
  if (options.has_one_chain()) {
    return std::make_unique<ChainSet>(std::move(members.front().chains));
  }
  auto rules = options.MakeRules();
  if (!rules.ok()) return rules.status();
  // In the order of the rules' numbers.
  std::ranges::sort(members, {}, [&options](const ChainSet::Member& member) {
    const auto& chains = options.config.chains;
    return std::ranges::find(chains, member.name, &Config::Chain::name) -
           chains.begin();
  });
  return std::make_unique<ChainSet>(*std::move(rules), std::move(members));
}

}  // namespace

std::string ListOf(const std::vector<PortSpec>& ports) {
  std::string list;
  for (const PortSpec& port : ports) {
    list += (list.empty() ? "" : ", ") + port.text();
  }
  return list;
}

absl::StatusOr<LiveRun> RunPorts(const RunRequest& options,
                                 FirstInterrupt& interrupt, Daemon* daemon) {
  // Each chain starts on a thread of its own. With one heap for all threads, a
  // chain gets the memory of an ended one: from the third to the twelfth chain
  // memory grew by 58 MB with a heap each, and by 4 to 9 MB with one.
  mallopt(M_ARENA_MAX, 1);
  if (options.real.busy_poll.has_value()) {
    Doorbell::SetBusyPoll(*options.real.busy_poll);
  }
  ReturningPort::Notice lost;
  if (daemon != nullptr) {
    lost = [daemon](std::string_view line) { daemon->Notice(line); };
  }
  const bool is_successor = daemon != nullptr && daemon->is_successor();
  auto traffic = is_successor
                     ? LiveTraffic::OpenAsSuccessor(options.ports, lost)
                     : LiveTraffic::Open(options.ports, lost);
  if (!traffic.ok()) return traffic.status();
  // A capture has packets as they are on the wire.
  if (!options.gso || !options.out.empty()) (*traffic)->CutMerged();
  auto sink = CaptureSink::Open(options);
  if (!sink.ok()) return sink.status();
  auto outputs = CreateOutputs(options, daemon != nullptr);
  if (!outputs.ok()) return outputs.status();
  std::unique_ptr<NfLogFiles> logs;
  if (options.run.nf_logs) {
    auto opened = NfLogFiles::Open(
        {.directory = options.nf_logs, .ipfix = options.ipfix});
    if (!opened.ok()) return opened.status();
    logs = *std::move(opened);
    if (daemon != nullptr) daemon->set_nf_logs(logs.get());
  }
  const absl::Cleanup forget_logs = [daemon] {
    if (daemon != nullptr) daemon->set_nf_logs(nullptr);
  };
  LossLog losses([&](std::string_view line) {
    if (daemon != nullptr) {
      daemon->Notice(line);
    } else if (!options.quiet && !options.watch) {
      PrintOnStderr("{}: {}\n", options.real.command, line);
    }
  });
  std::unique_ptr<ChainSet> chains;
  const std::string policy = options.policies.front();
  Makers makers(options.config.chains.size());
  std::mutex one_start;
  const auto amend = [&](LiveFigures& figures) {
    figures.live = (*traffic)->figures();
    AddDependencies(options, daemon, figures);
    (*traffic)->AddGroup(figures);
    chains->AddFigures(figures);
    if (logs != nullptr) AddLogLosses(*logs, figures);
    losses.Look(figures);
  };
  const auto& side_by_side = options.config.chains;
  const HostShares shares(options);
  // The dispatcher is pinned last: threads and processes inherit the CPU.
  const std::vector<int> cpus = OwnCpus();
  const std::thread::id dispatcher = std::this_thread::get_id();
  const LiveChainSetter::Start start =
      [&](const RunRequest& of) -> absl::StatusOr<std::unique_ptr<RealDriver>> {
    // Chains that failed restart on threads of their own.
    const std::scoped_lock lock(one_start);
    RealOptions real = of.real;
    real.interrupted = &interrupt.came;
    real.failed_packets = options.real.failed_packets;
    real.pin_place = PlaceOf(side_by_side, of.config.chains.front().name);
    real.pin_place.cpus = cpus;
    real.pin_place.pins_caller = false;
    if (real.pin && std::this_thread::get_id() != dispatcher) UseCpus(cpus);
    real.host_source = shares.Of(of.config.chains.front().name);
    real.own_units = options.real.own_units;
    real.live = (*outputs)->board();
    real.amend = amend;
    if (daemon != nullptr) {
      real.watch = &daemon->watch();
      real.notice = [daemon](std::string_view line) { daemon->Notice(line); };
    } else if (real.notice == nullptr && !options.quiet && !options.watch) {
      real.notice = [command = real.command](std::string_view line) {
        PrintOnStderr("{}: {}\n", command, line);
      };
    }
    const NfSpec& nf = of.config.chains.front().nf;
    Observers observers({sink->get(), traffic->get(),
                         daemon != nullptr ? &daemon->observer() : nullptr});
    if (logs != nullptr) {
      auto reader = logs->Read(nf);
      if (!reader.ok()) return reader.status();
      observers.Add(**reader);
    }
    auto driver = RealDriver::Start(of.run, real, *FindPlacementPolicy(policy),
                                    nf, std::move(observers));
    if (driver.ok()) makers.Add(**driver, of);
    return driver;
  };
  LiveRun live;
  ComparedRun& run = live.replayed.run;
  run.policy = policy;
  const auto told = [&](const std::string& line) {
    if (daemon != nullptr) {
      daemon->on_chain_ended(line);
    } else if (!options.quiet && !options.watch) {
      PrintOnStderr("{}: {}\n", options.real.command, line);
    }
  };
  if (daemon != nullptr) {
    auto inherited = Inherit(*daemon, options, start, told);
    if (!inherited.ok()) return inherited.status();
    chains = *std::move(inherited);
  }
  if (chains == nullptr) {
    auto begun = options.has_one_chain() ? BeginAnew(options, start, told)
                                         : BeginByRules(options, start, told);
    if (!begun.ok()) return begun.status();
    chains = *std::move(begun);
  }
  chains->set_renewal([&](const RealDriver& failed) {
    RunRequest of = makers.Of(failed);
    // The failed driver still owns the adopted processes.
    if (of.real.keep.has_value()) of.real.keep->takes_over = false;
    return
        [&start, &interrupt,
         of = std::move(of)]() -> absl::StatusOr<std::unique_ptr<RealDriver>> {
          if (interrupt.came) return absl::CancelledError("the run is to end");
          return start(of);
        };
  });
  chains->set_on_no_chain([&](const CapturedPacket& packet) {
    ShowWithoutChain(packet, sink->get(),
                     daemon != nullptr ? &daemon->watch() : nullptr);
  });
  if (LiveBoard* const board = (*outputs)->board(); board != nullptr) {
    chains->set_publish([&amend, board](LiveFigures figures) {
      amend(figures);
      board->Publish(std::move(figures));
    });
  }
  interrupt.is_awaited = true;
  Mailbox* mailbox = nullptr;
  if (daemon != nullptr) {
    absl::Status begun =
        daemon->Begin(**traffic, *chains, start, *(*outputs)->board());
    if (!begun.ok()) return begun;
    mailbox = &daemon->mailbox();
  } else {
    Tell(options, **traffic);
  }
  (*outputs)->Show();
  if (options.real.pin) {
    absl::Status pinned = PinThread(pthread_self(), cpus.front());
    if (!pinned.ok()) return pinned;
  }
  live.ports = (*traffic)->Run(*chains, interrupt.came, mailbox);
  if (mailbox != nullptr) mailbox->Close();
  interrupt.is_awaited = false;
  (*outputs)->Hide();
  live.nf = chains->has_rules() ? options.nf : chains->only().newest_nf();
  Finish(*chains, **traffic, live.replayed);
  if (daemon != nullptr) daemon->End(*chains);
  if (*sink != nullptr) {
    if (absl::Status s = (*sink)->Close(); !s.ok()) return s;
  }
  if (logs != nullptr) {
    // The report and the log name the records that were not written.
    logs->Flush().IgnoreError();
    logs->AddLosses(live.replayed.run.result.nf_log);
  }
  return live;
}

absl::StatusOr<ExitCode> ReportOf(const RunRequest& options,
                                  const LiveRun& live) {
  RunRequest last = options;
  last.nf = live.nf;
  absl::StatusOr<ExitCode> exit_code = RunOutput(last).Write(live.replayed);
  if (!exit_code.ok()) return exit_code;
  if (!live.ports.ok()) return live.ports;
  const std::string& failure = live.replayed.run.result.failure;
  if (failure.empty()) return exit_code;
  return absl::InternalError("the run ended early: " + failure);
}

}  // namespace snf
