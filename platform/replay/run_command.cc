// SPDX-License-Identifier: Apache-2.0
#include "platform/replay/run_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "controller/core/placement.h"
#include "platform/live/live_traffic.h"
#include "platform/process/clean_interrupt.h"
#include "platform/real_time/real_driver.h"
#include "platform/replay/replay_output.h"
#include "platform/replay/replay_run.h"
#include "platform/report/report.h"
#include "platform/run/capture_sink.h"
#include "platform/text/wording.h"
#include "platform/watch/live_outputs.h"

namespace snf {
namespace {

std::string NameOf(const std::vector<PortSpec>& ports) {
  std::string name;
  for (const PortSpec& port : ports) {
    name += (name.empty() ? "" : ", ") + port.text();
  }
  return name;
}

void Tell(const ReplayOptions& options, const LiveTraffic& traffic) {
  if (options.quiet) return;
  for (const std::string& note : traffic.notes()) {
    fmt::print(stderr, "{}\n", note);
  }
  fmt::print(stderr, "Running {} between {}; Ctrl-C ends it.\n",
             Printable(options.nf), NameOf(options.ports));
}

absl::StatusOr<std::unique_ptr<LiveOutputs>> CreateOutputs(
    const ReplayOptions& options) {
  auto outputs = LiveOutputs::Create(
      {.watch = options.watch,
       .metrics_port = options.metrics_port,
       .title = fmt::format("{}: {} under policy {}", NameOf(options.ports),
                            Printable(options.nf), options.policies.front())},
      [](uint64_t) { return std::nullopt; });
  if (outputs.ok()) return outputs;
  return absl::Status(outputs.status().code(),
                      fmt::format("--metrics_port: {}",
                                  std::string(outputs.status().message())));
}

// The result, and how the ports ended.
struct LiveRun {
  ReplayedRun replayed;
  absl::Status ports;
};

void Finish(RealDriver& driver, LiveTraffic& traffic, ComparedRun& run) {
  run.result = driver.Finish();
  run.elapsed_s = static_cast<double>(run.result.real.wall.ns) / 1e9;
  traffic.Finish();
  run.result.live = traffic.figures();
  std::string wrong = traffic.WhatDoesNotAddUp(run.result);
  if (wrong.empty() || !run.result.failure.empty()) return;
  ++run.result.violations;
  run.result.violation_messages.push_back(std::move(wrong));
}

absl::StatusOr<LiveRun> RunPorts(const ReplayOptions& options,
                                 FirstInterrupt& interrupt) {
  auto traffic = LiveTraffic::Open(options.ports);
  if (!traffic.ok()) return traffic.status();
  std::unique_ptr<CaptureSink> sink;
  if (!options.out.empty() || !options.drops.empty()) {
    auto opened = CaptureSink::Open({.out = options.out,
                                     .drops = options.drops,
                                     .annotate = options.annotate});
    if (!opened.ok()) return opened.status();
    sink = *std::move(opened);
  }
  auto outputs = CreateOutputs(options);
  if (!outputs.ok()) return outputs.status();
  RealOptions real = options.real;
  real.interrupted = &interrupt.came;
  real.live = (*outputs)->board();
  real.ports = &(*traffic)->figures();
  LiveRun live;
  ComparedRun& run = live.replayed.run;
  run.policy = options.policies.front();
  auto driver = RealDriver::Start(
      options.run, real, *FindPlacementPolicy(run.policy),
      options.config.chains.front().nf, {sink.get(), traffic->get()});
  if (!driver.ok()) return driver.status();
  interrupt.is_awaited = true;
  Tell(options, **traffic);
  (*outputs)->Show();
  live.ports = (*traffic)->Run(**driver, interrupt.came);
  interrupt.is_awaited = false;
  (*outputs)->Hide();
  Finish(**driver, **traffic, run);
  if (sink != nullptr) {
    if (absl::Status s = sink->Close(); !s.ok()) return s;
  }
  return live;
}

}  // namespace

RunCommand::RunCommand()
    : FlagCommand(
          {.summary = "run live traffic through flowlets and compute units",
           .usage = "snf run --port inside=INTERFACE --port outside=INTERFACE "
                    "[--FLAG=VALUE…]",
           .about =
               "Takes the packets that come to two interfaces of this machine "
               "through a controller, which cuts their flows into flowlets and "
               "packs these onto compute units, and through an NF on the "
               "units; what the NF lets through leaves at the other interface. "
               "To hosts at both ends it is a piece of wire: ARP and all that "
               "is not IP goes through untouched. It runs until it is "
               "interrupted (Ctrl-C), and then reports as snf replay does. It "
               "wants root, or CAP_NET_RAW and CAP_NET_ADMIN."}),
      run_flags_(flags(), ReplayFlags::Input::kPorts) {}

absl::Status RunCommand::Run() {
  if (run_flags_.options().json_schema) {
    fmt::print("{}", JsonSchema());
    return absl::OkStatus();
  }
  static FirstInterrupt interrupt;
  EndCleanlyWhenInterrupted(name(), &interrupt);
  if (absl::Status s = run_flags_.Settle(); !s.ok()) return s;
  const ReplayOptions& options = run_flags_.options();
  const absl::StatusOr<LiveRun> live = RunPorts(options, interrupt);
  if (!live.ok()) return live.status();
  const absl::StatusOr<ExitCode> exit_code =
      ReplayOutput(options).Write(live->replayed);
  if (!exit_code.ok()) return exit_code.status();
  if (!live->ports.ok()) return live->ports;
  const std::string& failure = live->replayed.run.result.failure;
  if (!failure.empty()) {
    return absl::InternalError("the run ended early: " + failure);
  }
  set_exit_code(*exit_code);
  return absl::OkStatus();
}

}  // namespace snf
