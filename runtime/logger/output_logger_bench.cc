// SPDX-License-Identifier: Apache-2.0
//
// What the logger adds to a packet: an entry with a partial delta of one slot,
// of the next clock of one flow among `flows`. Compare within one run:
//   runtime_logger_bench --benchmark_filter=Logger
//       --benchmark_enable_random_interleaving=true
//       --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
#include <cstdint>
#include <cstring>
#include <vector>

#include "benchmark/benchmark.h"
#include "runtime/logger/output_logger.h"
#include "runtime/logger/test_logged_unit.h"

namespace snf {
namespace {

void BM_LoggerEntry(benchmark::State& state) {
  const auto flows = static_cast<uint32_t>(state.range(0));
  LoggedUnit unit;
  for (uint64_t flow = 1; flow <= flows; ++flow) unit.Advance(flow, flow);
  OutputLogger logger(LoggedUnit::kIncarnation, {.max_flows = flows},
                      unit.nf.schema(), unit.nf.pools());
  LoggerOut out;
  for (uint64_t number = 1; number <= flows; ++number) {
    logger.on_entry(unit.entries[number], out);
    out.clear();
  }
  Bytes bytes = unit.Advance(1, 1);
  auto entry = LoadAs<LogEntry>(bytes.data());
  entry.packet = PacketHandle{1};
  for ([[maybe_unused]] auto _ : state) {
    std::memcpy(bytes.data(), &entry, sizeof entry);
    if (logger.on_entry(bytes, out) != OutputLogger::Result::kTaken) {
      state.SkipWithError("the entry is refused");
      break;
    }
    benchmark::DoNotOptimize(out.commands().data());
    out.clear();
    ++entry.number;
    // Each flow has its turn, and the next clock after the last.
    const uint64_t flow = value(entry.meta.flow) % flows + 1;
    entry.meta.flow = FlowId{flow};
    if (flow == 1) {
      entry.base = entry.state;
      entry.meta.clock = entry.state = entry.state + 1;
    }
  }
}
BENCHMARK(BM_LoggerEntry)->ArgName("flows")->Arg(1)->Arg(1'000)->Arg(100'000);

}  // namespace
}  // namespace snf
