// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/stderr_line.h"
#include "base/text/wording.h"
#include "controller/core/placement.h"
#include "platform/commands/replay/replay_run.h"
#include "platform/drivers/cluster/flow_dispatcher.h"
#include "platform/drivers/real_cluster/real_cluster.h"
#include "platform/drivers/real_time/real_driver.h"
#include "platform/outcome/capture_sink.h"
#include "platform/process/console.h"
#include "platform/report/usage_meter.h"
#include "platform/report/watch/live_outputs.h"
#include "platform/service/metrics_certificate.h"
#include "traces/loaded_capture.h"
#include "traces/merged_reader.h"

namespace snf {
namespace {

// In 1/1000.
std::optional<uint32_t> DoneOf(uint64_t done, uint64_t all) {
  if (all == 0) return std::nullopt;
  const double share = static_cast<double>(done) / static_cast<double>(all);
  return static_cast<uint32_t>(1000 * std::min(share, 1.0));
}

// Of any thread.
void TellNotice(std::string_view line) {
  PrintOnStderr("snf replay: {}\n", line);
}

}  // namespace

absl::Status ReplayRun::FeedLoaded(const LoadedCapture& capture,
                                   const Watchers& watchers,
                                   const std::string& label,
                                   const Offer& offer) const {
  constexpr size_t kAhead = 8;
  const uint64_t total = capture.size() * uint64_t{options_.loop};
  const auto progress =
      ShowProgress(label, total, options_.quiet || watchers.has_view);
  uint64_t packets = 0;
  for (uint32_t round = 0; round < options_.loop; ++round) {
    for (size_t i = 0; i < capture.size(); ++i) {
      capture.Prefetch(i + kAhead);
      if (!offer(capture.Packet(i, round))) return absl::OkStatus();
      if (++packets % packets_per_progress() != 0) continue;
      progress->Update(packets, packets);
      if (watchers.sink != nullptr && !watchers.sink->status().ok()) {
        return watchers.sink->status();
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ReplayRun::Load(MergedReader& reader, const Watchers& watchers,
                             LoadedCapture& loaded) const {
  absl::Status added;
  absl::Status fed =
      Feed(reader, watchers, "loading", [&](const CapturedPacket& packet) {
        added = loaded.Add(packet);
        return added.ok() && !interrupt_.came;
      });
  if (!added.ok()) return added;
  if (!fed.ok()) return fed;
  if (!interrupt_.came) return absl::OkStatus();
  return absl::CancelledError("interrupted while loading");
}

absl::Status ReplayRun::RunReal(MergedReader& reader, const Watchers& watchers,
                                const std::string& label,
                                ComparedRun& run) const {
  interrupt_.is_awaited = true;
  std::optional<LoadedCapture> loaded;
  auto metrics = WithCertificate(options_.metrics, options_.metrics_tls);
  if (!metrics.ok()) return metrics.status();
  auto live_outputs = LiveOutputs::Create(
      {.watch = options_.watch,
       .metrics = *std::move(metrics),
       .title = fmt::format("{}: {} under policy {}", FileList(options_.files),
                            Printable(options_.nf), run.policy)},
      [&](uint64_t packets) {
        return loaded.has_value()
                   ? DoneOf(packets, loaded->size() * uint64_t{options_.loop})
                   : DoneOf(reader.bytes_read(), reader.total_bytes());
      });
  if (!live_outputs.ok()) return live_outputs.status();
  if (options_.preload || options_.loop > 1) {
    loaded.emplace(HalfOfMemory());
    if (absl::Status s = Load(reader, watchers, *loaded); !s.ok()) return s;
  }
  RealOptions real = options_.real;
  real.interrupted = &interrupt_.came;
  real.live = (*live_outputs)->board();
  real.command = "snf replay";
  if (!options_.quiet && !options_.watch) real.notice = TellNotice;
  real.measures_busy = watchers.usage != nullptr;
  Observers observers;
  if (watchers.sink != nullptr) observers.Add(*watchers.sink);
  if (watchers.usage != nullptr) observers.Add(*watchers.usage);
  if (absl::Status s = ReadLogs(watchers, {&observers, 1}); !s.ok()) return s;
  auto driver = RealDriver::Start(
      options_.run, real, *FindPlacementPolicy(run.policy),
      options_.config.chains.front().nf, std::move(observers));
  if (!driver.ok()) return driver.status();
  const auto offer = [&](const CapturedPacket& packet) {
    (*driver)->Offer(packet);
    return !interrupt_.came.load(std::memory_order_relaxed) &&
           !(*driver)->has_failed();
  };
  (*live_outputs)->Show();
  Watchers beside = watchers;
  beside.has_view = options_.watch;
  absl::Status status = loaded.has_value()
                            ? FeedLoaded(*loaded, beside, label, offer)
                            : Feed(reader, beside, label, offer);
  interrupt_.is_awaited = false;
  if (!status.ok()) return status;
  if (interrupt_.came && !options_.quiet) {
    (*live_outputs)->Hide();
    PrintOnStderr("Interrupted: what was taken comes to its end.\n");
  }
  run.result = (*driver)->Finish();
  run.elapsed_s = static_cast<double>(run.result.real.wall.ns) / 1e9;
  run.is_interrupted = interrupt_.came;
  return absl::OkStatus();
}

absl::Status ReplayRun::RunRealCluster(MergedReader& reader,
                                       const Watchers& watchers,
                                       const std::string& label,
                                       ComparedRun& run) const {
  interrupt_.is_awaited = true;
  const NfSpec& nf = options_.config.chains.front().nf;
  const uint32_t controllers = options_.cluster.controllers;
  const absl::Status can = FlowDispatcher::Check(
      *nf.create(), controllers,
      uint64_t{controllers} * options_.run.controller.max_units);
  if (!can.ok()) {
    return absl::InvalidArgumentError(fmt::format(
        "--controllers={}: {}", controllers, std::string(can.message())));
  }
  std::optional<LoadedCapture> loaded;
  if (options_.preload || options_.loop > 1) {
    loaded.emplace(HalfOfMemory());
    if (absl::Status s = Load(reader, watchers, *loaded); !s.ok()) return s;
  }
  RealOptions real = options_.real;
  real.interrupted = &interrupt_.came;
  real.command = "snf replay";
  if (!options_.quiet) real.notice = TellNotice;
  real.measures_busy = watchers.usage != nullptr;
  // Each is told on a thread of its own.
  std::deque<UsageMeter> meters;
  std::vector<Observers> observers(controllers);
  for (Observers& each : observers) {
    if (watchers.usage == nullptr) continue;
    each.Add(meters.emplace_back(options_.run.controller.max_units,
                                 nf.create()->schema().record_bytes()));
  }
  if (absl::Status s = ReadLogs(watchers, observers); !s.ok()) return s;
  auto cluster = RealCluster::Start(options_.run, real, options_.cluster,
                                    *FindPlacementPolicy(run.policy), nf,
                                    std::move(observers));
  if (!cluster.ok()) return cluster.status();
  const auto offer = [&](const CapturedPacket& packet) {
    (*cluster)->Offer(packet);
    return !interrupt_.came.load(std::memory_order_relaxed) &&
           !(*cluster)->has_failed();
  };
  absl::Status status = loaded.has_value()
                            ? FeedLoaded(*loaded, watchers, label, offer)
                            : Feed(reader, watchers, label, offer);
  interrupt_.is_awaited = false;
  if (!status.ok()) return status;
  if (interrupt_.came && !options_.quiet) {
    PrintOnStderr("Interrupted: what was taken comes to its end.\n");
  }
  run.result = (*cluster)->Finish();
  for (const UsageMeter& meter : meters) watchers.usage->Add(meter);
  run.elapsed_s = static_cast<double>(run.result.real.wall.ns) / 1e9;
  run.is_interrupted = interrupt_.came;
  return absl::OkStatus();
}

}  // namespace snf
