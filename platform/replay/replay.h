// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPLAY_REPLAY_H_
#define SNF_PLATFORM_REPLAY_REPLAY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/explain/explain.h"
#include "platform/process/clean_interrupt.h"
#include "platform/process/flags.h"
#include "platform/process/flow_key_flag.h"
#include "platform/real_time/real_driver.h"
#include "platform/replay/config.h"
#include "platform/report/compare.h"
#include "platform/report/report.h"
#include "platform/run/run.h"

namespace CLI {
class App;
}

namespace snf {

class CaptureSink;
class LoadedCapture;
class SideBySide;
class MergedReader;
struct CapturedPacket;

// `snf replay`: captures in, through flowlets and units in virtual or real
// time, a report out. Built once at start; parsing fills it, Run does the work.
class ReplayCommand {
 public:
  // Adds the subcommand to `app`, which must outlive it.
  explicit ReplayCommand(CLI::App& app);
  ReplayCommand(const ReplayCommand&) = delete;
  ReplayCommand& operator=(const ReplayCommand&) = delete;

  bool chosen() const;

  // Runs and prints; errors are one line on stderr. Returns the exit code
  // (platform/process/exit_code.h).
  int Run();

 private:
  // Those who see a run; without a capture to write, `sink` is null.
  struct Watchers {
    CaptureSink* sink = nullptr;
    std::span<Explainer> explainers{};
    bool has_view = false;  // which tells how far it is
  };
  static constexpr size_t kNoReplicas = 2;  // as replica_choice_

  void AddFlags();
  void AddTuningFlags();
  void AddStateFlags();
  void AddUnitFlags();
  void AddRealFlags();  // replay_real.cc, as all about real time
  void AddComparison();
  absl::Status ParseCompare(const std::string& text);
  // Flags that are right alone but not together.
  absl::Status CheckTogether() const;
  absl::Status CheckState() const;
  absl::Status CheckPolicies() const;
  absl::Status CheckReal() const;
  absl::Status CheckWritten() const;
  absl::Status AtOdds(const char* a, const char* b, const char* because) const;
  // Of --policy, then those of --compare.
  std::vector<std::string> Policies() const;
  void UseBundledCapture();
  void TellOfBundledCapture() const;
  // Carries what was parsed over into options_.
  void SettleOptions();
  // What --nf or --config says.
  absl::Status ChooseChains(Config& config);
  absl::Status Replay(int& exit_code);
  absl::Status ReplayOnce(const NfSpec& nf, int& exit_code);
  absl::Status Compare(const NfSpec& nf, int& exit_code);
  // Several chains, or one that not all packets take (replay_chains.cc).
  absl::Status ReplayChains(const Config& config, int& exit_code);
  absl::Status ReportChains(const Config& config, const SideBySide& chains,
                            const std::vector<RunResult>& results,
                            const std::string& policy,
                            const std::vector<std::string>& warnings) const;
  // Offers the packets of the capture, as long as that returns true, and shows
  // how far it is.
  using Offer = std::function<bool(const CapturedPacket&)>;
  absl::Status Feed(MergedReader& reader, const Watchers& watchers,
                    const std::string& label, const Offer& offer) const;
  absl::Status FeedLoaded(const LoadedCapture& capture,
                          const Watchers& watchers, const std::string& label,
                          const Offer& offer) const;
  // Stops after so many packets to see whether there is something to show.
  uint64_t packets_per_progress() const;
  // What --out and --drops ask for; null for nothing.
  absl::StatusOr<std::unique_ptr<CaptureSink>> OpenSink() const;
  // Runs the capture under a policy; `run.policy` names it.
  absl::Status RunCapture(MergedReader& reader, const NfSpec& nf,
                          const Watchers& watchers, const std::string& label,
                          ComparedRun& run) const;
  absl::Status RunReal(MergedReader& reader, const NfSpec& nf,
                       const Watchers& watchers, const std::string& label,
                       ComparedRun& run) const;
  RunInfo InfoOf(const ComparedRun& run,
                 const std::vector<std::string>& warnings) const;
  absl::Status Report(const RunResult& result, const RunInfo& info) const;
  // Writes the two forms of a report where the flags want them.
  absl::Status Write(const std::function<std::string()>& json,
                     const std::function<std::string(TextStyle)>& text) const;
  // What --explain asks for (replay_explain.cc); top and worst-wait take a
  // pass over the captures, or a run, before.
  bool explains_after_a_pass() const;
  absl::Status Explain(const NfSpec& nf,
                       std::vector<Explainer>& explainers) const;
  absl::Status ReadFlow(const std::string& text, FlowKey& key) const;
  absl::Status FindTopFlows(size_t flows, std::vector<FlowKey>& keys) const;
  absl::Status FindWorstWait(const NfSpec& nf,
                             StateFigures::Worst& worst) const;
  absl::Status TellStories(const std::vector<FlowStory>& stories) const;

  // In real time one ends the feeding; what was taken comes to its end.
  static inline FirstInterrupt interrupt_;

  CLI::App& command_;
  FlagSet flags_;
  RunOptions options_;
  std::vector<std::string> files_;
  std::string nf_ = "passthrough";  // with options
  std::string config_;
  bool has_sides_ = false;  // its flows are inside endpoints
  std::string out_;
  bool annotate_ = false;
  bool force_ = false;
  std::string drops_;
  std::string json_;
  bool json_schema_ = false;
  std::string csv_;
  std::string explain_;
  size_t policy_ = 0;  // in PlacementPolicies()
  FlowKeyFlag flow_key_;
  size_t load_signal_ = 0;
  size_t demand_ = 0;
  size_t replica_choice_ = 0;
  std::vector<std::string> compare_;
  RealOptions real_;
  size_t clock_ = 0;     // 1: real
  size_t overload_ = 0;  // 1: wait, 2: drop
  bool preload_ = false;
  uint32_t loop_ = 1;
  bool watch_ = false;
  uint32_t metrics_port_ = 0;
  bool quiet_ = false;
  std::string bundled_flag_;  // that the bundled capture gave a value
};

}  // namespace snf

#endif  // SNF_PLATFORM_REPLAY_REPLAY_H_
