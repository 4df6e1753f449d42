// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/chains/ended_chains.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

namespace snf {
namespace {

EarlierChain SumsOf(uint32_t number, const std::string& nf,
                    const RunResult& result) {
  return {.number = number,
          .nf = nf,
          .packets_in = result.packets_in,
          .packets_begun = result.packets_begun(),
          .packets_released = result.packets_released,
          .packets_passed_through = result.packets_passed_through,
          .packets_hairpinned = result.aliases.packets_hairpinned,
          .packets_ended = result.packets_ended(),
          .flows = result.controller.flows};
}

// Adds counts that add up to a sum.
void AddTo(FigureCounts& sum, const FigureCounts& more) {
  for (const Figure& figure : Figures()) {
    const bool has_place =
        !std::holds_alternative<std::monostate>(figure.place);
    if (figure.adds != AddUp::kSum || !has_place) continue;
    sum[figure.place] += more.of(figure);
  }
}

void AddTo(std::vector<DropCount>& sum, const std::vector<DropCount>& more) {
  for (const DropCount& drop : more) {
    const auto same = std::ranges::find_if(sum, [&drop](const DropCount& one) {
      return one.name == drop.name && one.by_nf == drop.by_nf;
    });
    if (same == sum.end()) {
      sum.push_back(drop);
    } else {
      same->packets += drop.packets;
    }
  }
}

}  // namespace

void AddCounts(const LiveFigures& more, LiveFigures& figures) {
  AddTo(figures.counts, more.counts);
  AddTo(figures.drops, more.drops);
}

void AddCounts(const RunResult& more, LiveFigures& figures) {
  AddTo(figures.counts, FigureCounts(more));
  AddTo(figures.drops, DropCounts(more));
}

void AddViolations(const std::vector<EarlierChain>& chains, RunResult& result) {
  for (const EarlierChain& chain : chains) {
    result.violations += chain.violations;
    if (result.failure.empty()) result.failure = chain.failure;
    if (chain.violation.empty()) continue;
    result.violation_messages.push_back(
        fmt::format("chain {}: {}", chain.number, chain.violation));
  }
}

EarlierChain InShort(uint32_t number, const std::string& nf,
                     const RunResult& result) {
  EarlierChain chain = SumsOf(number, nf, result);
  chain.violations = result.violations;
  chain.failure = result.failure;
  if (!result.violation_messages.empty()) {
    chain.violation = result.violation_messages.front();
  }
  return chain;
}

void EndedChains::Add(uint32_t number, const std::string& nf,
                      const RunResult& result) {
  Keep(InShort(number, nf, result), result);
}

void EndedChains::AddRenewed(uint32_t number, const std::string& nf,
                             const RunResult& result) {
  EarlierChain chain = SumsOf(number, nf, result);
  chain.renewed_for = result.failure;
  Keep(std::move(chain), result);
}

void EndedChains::Keep(EarlierChain chain, const RunResult& result) {
  AddTo(counts_, FigureCounts(result));
  AddTo(drops_, DropCounts(result));
  latency_.Merge(result.latency_ns);
  list_.push_back(std::move(chain));
  if (list_.size() <= kMostTold) return;
  EarlierChain& first = list_[0];
  first.Add(list_[1]);
  first.number = list_[1].number;
  first.nf = "all before";
  list_.erase(list_.begin() + 1);
}

void EndedChains::AddFigures(LiveFigures& figures) const {
  AddTo(figures.counts, counts_);
  AddTo(figures.drops, drops_);
}

}  // namespace snf
