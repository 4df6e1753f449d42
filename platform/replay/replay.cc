// SPDX-License-Identifier: Apache-2.0
#include "platform/replay/replay.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "base/packet/endpoint.h"
#include "base/packet/flow_key_text.h"
#include "base/packet/protocol_numbers.h"
#include "base/quantity.h"
#include "platform/process/clean_interrupt.h"
#include "platform/process/console.h"
#include "platform/process/exit_code.h"
#include "platform/process/real_clock.h"
#include "platform/process/version.h"
#include "platform/replay/side_by_side.h"
#include "platform/report/report.h"
#include "platform/report/report_tables.h"
#include "platform/run/capture_sink.h"
#include "platform/text/progress.h"
#include "platform/virtual_time/virtual_driver.h"
#include "traces/merged_reader.h"

namespace snf {
namespace {

absl::Status Usage(const std::string& message) {
  return absl::InvalidArgumentError(message);
}

// Of one NF without its options; of a chain all of it.
std::string ShortNameOf(const std::string& nf) {
  return nf.find('|') == nf.npos ? nf.substr(0, nf.find_first_of(":(")) : nf;
}

}  // namespace

ReplayCommand::ReplayCommand(CLI::App& app)
    : command_(*app.add_subcommand(
          "replay", "run captures through flowlets and compute units")),
      flags_(command_) {
  command_.add_option("FILE", files_);
  AddFlags();
  command_.add_flag("--json_schema", json_schema_);  // no flag of a run
  AddTuningFlags();
  AddStateFlags();
  AddUnitFlags();
  AddRealFlags();
  command_.formatter_fn([this](const CLI::App*, std::string,
                               CLI::AppFormatMode) {
    return flags_.Help(
        "snf replay [FILE…] [--FLAG=VALUE…]",
        "Runs the packets of captures through a controller, which cuts their "
        "flows into flowlets and packs these onto compute units, and through "
        "an NF on the units. In virtual time: on the captures' own clock, as "
        "fast as this machine can, with the same result on every machine; or, "
        "with --clock=real, by threads at the speed that is asked for. FILE "
        "is pcap or pcapng, also in gzip or zstd; - is stdin; several files "
        "are merged by time. Without FILE, the small capture that comes with "
        "SNF is replayed on small units.");
  });
}

bool ReplayCommand::chosen() const { return command_.parsed(); }

void ReplayCommand::UseBundledCapture() {
  std::error_code error;
  const std::filesystem::path near =
      std::filesystem::proximate(kBundledCapture, error);
  files_ = {error ? kBundledCapture : near.string()};
  if (!flags_.given("unit_capacity")) {
    options_.controller.unit_capacity_bps = kBundledCaptureUnitBps;
    bundled_flag_ = "unit_capacity";
  }
}

void ReplayCommand::TellOfBundledCapture() const {
  const std::string flag =
      bundled_flag_.empty() ? "" : " " + flags_.Printed(bundled_flag_);
  fmt::print(stderr, "No FILE given, so this is:\n  ./snf replay {}{}\n",
             files_.front(), flag);
}

int ReplayCommand::Run() {
  if (json_schema_) {
    fmt::print("{}", JsonSchema());
    return kExitOk;
  }
  int exit_code = kExitOk;
  absl::Status status = CheckTogether();
  if (status.ok()) status = Replay(exit_code);
  if (status.ok()) return exit_code;
  fmt::print(stderr, "snf replay: {}\n", std::string(status.message()));
  return ExitCodeFor(status);
}

absl::Status ReplayCommand::ChooseChains(Config& config) {
  if (!config_.empty()) {
    auto loaded = LoadConfig(config_);
    if (!loaded.ok()) return loaded.status();
    config = *std::move(loaded);
  } else {
    absl::StatusOr<NfSpec> nf = NfSpec::Parse(nf_);
    const absl::Status status = nf.ok() ? nf->check() : nf.status();
    if (!status.ok()) {
      return Usage(fmt::format("--nf: {}", std::string(status.message())));
    }
    config.chains.push_back({.name = nf_, .nf = *std::move(nf)});
    config.default_chain = 0;
  }
  for (const Config::Chain& chain : config.chains) {
    has_sides_ |= chain.nf.create()->flow_scope() == FlowScope::kInsideEndpoint;
  }
  const char* const flag = config_.empty() ? "nf" : "config";
  if (!has_sides_ && !options_.inside.empty()) {
    return AtOdds("inside", flag, "no NF tells inside from outside");
  }
  if (has_sides_ && options_.flow.kind != FlowKeyKind::kConnection) {
    return AtOdds("flow_key", flag, "flows are inside ends of connections");
  }
  return absl::OkStatus();
}

absl::Status ReplayCommand::Replay(int& exit_code) {
  const bool is_bundled = files_.empty();
  if (is_bundled) UseBundledCapture();
  SettleOptions();
  EndCleanlyWhenInterrupted("snf replay", clock_ == 1 ? &interrupt_ : nullptr);
  Config config;
  if (absl::Status s = ChooseChains(config); !s.ok()) return s;
  if (is_bundled && !quiet_) TellOfBundledCapture();
  if (config.chains.size() > 1 || !config.default_chain.has_value() ||
      !config.rules.empty()) {
    return ReplayChains(config, exit_code);
  }
  const Config::Chain& only = config.chains.front();
  options_ = OptionsOf(only, options_);
  return compare_.empty() ? ReplayOnce(only.nf, exit_code)
                          : Compare(only.nf, exit_code);
}

absl::Status ReplayCommand::ReplayOnce(const NfSpec& nf, int& exit_code) {
  ComparedRun run = {.policy = Policies().front(), .result = {}};
  std::vector<Explainer> explainers;
  if (!explain_.empty()) {
    if (absl::Status s = Explain(nf, explainers); !s.ok()) return s;
  }
  auto reader = MergedReader::Open(files_);
  if (!reader.ok()) return reader.status();
  auto sink = OpenSink();
  if (!sink.ok()) return sink.status();
  const Watchers watchers = {.sink = sink->get(), .explainers = explainers};
  absl::Status status = RunCapture(**reader, nf, watchers, "replaying", run);
  if (!status.ok()) return status;
  if (*sink != nullptr) {
    if (absl::Status s = (*sink)->Close(); !s.ok()) return s;
  }
  exit_code = RunIsSound(run.result) ? kExitOk : kExitCheckFailed;
  RunInfo info = InfoOf(run, (*reader)->warnings());
  for (const Explainer& flow : explainers) {
    info.stories.push_back(flow.story());
  }
  status = Report(run.result, info);
  return status.ok() ? TellStories(info.stories) : status;
}

absl::StatusOr<std::unique_ptr<CaptureSink>> ReplayCommand::OpenSink() const {
  if (out_.empty() && drops_.empty()) return nullptr;
  return CaptureSink::Open(
      {.out = out_, .drops = drops_, .annotate = annotate_});
}

absl::Status ReplayCommand::Compare(const NfSpec& nf, int& exit_code) {
  std::vector<ComparedRun> runs;
  std::vector<std::string> warnings;
  const std::vector<std::string> policies = Policies();
  for (const std::string& policy : policies) {
    auto reader = MergedReader::Open(files_);
    if (!reader.ok()) return reader.status();
    ComparedRun& run =
        runs.emplace_back(ComparedRun{.policy = policy, .result = {}});
    const std::string label = fmt::format("replaying under {} ({} of {})",
                                          policy, runs.size(), policies.size());
    absl::Status status = RunCapture(**reader, nf, {}, label, run);
    if (!status.ok()) return status;
    if (!RunIsSound(run.result)) exit_code = kExitCheckFailed;
    warnings = (*reader)->warnings();
  }
  if (!RunsAgree(runs)) exit_code = kExitCheckFailed;
  const RunInfo info = InfoOf(runs.front(), warnings);
  return Write([&] { return JsonComparison(options_, runs, info); },
               [&](const TextStyle& style) {
                 return TextComparison(options_, runs, info, style);
               });
}

absl::Status ReplayCommand::Feed(MergedReader& reader, const Watchers& watchers,
                                 const std::string& label,
                                 const Offer& offer) const {
  const auto progress =
      ShowProgress(label, reader.total_bytes(), quiet_ || watchers.has_view);
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
  }
  return reader.status();
}

absl::Status ReplayCommand::RunCapture(MergedReader& reader, const NfSpec& nf,
                                       const Watchers& watchers,
                                       const std::string& label,
                                       ComparedRun& run) const {
  if (clock_ == 1) return RunReal(reader, nf, watchers, label, run);
  const Instant start = RealClock::Monotonic();
  Observers observers;
  if (watchers.sink != nullptr) observers.Add(*watchers.sink);
  for (Explainer& explainer : watchers.explainers) observers.Add(explainer);
  VirtualDriver driver(options_, *FindPlacementPolicy(run.policy), nf,
                       std::move(observers));
  absl::Status status =
      Feed(reader, watchers, label, [&driver](const CapturedPacket& packet) {
        driver.Offer(packet);
        return true;
      });
  if (!status.ok()) return status;
  run.result = driver.Finish();
  run.elapsed_s =
      static_cast<double>((RealClock::Monotonic() - start).ns) / 1e9;
  return absl::OkStatus();
}

RunInfo ReplayCommand::InfoOf(const ComparedRun& run,
                              const std::vector<std::string>& warnings) const {
  // Flags that say where output goes, and so are not repeated in proposals.
  constexpr std::array kOutput = {"out",   "annotate",    "drops",   "json",
                                  "csv",   "explain",     "compare", "quiet",
                                  "watch", "metrics_port"};
  RunInfo info = {.version = kVersion,
                  .seed = options_.controller.seed,
                  .nf = config_.empty() ? ShortNameOf(nf_) : config_,
                  .policy = run.policy,
                  .files = files_,
                  .flags = {},
                  .warnings = warnings,
                  .elapsed_s = run.elapsed_s};
  for (const auto& [name, value] : flags_.values()) {
    const bool output =
        std::find(kOutput.begin(), kOutput.end(), name) != kOutput.end();
    info.flags.push_back(
        {.name = name,
         .value = value,
         .repeat = !output && (flags_.given(name) || name == bundled_flag_)});
  }
  return info;
}

absl::Status ReplayCommand::Report(const RunResult& result,
                                   const RunInfo& info) const {
  if (!csv_.empty()) {
    if (absl::Status s = WriteCsv(csv_, options_, result); !s.ok()) return s;
  }
  if (absl::Status s = WriteNfFiles(result); !s.ok()) return s;
  return Write([&] { return JsonReport(options_, result, info); },
               [&](const TextStyle& style) {
                 return TextReport(options_, result, info, style);
               });
}

absl::Status ReplayCommand::Write(
    const std::function<std::string()>& json,
    const std::function<std::string(TextStyle)>& text) const {
  if (!json_.empty()) {
    if (absl::Status s = WriteText(json_, json()); !s.ok()) return s;
  }
  if (json_ == "-") return absl::OkStatus();
  const bool to_stderr = out_ == "-";
  const TextStyle style = StyleOf(to_stderr ? STDERR_FILENO : STDOUT_FILENO);
  fmt::print(to_stderr ? stderr : stdout, "{}", text(style));
  return absl::OkStatus();
}

}  // namespace snf
