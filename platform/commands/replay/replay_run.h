// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_REPLAY_REPLAY_RUN_H_
#define SNF_PLATFORM_COMMANDS_REPLAY_REPLAY_RUN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/commands/replay/side_by_side.h"
#include "platform/options/run_request.h"
#include "platform/outcome/replayed_run.h"
#include "platform/process/clean_interrupt.h"
#include "platform/report/compare.h"
#include "platform/report/explain/explain.h"
#include "platform/report/unit_series.h"
#include "platform/run/observers.h"
#include "platform/run/run.h"
#include "traces/capture_reader.h"

namespace snf {

class CaptureSink;
class DecisionLog;
class LoadedCapture;
class MergedReader;
class NfLogFiles;
class UsageMeter;

// Tells what came of running them through several chains side by side.
struct ReplayedChains {
  std::string policy;
  std::unique_ptr<SideBySide> chains;
  std::vector<RunResult> results;  // of each chain
  std::vector<std::string> warnings;
};

// Runs captures as RunRequest say, in virtual or real time: opens readers,
// sinks, drivers and live outputs, and shows progress. Writes released and
// dropped packets, but no reports (replay_output.h). Owner-thread only.
class ReplayRun {
 public:
  // Both must outlive this. In real time an interrupt that comes ends the
  // feeding; the packets that were taken come to their end.
  ReplayRun(const RunRequest& options, FirstInterrupt& interrupt)
      : options_(options), interrupt_(interrupt) {}

  // Each opens the captures anew. Errors name the file, or the flag.
  absl::StatusOr<ReplayedRun> RunOnce() const;
  absl::StatusOr<std::vector<ReplayedRun>> RunUnderEachPolicy() const;
  absl::StatusOr<ReplayedChains> RunChains() const;

 private:
  // Who looks on at a run; null are those that nothing was asked of.
  struct Watchers {
    CaptureSink* sink = nullptr;
    DecisionLog* decisions = nullptr;
    UnitSeries* units = nullptr;
    UsageMeter* usage = nullptr;
    NfLogFiles* logs = nullptr;
    std::span<Explainer> explainers{};
    bool has_view = false;  // which shows how far the run is
  };
  using Offer = std::function<bool(const CapturedPacket&)>;

  // Returns what writes --nf_logs; null if nothing does.
  absl::StatusOr<std::unique_ptr<NfLogFiles>> OpenLogs() const;
  // Adds the reader of the logs of the chain's NFs to the observers, unless
  // null.
  absl::Status ReadLogs(const Watchers& watchers,
                        std::span<Observers> observers) const;
  // Returns what writes --decisions; null if nothing does.
  absl::StatusOr<std::unique_ptr<DecisionLog>> OpenDecisions() const;
  // Runs all captures under a policy.
  absl::StatusOr<ReplayedRun> RunCaptures(const std::string& policy,
                                          const Watchers& watchers,
                                          const std::string& label) const;
  absl::Status RunVirtual(MergedReader& reader, const Watchers& watchers,
                          const std::string& label, ComparedRun& run) const;
  // The same with several controllers.
  absl::Status RunCluster(MergedReader& reader, const Watchers& watchers,
                          const std::string& label, ComparedRun& run) const;
  // Offers the packets of the captures, as long as that returns true, and shows
  // how far it is.
  absl::Status Feed(MergedReader& reader, const Watchers& watchers,
                    const std::string& label, const Offer& offer) const;
  // Returns after how many packets there may be progress to show.
  uint64_t packets_per_progress() const;

  // Finds the flows that --explain means; top and worst-wait take a pass over
  // the captures, or a run.
  absl::StatusOr<std::vector<Explainer>> Explain() const;
  absl::StatusOr<std::vector<FlowKey>> FindTopFlows() const;
  absl::StatusOr<StateFigures::Worst> FindWorstWait() const;

  // The following are in replay_real.cc.
  absl::Status RunReal(MergedReader& reader, const Watchers& watchers,
                       const std::string& label, ComparedRun& run) const;
  absl::Status Load(MergedReader& reader, const Watchers& watchers,
                    LoadedCapture& loaded) const;
  absl::Status FeedLoaded(const LoadedCapture& capture,
                          const Watchers& watchers, const std::string& label,
                          const Offer& offer) const;

  // The same as RunReal, with several controllers.
  absl::Status RunRealCluster(MergedReader& reader, const Watchers& watchers,
                              const std::string& label, ComparedRun& run) const;

  const RunRequest& options_;
  FirstInterrupt& interrupt_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_REPLAY_REPLAY_RUN_H_
