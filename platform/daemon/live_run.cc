// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/live_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "base/check.h"
#include "base/rules/chain_rules.h"
#include "base/text/wording.h"
#include "controller/core/placement.h"
#include "platform/daemon/daemon.h"
#include "platform/daemon/live_chains.h"
#include "platform/daemon/live_traffic.h"
#include "platform/daemon/loss_log.h"
#include "platform/drivers/real_time/real_driver.h"
#include "platform/outcome/capture_sink.h"
#include "platform/outcome/nf_log_files.h"
#include "platform/outcome/run_output.h"
#include "platform/process/mailbox.h"
#include "platform/report/watch/live_outputs.h"
#include "platform/run/figures/live_board.h"

namespace snf {
namespace {

void Tell(const RunRequest& options, const LiveTraffic& traffic) {
  if (options.quiet) return;
  for (const std::string& note : traffic.notes()) {
    fmt::print(stderr, "{}\n", note);
  }
  fmt::print(stderr, "Running {} between {}; Ctrl-C ends it.\n",
             Printable(options.nf), ListOf(options.ports));
}

absl::StatusOr<std::unique_ptr<LiveOutputs>> CreateOutputs(
    const RunRequest& options, bool has_readers) {
  auto outputs = LiveOutputs::Create(
      {.watch = options.watch,
       .metrics_port = options.metrics_port,
       .has_readers = has_readers,
       .title = fmt::format("{}: {} under policy {}", ListOf(options.ports),
                            Printable(options.nf), options.policies.front())},
      [](uint64_t) { return std::nullopt; });
  if (outputs.ok()) return outputs;
  return absl::Status(outputs.status().code(),
                      fmt::format("--metrics_port: {}",
                                  std::string(outputs.status().message())));
}

void Finish(LiveChains& chains, LiveTraffic& traffic, ReplayedRun& replayed) {
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
  void Add(const RealDriver& driver, const RunRequest& options) {
    const std::scoped_lock lock(mutex_);
    made_.emplace_back(&driver, options);
    if (made_.size() > kMost) made_.pop_front();
  }
  RunRequest Of(const RealDriver& driver) {
    const std::scoped_lock lock(mutex_);
    const auto found = std::ranges::find(made_, &driver, &Made::first);
    SNF_CHECK(found != made_.end());
    return found->second;
  }

 private:
  using Made = std::pair<const RealDriver*, RunRequest>;
  static constexpr size_t kMost = 4 * LiveChains::kMostChains;

  std::mutex mutex_;
  std::deque<Made> made_;
};

using Told = std::function<void(const std::string&)>;

void AddLogLosses(const NfLogFiles& logs, LiveFigures& figures) {
  NfLogFigures losses;
  logs.AddLosses(losses);
  figures.counts[&NfLogFigures::queue_full] = losses.queue_full;
  figures.counts[&NfLogFigures::write_failed] = losses.write_failed;
}

// Makes the chain of the options.
absl::StatusOr<std::unique_ptr<LiveChains>> BeginAnew(
    const RunRequest& options, const LiveChainSetter::Start& start,
    const Told& told) {
  auto driver = start(options);
  if (!driver.ok()) return driver.status();
  return std::make_unique<LiveChains>(
      *std::move(driver), options.config.chains.front().nf.text(), told);
}

// Makes the chains of the options, which run side by side.
absl::StatusOr<std::unique_ptr<LiveChains>> BeginByRules(
    const RunRequest& options, const LiveChainSetter::Start& start,
    const Told& told) {
  auto rules = ChainRules::Make(
      options.config.rules, options.config.rule_chains,
      options.config.default_chain, options.run.flow.fragments);
  if (!rules.ok()) return rules.status();
  std::vector<LiveChains::Named> chains;
  for (const Config::Chain& chain : options.config.chains) {
    RunRequest one = options;
    one.config = Config();
    one.config.chains = {chain};
    one.config.default_chain = 0;
    one.nf = chain.nf.text();
    one.run = OptionsOf(chain, options.run);
    if (chain.unit_capacity_bps.has_value()) one.real.unpaced = false;
    auto driver = start(one);
    if (!driver.ok()) {
      return absl::Status(driver.status().code(),
                          fmt::format("chain \"{}\": {}", chain.name,
                                      std::string(driver.status().message())));
    }
    chains.push_back(
        {.name = chain.name, .nf = one.nf, .driver = *std::move(driver)});
  }
  return LiveChains::ByRules(*std::move(rules), std::move(chains), told);
}

// Goes on with the chains of a run that was killed; null if there are none. An
// older one whose processes have ended meanwhile is left out.
absl::StatusOr<std::unique_ptr<LiveChains>> Inherit(
    Daemon& daemon, const LiveChainSetter::Start& start, const Told& told) {
  using Pools = LiveChains::Pools;
  const auto held = std::make_shared<std::vector<Pools>>();  // by older ones
  std::unique_ptr<LiveChains> chains;
  while (true) {
    auto next = daemon.NextKept();
    if (!next.ok()) return next.status();
    if (!next->has_value()) return chains;
    LiveChainSetter::Kept& kept = **next;
    const std::string nf = kept.options.config.chains.front().nf.text();
    const size_t own = held->size();
    if (kept.is_newest) {
      kept.options.real.keep->settle = [held](RealDriver& driver) {
        for (const Pools& older : *held) {
          LiveChains::SettleNewest(driver, older);
        }
      };
    } else {
      held->emplace_back();
      kept.options.real.keep->settle = [held, own](RealDriver& driver) {
        (*held)[own] = LiveChains::SettleOlder(driver);
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
    if (chains == nullptr) {
      chains = std::make_unique<LiveChains>(*std::move(driver), nf, told,
                                            kept.number);
    } else {
      chains->Inherit(*std::move(driver), nf, kept.number, (*held)[own - 1],
                      kept.end_of_older);
    }
  }
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
  std::unique_ptr<CaptureSink> sink;
  if (!options.out.empty() || !options.drops.empty()) {
    auto opened = CaptureSink::Open({.out = options.out,
                                     .drops = options.drops,
                                     .annotate = options.annotate});
    if (!opened.ok()) return opened.status();
    sink = *std::move(opened);
  }
  auto outputs = CreateOutputs(options, daemon != nullptr);
  if (!outputs.ok()) return outputs.status();
  std::unique_ptr<NfLogFiles> logs;
  if (!options.nf_logs.empty()) {
    auto opened = NfLogFiles::Open({.directory = options.nf_logs});
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
      fmt::print(stderr, "{}: {}\n", options.real.command, line);
    }
  });
  std::unique_ptr<LiveChains> chains;
  const std::string policy = options.policies.front();
  Makers makers;
  const LiveChainSetter::Start start =
      [&](const RunRequest& of) -> absl::StatusOr<std::unique_ptr<RealDriver>> {
    RealOptions real = of.real;
    real.interrupted = &interrupt.came;
    real.failed_packets = options.real.failed_packets;
    real.host_source = options.real.host_source;
    real.own_units = options.real.own_units;
    real.live = (*outputs)->board();
    real.amend = [&](LiveFigures& figures) {
      figures.live = (*traffic)->figures();
      chains->AddFigures(figures);
      if (logs != nullptr) AddLogLosses(*logs, figures);
      losses.Look(figures);
    };
    if (daemon != nullptr) {
      real.watch = &daemon->watch();
      real.notice = [daemon](std::string_view line) { daemon->Notice(line); };
    } else if (real.notice == nullptr && !options.quiet && !options.watch) {
      real.notice = [command = real.command](std::string_view line) {
        fmt::print(stderr, "{}: {}\n", command, line);
      };
    }
    const NfSpec& nf = of.config.chains.front().nf;
    Observers observers({sink.get(), traffic->get(),
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
      fmt::print(stderr, "{}: {}\n", options.real.command, line);
    }
  };
  if (daemon != nullptr) {
    auto inherited = Inherit(*daemon, start, told);
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
  live.ports = (*traffic)->Run(*chains, interrupt.came, mailbox);
  if (mailbox != nullptr) mailbox->Close();
  interrupt.is_awaited = false;
  (*outputs)->Hide();
  live.nf = chains->has_rules() ? options.nf : chains->newest_nf();
  Finish(*chains, **traffic, live.replayed);
  if (daemon != nullptr) daemon->End(*chains);
  if (sink != nullptr) {
    if (absl::Status s = sink->Close(); !s.ok()) return s;
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
