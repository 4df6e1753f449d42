// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/replay/replay_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <span>
#include <utility>

#include "base/packet/classifier.h"
#include "base/packet/endpoint.h"
#include "base/quantity.h"
#include "controller/core/placement.h"
#include "platform/drivers/cluster/flow_dispatcher.h"
#include "platform/drivers/virtual_cluster/virtual_cluster.h"
#include "platform/drivers/virtual_time/virtual_driver.h"
#include "platform/outcome/capture_sink.h"
#include "platform/outcome/nf_log_files.h"
#include "platform/process/console.h"
#include "platform/report/after_warm_up.h"
#include "platform/report/explain/decision_log.h"
#include "platform/report/explain/explain.h"
#include "platform/report/explain/explain_top.h"
#include "platform/report/recovery_meter.h"
#include "platform/report/usage_meter.h"
#include "platform/run/nat_peer_emulator.h"
#include "platform/run/own_keys.h"
#include "platform/run/run_setup.h"
#include "runtime/ring/doorbell.h"
#include "runtime/ring/real_clock.h"
#include "traces/merged_reader.h"

namespace snf {

absl::StatusOr<ReplayedRun> ReplayRun::RunOnce() const {
  absl::StatusOr<std::vector<Explainer>> explainers = Explain();
  if (!explainers.ok()) return explainers.status();
  auto sink = CaptureSink::Open(options_);
  if (!sink.ok()) return sink.status();
  auto decisions = OpenDecisions();
  if (!decisions.ok()) return decisions.status();
  auto logs = OpenLogs();
  if (!logs.ok()) return logs.status();
  std::optional<UnitSeries> units;
  if (!options_.csv.empty() && !options_.is_real_time) {
    const ControllerOptions& c = options_.run.controller;
    units.emplace(c.unit_capacity_bps, c.max_units);
  }
  std::optional<UsageMeter> usage;
  const NfSpec& nf = options_.config.chains.front().nf;
  if (!options_.usage.empty()) {
    usage.emplace(options_.run.controller.max_units,
                  nf.create()->schema().record_bytes());
  }
  const Watchers watchers = {.sink = sink->get(),
                             .decisions = decisions->get(),
                             .units = units.has_value() ? &*units : nullptr,
                             .usage = usage.has_value() ? &*usage : nullptr,
                             .logs = logs->get(),
                             .explainers = *explainers};
  absl::StatusOr<ReplayedRun> replayed =
      RunCaptures(options_.policies.front(), watchers, "replaying");
  if (!replayed.ok()) return replayed;
  if (*sink != nullptr) {
    if (absl::Status s = (*sink)->Close(); !s.ok()) return s;
  }
  if (*decisions != nullptr) {
    if (absl::Status s = (*decisions)->Close(); !s.ok()) return s;
  }
  if (*logs != nullptr) {
    if (absl::Status s = (*logs)->Flush(); !s.ok()) return s;
  }
  if (usage.has_value()) {
    absl::StatusOr<std::string> lines = usage->JsonLines(nf.text());
    if (!lines.ok()) return lines.status();
    replayed->usage = *std::move(lines);
  }
  for (const Explainer& flow : *explainers) {
    replayed->stories.push_back(flow.story());
  }
  replayed->units = std::move(units);
  return replayed;
}

absl::StatusOr<std::vector<ReplayedRun>> ReplayRun::RunUnderEachPolicy() const {
  std::vector<ReplayedRun> runs;
  for (const std::string& policy : options_.policies) {
    const std::string label =
        fmt::format("replaying under {} ({} of {})", policy, runs.size() + 1,
                    options_.policies.size());
    absl::StatusOr<ReplayedRun> replayed = RunCaptures(policy, {}, label);
    if (!replayed.ok()) return replayed.status();
    runs.push_back(*std::move(replayed));
  }
  return runs;
}

absl::StatusOr<ReplayedChains> ReplayRun::RunChains() const {
  auto reader = MergedReader::Open(options_.files, true);
  if (!reader.ok()) return reader.status();
  auto sink = CaptureSink::Open(options_);
  if (!sink.ok()) return sink.status();
  const std::string& policy = options_.policies.front();
  auto logs = OpenLogs();
  if (!logs.ok()) return logs.status();
  auto chains =
      SideBySide::Make(options_.config, options_.run,
                       *FindPlacementPolicy(policy), sink->get(), logs->get());
  if (!chains.ok()) return chains.status();
  absl::Status status = Feed(**reader, {.sink = sink->get()}, "replaying",
                             [&](const CapturedPacket& packet) {
                               (*chains)->Offer(packet);
                               return true;
                             });
  if (!status.ok()) return status;
  std::vector<RunResult> results = (*chains)->Finish();
  if (*logs != nullptr) {
    if (absl::Status s = (*logs)->Flush(); !s.ok()) return s;
  }
  if (*sink != nullptr) {
    if (absl::Status s = (*sink)->Close(); !s.ok()) return s;
  }
  return ReplayedChains{.policy = policy,
                        .chains = *std::move(chains),
                        .results = std::move(results),
                        .warnings = (*reader)->warnings()};
}

// A run of captures empties the files first, and loses no record.
absl::StatusOr<std::unique_ptr<NfLogFiles>> ReplayRun::OpenLogs() const {
  if (!options_.run.nf_logs) return nullptr;
  return NfLogFiles::Open({.directory = options_.nf_logs,
                           .ipfix = options_.ipfix,
                           .appends = false,
                           .waits = true});
}

absl::Status ReplayRun::ReadLogs(const Watchers& watchers,
                                 std::span<Observers> observers) const {
  if (watchers.logs == nullptr) return absl::OkStatus();
  auto reader = watchers.logs->Read(options_.config.chains.front().nf);
  if (!reader.ok()) return reader.status();
  for (Observers& each : observers) each.Add(**reader);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DecisionLog>> ReplayRun::OpenDecisions() const {
  if (options_.decisions.empty()) return nullptr;
  return DecisionLog::Open(options_.decisions);
}

absl::StatusOr<ReplayedRun> ReplayRun::RunCaptures(
    const std::string& policy, const Watchers& watchers,
    const std::string& label) const {
  auto reader = MergedReader::Open(options_.files, true);
  if (!reader.ok()) return reader.status();
  ReplayedRun replayed = {.run = {.policy = policy, .result = {}}};
  if (options_.is_real_time && options_.real.busy_poll.has_value()) {
    Doorbell::SetBusyPoll(*options_.real.busy_poll);
  }
  const auto how = options_.cluster.controllers > 1
                       ? (options_.is_real_time ? &ReplayRun::RunRealCluster
                                                : &ReplayRun::RunCluster)
                       : (options_.is_real_time ? &ReplayRun::RunReal
                                                : &ReplayRun::RunVirtual);
  absl::Status status = (this->*how)(**reader, watchers, label, replayed.run);
  if (!status.ok()) return status;
  replayed.warnings = (*reader)->warnings();
  return replayed;
}

absl::Status ReplayRun::RunVirtual(MergedReader& reader,
                                   const Watchers& watchers,
                                   const std::string& label,
                                   ComparedRun& run) const {
  const Instant start = RealClock::Monotonic();
  Observers observers;
  if (watchers.sink != nullptr) observers.Add(*watchers.sink);
  if (watchers.decisions != nullptr) observers.Add(*watchers.decisions);
  if (watchers.units != nullptr) observers.Add(*watchers.units);
  if (watchers.usage != nullptr) observers.Add(*watchers.usage);
  for (Explainer& explainer : watchers.explainers) observers.Add(explainer);
  if (absl::Status s = ReadLogs(watchers, {&observers, 1}); !s.ok()) return s;
  const ControllerOptions& c = options_.run.controller;
  AfterWarmUp after(options_.warm_up, c);
  if (options_.warm_up.ns > 0) observers.Add(after);
  const NfSpec& nf = options_.config.chains.front().nf;
  std::optional<RecoveryMeter> recovery;
  if (options_.recovery) {
    recovery.emplace(options_.run, nf.create()->schema().record_bytes());
    observers.Add(*recovery);
  }
  VirtualDriver driver(options_.run, *FindPlacementPolicy(run.policy), nf,
                       std::move(observers));
  absl::Status status =
      Feed(reader, watchers, label, [&driver](const CapturedPacket& packet) {
        driver.Offer(packet);
        return true;
      });
  if (!status.ok()) return status;
  run.result = driver.Finish();
  if (recovery.has_value()) recovery->Apply(run.result);
  if (options_.warm_up.ns > 0 && !after.Apply(run.result)) {
    return absl::InvalidArgumentError(
        fmt::format("--warm_up: no packet left that arrived after {}",
                    FormatDuration(options_.warm_up)));
  }
  run.elapsed_s =
      static_cast<double>((RealClock::Monotonic() - start).ns) / 1e9;
  return absl::OkStatus();
}

absl::Status ReplayRun::RunCluster(MergedReader& reader,
                                   const Watchers& watchers,
                                   const std::string& label,
                                   ComparedRun& run) const {
  const Instant start = RealClock::Monotonic();
  const NfSpec& nf = options_.config.chains.front().nf;
  const auto example = nf.create();
  const uint32_t controllers = options_.cluster.controllers;
  const auto joins =
      std::ranges::count_if(options_.run.faults.changes, &MemberChange::joins);
  const size_t most = controllers + static_cast<size_t>(joins);
  if (absl::Status s = FlowDispatcher::Check(
          *example, controllers, most * options_.run.controller.max_units);
      !s.ok()) {
    return absl::InvalidArgumentError(fmt::format(
        "--controllers={}: {}", controllers, std::string(s.message())));
  }
  // A unit has another number for each controller.
  std::deque<UsageMeter> meters;
  std::vector<Observers> observers(most);
  for (Observers& each : observers) {
    if (watchers.sink != nullptr) each.Add(*watchers.sink);
    if (watchers.usage == nullptr) continue;
    each.Add(meters.emplace_back(options_.run.controller.max_units,
                                 example->schema().record_bytes()));
  }
  if (absl::Status s = ReadLogs(watchers, observers); !s.ok()) return s;
  VirtualCluster cluster(options_.run, options_.cluster,
                         *FindPlacementPolicy(run.policy), nf,
                         std::move(observers));
  absl::Status status =
      Feed(reader, watchers, label, [&](const CapturedPacket& packet) {
        cluster.Offer(packet);
        return true;
      });
  if (!status.ok()) return status;
  run.result = cluster.Finish();
  for (const UsageMeter& meter : meters) watchers.usage->Add(meter);
  run.elapsed_s =
      static_cast<double>((RealClock::Monotonic() - start).ns) / 1e9;
  return absl::OkStatus();
}

absl::Status ReplayRun::Feed(MergedReader& reader, const Watchers& watchers,
                             const std::string& label,
                             const Offer& offer) const {
  const auto progress = ShowProgress(label, reader.total_bytes(),
                                     options_.quiet || watchers.has_view);
  CapturedPacket packet;
  uint64_t packets = 0;
  while (reader.Next(packet) == ReadResult::kPacket) {
    if (!offer(packet)) return absl::OkStatus();
    if (++packets % packets_per_progress() != 0) continue;
    progress->Update(packets, reader.bytes_read());
    // A full disk ends the run, rather than being told at its end.
    if (watchers.sink != nullptr && !watchers.sink->status().ok()) {
      return watchers.sink->status();
    }
    if (watchers.decisions != nullptr && !watchers.decisions->status().ok()) {
      return watchers.decisions->status();
    }
  }
  return reader.status();
}

uint64_t ReplayRun::packets_per_progress() const {
  // Slow packets take their time.
  const bool is_paced =
      options_.is_real_time && options_.real.speed.kind != Speed::Kind::kMax;
  return is_paced ? 64 : 8'192;
}

absl::StatusOr<std::vector<Explainer>> ReplayRun::Explain() const {
  using Kind = ExplainRequest::Kind;
  const ExplainRequest& request = options_.explain;
  std::vector<Explainer> explainers;
  if (request.kind == Kind::kNothing) return explainers;
  const PlacementPolicy& policy =
      *FindPlacementPolicy(options_.policies.front());
  if (request.kind == Kind::kWorstWait) {
    const absl::StatusOr<StateFigures::Worst> worst = FindWorstWait();
    if (!worst.ok()) return worst.status();
    // Without a wait, or if its flow was forgotten, there is no story to tell.
    if (worst->wait.ns == 0 || worst->key == FlowKey{}) return explainers;
    explainers.emplace_back(worst->key, options_.run, policy)
        .Keep(worst->flow, worst->clock);
    return explainers;
  }
  std::vector<FlowKey> flows = request.flows;
  if (request.kind == Kind::kTop) {
    absl::StatusOr<std::vector<FlowKey>> top = FindTopFlows();
    if (!top.ok()) return top.status();
    flows = *std::move(top);
  }
  for (const FlowKey& flow : flows) {
    explainers.emplace_back(flow, options_.run, policy);
  }
  return explainers;
}

absl::StatusOr<std::vector<FlowKey>> ReplayRun::FindTopFlows() const {
  auto reader = MergedReader::Open(options_.files, true);
  if (!reader.ok()) return reader.status();
  const auto example = options_.config.chains.front().nf.create();
  const bool has_sides = HasSides(*example);
  const OwnKeys own_keys(*example);
  FlowClassifier classifier(options_.run.flow);
  NatPeerEmulator peer_emulator(options_.run.inside);
  TopFlowFinder finder;
  CapturedPacket packet;
  ParsedPacket headers;
  FlowKey key;
  while ((*reader)->Next(packet) == ReadResult::kPacket) {
    const Direction direction = classifier.Classify(packet.time, packet.link,
                                                    packet.bytes, headers, key);
    if (direction == Direction::kNone) continue;
    if (has_sides) {
      if (!HasEnds(key)) continue;
      key = peer_emulator.Place(EndpointsOf(key, direction)).inside;
    }
    if (own_keys.any()) own_keys.Apply(packet.bytes, headers, direction, key);
    finder.Add(key, packet.original_bytes);
  }
  if (!(*reader)->status().ok()) return (*reader)->status();
  std::vector<FlowKey> flows = finder.Top(options_.explain.top);
  if (!flows.empty()) return flows;
  return absl::DataLossError(fmt::format(
      "{}: no IP packets, so no flow to explain", options_.files.front()));
}

absl::StatusOr<StateFigures::Worst> ReplayRun::FindWorstWait() const {
  const absl::StatusOr<ReplayedRun> replayed =
      RunCaptures(options_.policies.front(), {}, "looking for the worst wait");
  if (!replayed.ok()) return replayed.status();
  return replayed->run.result.state.worst;
}

}  // namespace snf
