// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/loops/loop_results.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "base/counters.h"

namespace snf {
namespace {

// What is of fixed size.
struct Fixed {
  StateCounters state;
  StateFigures::Worst worst;
  UnitLogFigures logs;
  uint64_t held_packets_max;
  uint64_t sleeps;
  uint64_t buffers_in_use;
  uint64_t nf_counts;
  uint64_t units;
  uint64_t tables;  // of each unit
};
static_assert(std::is_trivially_copyable_v<Fixed>);
static_assert(sizeof(Fixed) % sizeof(uint64_t) == 0);

template <typename T>
void Append(std::vector<uint64_t>& words, const T& one) {
  static_assert(sizeof(T) % sizeof(uint64_t) == 0);
  const size_t at = words.size();
  words.resize(at + sizeof(T) / sizeof(uint64_t));
  std::memcpy(&words[at], &one, sizeof(T));
}

template <typename T>
bool Take(std::span<const uint64_t>& words, T& one) {
  constexpr size_t kWords = sizeof(T) / sizeof(uint64_t);
  if (words.size() < kWords) return false;
  std::memcpy(static_cast<void*>(&one), words.data(), sizeof(T));
  words = words.subspan(kWords);
  return true;
}

size_t TablesOfEach(const LoopResults& results) {
  return results.tables.empty() ? 0 : results.tables.front().size();
}

}  // namespace

LoopResults LoopResults::Of(const UnitLoop& loop,
                            const UnitLoopOptions& options) {
  LoopResults results = {.figures = loop.figures(),
                         .buffers_in_use = loop.buffers_in_use(),
                         .tables = {}};
  for (uint32_t i = options.index; i < options.max_units; i += options.loops) {
    results.tables.push_back(
        FiguresOf(*loop.tables(UnitId{static_cast<uint16_t>(i)})));
  }
  return results;
}

void LoopResults::Add(const LoopResults& next) {
  AddTo(figures.state, next.figures.state);
  figures.held_packets_max =
      std::max(figures.held_packets_max, next.figures.held_packets_max);
  figures.sleeps += next.figures.sleeps;
  AddCounters(figures.logs, next.figures.logs);
  for (size_t i = 0; i < figures.nf_counts.size(); ++i) {
    figures.nf_counts[i] += next.figures.nf_counts[i];
  }
  buffers_in_use = next.buffers_in_use;
  for (size_t unit = 0; unit < tables.size(); ++unit) {
    for (size_t i = 0; i < tables[unit].size(); ++i) {
      const TableCopyFigures before = tables[unit][i];
      TableCopyFigures& table = tables[unit][i] = next.tables[unit][i];
      table.updates += before.updates;
      table.refused += before.refused;
      table.repeated += before.repeated;
    }
  }
}

std::vector<uint64_t> LoopResults::ToWords() const {
  std::vector<uint64_t> words;
  Append(words, Fixed{.state = figures.state,
                      .worst = figures.state.worst,
                      .logs = figures.logs,
                      .held_packets_max = figures.held_packets_max,
                      .sleeps = figures.sleeps,
                      .buffers_in_use = buffers_in_use,
                      .nf_counts = figures.nf_counts.size(),
                      .units = tables.size(),
                      .tables = TablesOfEach(*this)});
  for (const uint64_t count : figures.nf_counts) words.push_back(count);
  for (const auto& unit : tables) {
    for (const TableCopyFigures& table : unit) Append(words, table);
  }
  figures.state.wait_ns.AppendWords(words);
  return words;
}

absl::StatusOr<LoopResults> LoopResults::FromWords(
    std::span<const uint64_t> words, const LoopResults& like) {
  const absl::Status wrong = absl::InvalidArgumentError("invalid results");
  Fixed fixed{};
  if (!Take(words, fixed) || fixed.nf_counts != like.figures.nf_counts.size() ||
      fixed.units != like.tables.size() || fixed.tables != TablesOfEach(like)) {
    return wrong;
  }
  LoopResults results = like;
  static_cast<StateCounters&>(results.figures.state) = fixed.state;
  results.figures.state.worst = fixed.worst;
  results.figures.state.worst.key = {};  // is known to the controller alone
  results.figures.logs = fixed.logs;
  results.figures.held_packets_max =
      static_cast<uint32_t>(fixed.held_packets_max);
  results.figures.sleeps = fixed.sleeps;
  results.buffers_in_use = static_cast<uint32_t>(fixed.buffers_in_use);
  for (uint64_t& count : results.figures.nf_counts) {
    if (!Take(words, count)) return wrong;
  }
  for (auto& unit : results.tables) {
    for (TableCopyFigures& table : unit) {
      if (!Take(words, table)) return wrong;
    }
  }
  if (!results.figures.state.wait_ns.MergeWords(words) || !words.empty()) {
    return wrong;
  }
  return results;
}

std::vector<std::vector<TableCopyFigures>> AddLoops(
    std::span<const LoopResults> loops, uint32_t max_units, RunResult& result) {
  std::vector<std::vector<TableCopyFigures>> tables(max_units);
  for (size_t loop = 0; loop < loops.size(); ++loop) {
    const LoopResults& of_loop = loops[loop];
    AddTo(result.state, of_loop.figures.state);
    result.held_packets_max =
        std::max(result.held_packets_max, of_loop.figures.held_packets_max);
    result.real.sleeps += of_loop.figures.sleeps;
    AddCounters<UnitLogFigures>(result.loggers, of_loop.figures.logs);
    for (size_t i = 0; i < of_loop.figures.nf_counts.size(); ++i) {
      result.nf_counters[i].value += of_loop.figures.nf_counts[i];
    }
    for (size_t i = 0; i < of_loop.tables.size(); ++i) {
      tables[loop + i * loops.size()] = of_loop.tables[i];
    }
  }
  return tables;
}

}  // namespace snf
