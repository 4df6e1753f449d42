// SPDX-License-Identifier: Apache-2.0
//
// Packets a second of whole runs in real time, as fast as can be: of one
// controller that takes packets itself, and of one or two behind a dispatcher,
// with units of their own or such that they share. To compare them, run all in
// one go on a quiet machine; `--benchmark_repetitions=5` tells how sure it is.
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/packet/test_packets.h"
#include "benchmark/benchmark.h"
#include "controller/core/placement.h"
#include "platform/drivers/cluster/cluster_options.h"
#include "platform/drivers/real_cluster/real_cluster.h"
#include "platform/drivers/real_time/real_driver.h"

namespace snf {
namespace {

constexpr uint32_t kPackets = 200'000;
constexpr uint32_t kFlows = 1'000;

std::vector<Frame> Frames() {
  std::vector<Frame> frames;
  for (uint32_t i = 0; i < kFlows; ++i) {
    const auto port = static_cast<uint16_t>(1'024 + i);
    frames.push_back(Ethernet(0x0800, Ipv4({}, Udp(port, 53))));
  }
  return frames;
}

RealOptions AsFastAsCanBe() {
  RealOptions real;
  real.speed = {.kind = Speed::Kind::kMax, .value = 0};
  real.threads = 1;
  real.unpaced = true;
  real.wait_for_room = true;
  return real;
}

RunOptions Options() {
  RunOptions options;
  options.controller.max_units = 4;
  options.check = false;
  return options;
}

NfSpec Nf() { return *NfSpec::Parse("firewall"); }

template <typename Driver>
void Offer(Driver& driver, const std::vector<Frame>& frames) {
  for (uint32_t i = 0; i < kPackets; ++i) {
    const Frame& frame = frames[i % kFlows];
    driver.Offer({.time = Instant{int64_t{1'000} * i},
                  .bytes = frame,
                  .original_bytes = static_cast<uint32_t>(frame.size()),
                  .link = LinkType::kEthernet});
  }
}

template <typename Start>
void Measure(benchmark::State& state, const Start& start) {
  const std::vector<Frame> frames = Frames();
  for (auto _ : state) {
    state.PauseTiming();
    auto driver = start();
    SNF_CHECK(driver.ok());
    state.ResumeTiming();
    Offer(**driver, frames);
    const RunResult result = (*driver)->Finish();
    SNF_CHECK(result.packets_released == kPackets);
  }
  state.SetItemsProcessed(state.iterations() * kPackets);
}

void Single(benchmark::State& state) {
  Measure(state, [] {
    return RealDriver::Start(Options(), AsFastAsCanBe(),
                             *FindPlacementPolicy("snf"), Nf(), {});
  });
}

void Cluster(benchmark::State& state, bool shared) {
  const ClusterOptions cluster = {
      .controllers = static_cast<uint32_t>(state.range(0)), .shared = shared};
  Measure(state, [&] {
    return RealCluster::Start(Options(), AsFastAsCanBe(), cluster,
                              *FindPlacementPolicy("snf"), Nf(),
                              std::vector<Observers>(cluster.controllers));
  });
}

void Independent(benchmark::State& state) { Cluster(state, false); }
void Shared(benchmark::State& state) { Cluster(state, true); }

BENCHMARK(Single)->UseRealTime();
BENCHMARK(Independent)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK(Shared)->Arg(1)->Arg(2)->UseRealTime();

}  // namespace
}  // namespace snf
