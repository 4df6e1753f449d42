// SPDX-License-Identifier: Apache-2.0
#include "platform/outcome/run_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/packet/flow_key_text.h"
#include "base/quantity.h"
#include "base/text/stderr_line.h"
#include "base/version.h"
#include "platform/report/compare.h"
#include "platform/report/report_tables.h"
#include "traces/byte_sink.h"

namespace snf {
namespace {

// Returns the name of a single NF without its options; of a chain all of it.
std::string ShortNameOf(const std::string& nf) {
  return nf.find('|') == nf.npos ? nf.substr(0, nf.find_first_of(":(")) : nf;
}

// Returns why --explain=worst-wait has no story.
std::string WhyNoStory(const StateFigures::Worst& worst) {
  if (worst.wait.ns == 0) {
    return "no packet was held for its flow's state or turn";
  }
  return fmt::format(
      "a packet was held for {}, but its flow is not known any more",
      FormatDuration(worst.wait));
}

// Adds the earlier chains of a live run to a JSON report, as "earlier_chains".
std::string WithEarlier(std::string report,
                        const std::vector<EarlierChain>& chains) {
  using Json = nlohmann::ordered_json;
  if (chains.empty()) return report;
  Json array = Json::array();
  for (const EarlierChain& one : chains) {
    array.push_back({{"number", one.number},
                     {"nf", one.nf},
                     {"flows", one.flows},
                     {"packets_in", one.packets_in},
                     {"packets_released", one.packets_released},
                     {"packets_passed_through", one.packets_passed_through},
                     {"packets_hairpinned", one.packets_hairpinned},
                     {"conserved", one.packets_begun == one.packets_ended},
                     {"violations", one.violations}});
  }
  Json json = Json::parse(report);
  json["earlier_chains"] = std::move(array);
  return json.dump(2) + "\n";
}

ExitCode ExitCodeOf(bool is_sound) {
  return is_sound ? kExitOk : kExitCheckFailed;
}

}  // namespace

absl::StatusOr<ExitCode> RunOutput::Write(const ReplayedRun& replayed) const {
  const RunResult& result = replayed.run.result;
  RunInfo info = InfoOf(replayed.run, replayed.warnings);
  info.stories = replayed.stories;
  if (!options_.csv.empty()) {
    const UnitSeries* const units =
        replayed.units.has_value() ? &*replayed.units : nullptr;
    absl::Status status =
        WriteCsv(options_.csv, options_.run, result, units, info.is_unpaced);
    if (!status.ok()) return status;
  }
  absl::Status status = WriteNfFiles(result);
  if (status.ok() && !options_.usage.empty()) {
    status = WriteFile(options_.usage, replayed.usage);
  }
  if (!status.ok()) return status;
  status = WriteReport(
      [&] {
        return WithEarlier(JsonReport(options_.run, result, info),
                           replayed.earlier);
      },
      [&](const Terminal& terminal) {
        return TextReport(options_.run, result, info, terminal);
      });
  if (status.ok()) status = TellStories(replayed);
  if (!status.ok()) return status;
  return ExitCodeOf(RunIsSound(result));
}

absl::StatusOr<ExitCode> RunOutput::WriteComparison(
    std::vector<ReplayedRun> replayed) const {
  const std::vector<std::string> warnings = replayed.back().warnings;
  bool is_sound = true;
  std::vector<ComparedRun> runs;
  for (ReplayedRun& one : replayed) {
    is_sound &= RunIsSound(one.run.result);
    runs.push_back(std::move(one.run));
  }
  is_sound &= RunsAgree(runs);
  const RunInfo info = InfoOf(runs.front(), warnings);
  absl::Status status =
      WriteReport([&] { return JsonComparison(options_.run, runs, info); },
                  [&](const Terminal& terminal) {
                    return TextComparison(options_.run, runs, info, terminal);
                  });
  if (!status.ok()) return status;
  return ExitCodeOf(is_sound);
}

RunInfo RunOutput::InfoOf(const ComparedRun& run,
                          const std::vector<std::string>& warnings) const {
  const std::string& config = options_.config_file;
  std::vector<std::string> files = options_.files;
  for (const PortSpec& port : options_.ports) files.push_back(port.text());
  return {.version = kVersion,
          .seed = options_.run.controller.seed,
          .nf = config.empty() ? ShortNameOf(options_.nf) : config,
          .policy = run.policy,
          .files = std::move(files),
          .flags = options_.flags,
          .warnings = warnings,
          .elapsed_s = run.elapsed_s,
          .is_interrupted = run.is_interrupted,
          .is_unpaced = options_.real.unpaced};
}

absl::Status RunOutput::WriteReport(
    const std::function<std::string()>& json,
    const std::function<std::string(Terminal)>& text) const {
  if (!options_.json.empty()) {
    if (absl::Status s = WriteFile(options_.json, json()); !s.ok()) return s;
  }
  if (options_.json == "-") return absl::OkStatus();
  const bool to_stderr = options_.out == "-";
  const Terminal terminal =
      Terminal::Of(to_stderr ? STDERR_FILENO : STDOUT_FILENO);
  if (to_stderr) {
    PrintOnStderr("{}", text(terminal));
  } else {
    fmt::print("{}", text(terminal));
  }
  return absl::OkStatus();
}

absl::Status RunOutput::TellStories(const ReplayedRun& replayed) const {
  const std::vector<FlowStory>& stories = replayed.stories;
  const bool is_in_json = options_.json == "-";
  const bool to_stderr = is_in_json || options_.out == "-";
  const auto print = [to_stderr](const std::string& text) {
    if (to_stderr) {
      PrintOnStderr("\n{}", text);
    } else {
      fmt::print("\n{}", text);
    }
  };
  if (options_.explain.kind == ExplainRequest::Kind::kWorstWait &&
      stories.empty()) {
    print(fmt::format("--explain=worst-wait: {}\n",
                      WhyNoStory(replayed.run.result.state.worst)));
  }
  for (const FlowStory& story : stories) {
    if (story.packets.arrived == 0) {
      return absl::DataLossError(fmt::format(
          "--explain: flow \"{}\" did not come up; top is the flow with the "
          "most bytes",
          stories.size() == 1 ? options_.explain.text : ToString(story.key)));
    }
    if (!is_in_json) print(FormatStory(story, options_.run));
  }
  return absl::OkStatus();
}

}  // namespace snf
