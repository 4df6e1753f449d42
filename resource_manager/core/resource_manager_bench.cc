// SPDX-License-Identifier: Apache-2.0
//
// Measures the cost of an ask for a part of a unit more, and of giving it back,
// with the confirmations of the unit, by the number of units that 100
// controllers have leased. It should not depend on that number.
#include <cstdint>
#include <variant>
#include <vector>

#include "benchmark/benchmark.h"
#include "resource_manager/core/resource_manager.h"

namespace snf {
namespace {

constexpr uint32_t kControllers = 100;

// Starts units and confirms shares at once. Returns the last lease granted.
LeaseId Settle(ResourceManager& manager, ManagerOut& out) {
  LeaseId last{};
  for (size_t i = 0; i < out.size(); ++i) {
    const ManagerCommand command = out[i];
    if (const auto* start = std::get_if<StartUnit>(&command)) {
      manager.on_ready({}, start->unit, out);
    } else if (const auto* set = std::get_if<SetShare>(&command)) {
      manager.on_share_set(
          {},
          {set->to, set->manager_epoch, set->lease, set->sequence, set->share},
          out);
    } else if (const auto* grant = std::get_if<Grant>(&command)) {
      last = grant->lease;
    }
  }
  out.clear();
  return last;
}

void AskAndGiveBack(benchmark::State& state) {
  const auto units = static_cast<uint32_t>(state.range(0));
  ManagerOut out;
  ResourceManager manager({.max_units = units}, 1, false, out);
  const int64_t whole = (units / kControllers - 1) * kWholeUnit;
  std::vector<ControllerLife> lives;
  uint64_t asks = 0;
  for (uint32_t c = 0; c < kControllers; ++c) {
    lives.push_back(
        *manager.on_join({}, ControllerId{static_cast<uint8_t>(c)}, out));
    manager.on_ask({}, {lives[c], ++asks, whole}, out);
    Settle(manager, out);
  }
  uint32_t c = 0;
  for (auto _ : state) {
    manager.on_ask({}, {lives[c], ++asks, whole + 100}, out);
    const LeaseId lease = Settle(manager, out);
    manager.on_give_back({}, {lives[c], lease, 0}, out);
    Settle(manager, out);
    c = (c + 1) % kControllers;
  }
  state.counters["held"] =
      static_cast<double>(manager.held(lives[0].controller) / kWholeUnit);
}
BENCHMARK(AskAndGiveBack)->Arg(1'000)->Arg(10'000)->Arg(100'000);

}  // namespace
}  // namespace snf
