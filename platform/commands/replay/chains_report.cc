// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/replay/chains_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "platform/outcome/run_output.h"
#include "platform/report/report.h"
#include "platform/report/report_tables.h"

namespace snf {
namespace {

// Returns "Chain a: nat (2 rules and all other packets)" and '\n'.
std::string Heading(const Config& config, size_t chain) {
  const auto rules = std::ranges::count(config.rule_chains, chain);
  std::string which =
      rules == 0 ? "" : fmt::format("{} rule{}", rules, rules == 1 ? "" : "s");
  if (config.default_chain == chain) {
    which += which.empty() ? "all other packets" : " and all other packets";
  }
  return fmt::format("Chain {}: {}{}\n", config.chains[chain].name,
                     config.chains[chain].nf.text(),
                     which.empty() ? "" : " (" + which + ")");
}

bool PacketsAddUp(const ReplayedChains& replayed) {
  uint64_t packets = replayed.chains->packets_without_chain();
  for (const RunResult& result : replayed.results) packets += result.packets_in;
  return packets == replayed.chains->packets_in();
}

std::string TextOfChains(const Config& config, const ReplayedChains& replayed,
                         const std::vector<RunInfo>& infos,
                         const Terminal& terminal) {
  const SideBySide& chains = *replayed.chains;
  std::string text;
  for (size_t i = 0; i < replayed.results.size(); ++i) {
    text +=
        Heading(config, i) + "\n" +
        TextReport(chains.options(i), replayed.results[i], infos[i], terminal) +
        "\n";
  }
  text += fmt::format("In all {} packets for {} chains", chains.packets_in(),
                      replayed.results.size());
  if (chains.packets_without_chain() > 0) {
    text += fmt::format(
        ", of which {} were dropped: no rule matches them, and there is no "
        "default_chain",
        chains.packets_without_chain());
  }
  return text + "\n";
}

std::string JsonOfChains(const Config& config, const ReplayedChains& replayed,
                         const std::vector<RunInfo>& infos) {
  const SideBySide& chains = *replayed.chains;
  nlohmann::ordered_json json;
  json["packets_in"] = chains.packets_in();
  json["packets_without_chain"] = chains.packets_without_chain();
  for (size_t i = 0; i < replayed.results.size(); ++i) {
    json["chains"][config.chains[i].name] = nlohmann::ordered_json::parse(
        JsonReport(chains.options(i), replayed.results[i], infos[i]));
  }
  return json.dump(2) + "\n";
}

}  // namespace

absl::StatusOr<ExitCode> WriteChains(const RunRequest& request,
                                     const ReplayedChains& replayed) {
  const RunOutput output(request);
  const std::vector<Config::Chain>& chains = request.config.chains;
  std::vector<RunInfo> infos;
  bool is_sound = PacketsAddUp(replayed);
  for (size_t i = 0; i < replayed.results.size(); ++i) {
    const RunResult& result = replayed.results[i];
    is_sound &= RunIsSound(result);
    infos.push_back(output.InfoOf({.policy = replayed.policy, .result = {}},
                                  replayed.warnings));
    infos.back().nf = chains[i].nf.text();
    if (absl::Status s = WriteNfFiles(result); !s.ok()) return s;
    if (request.csv.empty()) continue;
    absl::Status status = WriteCsv(request.csv + "/" + chains[i].name,
                                   replayed.chains->options(i), result);
    if (!status.ok()) return status;
  }
  absl::Status status = output.WriteReport(
      [&] { return JsonOfChains(request.config, replayed, infos); },
      [&](const Terminal& terminal) {
        return TextOfChains(request.config, replayed, infos, terminal);
      });
  if (!status.ok()) return status;
  return is_sound ? kExitOk : kExitCheckFailed;
}

}  // namespace snf
