// SPDX-License-Identifier: Apache-2.0
// `snf replay --config` with several chains.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "platform/process/exit_code.h"
#include "platform/replay/replay.h"
#include "platform/replay/side_by_side.h"
#include "platform/report/report.h"
#include "platform/report/report_tables.h"
#include "platform/run/capture_sink.h"
#include "traces/merged_reader.h"

namespace snf {
namespace {

// Every packet is some chain's, or nobody's.
bool AddsUp(const SideBySide& chains, const std::vector<RunResult>& results) {
  uint64_t packets = chains.packets_without_chain();
  for (const RunResult& result : results) packets += result.packets_in;
  return packets == chains.packets_in();
}

size_t RulesOf(const Config& config, size_t chain) {
  size_t rules = 0;
  for (const size_t target : config.rule_chains) rules += target == chain;
  return rules;
}

std::string Heading(const Config& config, size_t chain) {
  const size_t rules = RulesOf(config, chain);
  std::string which =
      rules == 0 ? "" : fmt::format("{} rule{}", rules, rules == 1 ? "" : "s");
  if (config.default_chain == chain) {
    which += which.empty() ? "all other packets" : " and all other packets";
  }
  return fmt::format("Chain {}: {}{}\n", config.chains[chain].name,
                     config.chains[chain].nf.text(),
                     which.empty() ? "" : " (" + which + ")");
}

}  // namespace

absl::Status ReplayCommand::ReplayChains(const Config& config, int& exit_code) {
  for (const char* flag : {"explain", "compare"}) {
    if (!flags_.given(flag)) continue;
    return AtOdds(flag, "config", "it tells of one chain alone");
  }
  auto reader = MergedReader::Open(files_);
  if (!reader.ok()) return reader.status();
  auto sink = OpenSink();
  if (!sink.ok()) return sink.status();
  const std::string policy = Policies().front();
  auto chains = SideBySide::Make(config, options_, *FindPlacementPolicy(policy),
                                 sink->get());
  if (!chains.ok()) return chains.status();
  absl::Status status = Feed(**reader, {.sink = sink->get()}, "replaying",
                             [&](const CapturedPacket& packet) {
                               (*chains)->Offer(packet);
                               return true;
                             });
  if (!status.ok()) return status;
  const std::vector<RunResult> results = (*chains)->Finish();
  if (*sink != nullptr) {
    if (absl::Status s = (*sink)->Close(); !s.ok()) return s;
  }
  bool is_sound = AddsUp(**chains, results);
  for (const RunResult& result : results) is_sound &= RunIsSound(result);
  exit_code = is_sound ? kExitOk : kExitCheckFailed;
  return ReportChains(config, **chains, results, policy, (*reader)->warnings());
}

absl::Status ReplayCommand::ReportChains(
    const Config& config, const SideBySide& chains,
    const std::vector<RunResult>& results, const std::string& policy,
    const std::vector<std::string>& warnings) const {
  std::vector<RunInfo> infos;
  for (size_t i = 0; i < results.size(); ++i) {
    infos.push_back(InfoOf({.policy = policy, .result = {}}, warnings));
    infos.back().nf = config.chains[i].nf.text();
    if (absl::Status s = WriteNfFiles(results[i]); !s.ok()) return s;
    if (csv_.empty()) continue;
    absl::Status status = WriteCsv(csv_ + "/" + config.chains[i].name,
                                   chains.options(i), results[i]);
    if (!status.ok()) return status;
  }
  const auto json = [&] {
    nlohmann::ordered_json all;
    all["packets_in"] = chains.packets_in();
    all["packets_without_chain"] = chains.packets_without_chain();
    for (size_t i = 0; i < results.size(); ++i) {
      all["chains"][config.chains[i].name] = nlohmann::ordered_json::parse(
          JsonReport(chains.options(i), results[i], infos[i]));
    }
    return all.dump(2) + "\n";
  };
  const auto text = [&](const TextStyle& style) {
    std::string all;
    for (size_t i = 0; i < results.size(); ++i) {
      all += Heading(config, i) + "\n" +
             TextReport(chains.options(i), results[i], infos[i], style) + "\n";
    }
    all += fmt::format("In all {} packets for {} chains", chains.packets_in(),
                       results.size());
    if (chains.packets_without_chain() > 0) {
      all += fmt::format(
          ", of which {} were dropped: no rule matches them, "
          "and there is no default_chain",
          chains.packets_without_chain());
    }
    return all + "\n";
  };
  return Write(json, text);
}

}  // namespace snf
