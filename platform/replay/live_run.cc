// SPDX-License-Identifier: Apache-2.0
#include "platform/replay/live_run.h"

#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "controller/core/placement.h"
#include "platform/replay/replay_output.h"
#include "platform/run/capture_sink.h"
#include "platform/text/wording.h"
#include "platform/watch/live_outputs.h"

namespace snf {
namespace {

void Tell(const ReplayOptions& options, const LiveTraffic& traffic) {
  if (options.quiet) return;
  for (const std::string& note : traffic.notes()) {
    fmt::print(stderr, "{}\n", note);
  }
  fmt::print(stderr, "Running {} between {}; Ctrl-C ends it.\n",
             Printable(options.nf), ListOf(options.ports));
}

absl::StatusOr<std::unique_ptr<LiveOutputs>> CreateOutputs(
    const ReplayOptions& options, bool has_readers) {
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
    replayed.warnings.push_back(
        fmt::format("Chain {}, {}, had {} before.", chain.number,
                    Printable(chain.nf), Plural(chain.packets_in, "packet")));
  }
  if (wrong.empty() || !run.result.failure.empty()) return;
  ++run.result.violations;
  run.result.violation_messages.push_back(std::move(wrong));
}

using Told = std::function<void(const std::string&)>;

// Makes the chain of the options.
absl::StatusOr<std::unique_ptr<LiveChains>> BeginAnew(
    const ReplayOptions& options, const LiveSteering::StartDriver& start,
    const Told& told) {
  auto driver = start(options);
  if (!driver.ok()) return driver.status();
  return std::make_unique<LiveChains>(
      *std::move(driver), options.config.chains.front().nf.text(), told);
}

// Goes on with the chains of a run that was killed; null if there are none. An
// older one whose processes have ended meanwhile is left out.
absl::StatusOr<std::unique_ptr<LiveChains>> Inherit(
    LiveSteering& steering, const LiveSteering::StartDriver& start,
    const Told& told) {
  using Pools = LiveChains::Pools;
  const auto held = std::make_shared<std::vector<Pools>>();  // by older ones
  std::unique_ptr<LiveChains> chains;
  while (true) {
    auto next = steering.NextKept();
    if (!next.ok()) return next.status();
    if (!next->has_value()) return chains;
    LiveSteering::Kept& kept = **next;
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

absl::StatusOr<LiveRun> RunPorts(const ReplayOptions& options,
                                 FirstInterrupt& interrupt,
                                 LiveSteering* steering) {
  ReturningPort::Notice lost;
  if (steering != nullptr) {
    lost = [steering](std::string_view line) { steering->Notice(line); };
  }
  const bool is_successor = steering != nullptr && steering->is_successor();
  auto traffic = is_successor
                     ? LiveTraffic::OpenAsSuccessor(options.ports, lost)
                     : LiveTraffic::Open(options.ports, lost);
  if (!traffic.ok()) return traffic.status();
  std::unique_ptr<CaptureSink> sink;
  if (!options.out.empty() || !options.drops.empty()) {
    auto opened = CaptureSink::Open({.out = options.out,
                                     .drops = options.drops,
                                     .annotate = options.annotate});
    if (!opened.ok()) return opened.status();
    sink = *std::move(opened);
  }
  auto outputs = CreateOutputs(options, steering != nullptr);
  if (!outputs.ok()) return outputs.status();
  std::unique_ptr<LiveChains> chains;
  const std::string policy = options.policies.front();
  const LiveSteering::StartDriver start = [&](const ReplayOptions& of) {
    RealOptions real = of.real;
    real.interrupted = &interrupt.came;
    real.live = (*outputs)->board();
    real.amend = [&](LiveFigures& figures) {
      figures.live = (*traffic)->figures();
      chains->AddFigures(figures);
    };
    if (steering != nullptr) {
      real.notice = [steering](std::string_view line) {
        steering->Notice(line);
      };
    } else if (real.notice == nullptr && !options.quiet && !options.watch) {
      real.notice = [command = real.command](std::string_view line) {
        fmt::print(stderr, "{}: {}\n", command, line);
      };
    }
    return RealDriver::Start(
        of.run, real, *FindPlacementPolicy(policy), of.config.chains.front().nf,
        {sink.get(), traffic->get(),
         steering != nullptr ? steering->observer() : nullptr});
  };
  LiveRun live;
  ComparedRun& run = live.replayed.run;
  run.policy = policy;
  const auto told = [steering](const std::string& line) {
    if (steering != nullptr) steering->on_chain_ended(line);
  };
  if (steering != nullptr) {
    auto inherited = Inherit(*steering, start, told);
    if (!inherited.ok()) return inherited.status();
    chains = *std::move(inherited);
  }
  if (chains == nullptr) {
    auto begun = BeginAnew(options, start, told);
    if (!begun.ok()) return begun.status();
    chains = *std::move(begun);
  }
  interrupt.is_awaited = true;
  Mailbox* mailbox = nullptr;
  if (steering != nullptr) {
    absl::Status begun =
        steering->Begin(**traffic, *chains, start, *(*outputs)->board());
    if (!begun.ok()) return begun;
    mailbox = &steering->mailbox();
  } else {
    Tell(options, **traffic);
  }
  (*outputs)->Show();
  live.ports = (*traffic)->Run(*chains, interrupt.came, mailbox);
  if (mailbox != nullptr) mailbox->Close();
  interrupt.is_awaited = false;
  (*outputs)->Hide();
  live.nf = chains->newest_nf();
  Finish(*chains, **traffic, live.replayed);
  if (steering != nullptr) steering->End(*chains);
  if (sink != nullptr) {
    if (absl::Status s = sink->Close(); !s.ok()) return s;
  }
  return live;
}

absl::StatusOr<ExitCode> ReportOf(const ReplayOptions& options,
                                  const LiveRun& live) {
  ReplayOptions last = options;
  last.nf = live.nf;
  absl::StatusOr<ExitCode> exit_code = ReplayOutput(last).Write(live.replayed);
  if (!exit_code.ok()) return exit_code;
  if (!live.ports.ok()) return live.ports;
  const std::string& failure = live.replayed.run.result.failure;
  if (failure.empty()) return exit_code;
  return absl::InternalError("the run ended early: " + failure);
}

}  // namespace snf
