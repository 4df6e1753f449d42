// SPDX-License-Identifier: Apache-2.0
//
// Row 16: live packets through a pair of veth.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "controller/core/placement.h"
#include "platform/commands/bench/bench_rows.h"
#include "platform/commands/bench/fixture_driven_chain.h"
#include "platform/commands/bench/fixture_live_wire.h"
#include "platform/daemon/chains/chain_set.h"
#include "platform/daemon/chains/live_chains.h"
#include "platform/daemon/live_traffic.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

using BenchCase = BenchSuite::BenchCase;

// CPU time a frame that `take` uses to take what the wire has sent: returns how
// many frames it took. What sending costs is left out. A frame that has not
// come after a second is lost.
template <typename Take>
double CpuNsOfFrames(LiveWire& wire, uint64_t operations, const Take& take,
                     uint64_t& lost) {
  int64_t spent = 0;
  uint64_t done = 0;
  while (done < operations) {
    const uint32_t sent = wire.Send(operations - done);
    const Instant end = RealClock::Monotonic() + Seconds(1);
    const int64_t begin = ThreadCpuNs();
    uint64_t taken = 0;
    while (taken < sent && RealClock::Monotonic() < end) taken += take();
    spent += ThreadCpuNs() - begin;
    lost += sent - taken;
    done += sent;
    if (sent == 0) break;
  }
  return static_cast<double>(spent) /
         static_cast<double>(std::max<uint64_t>(done, 1));
}

absl::Status CheckLost(uint64_t lost) {
  if (lost == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{} frames were sent, and did not come", lost));
}

BenchSuite::Make Bare(uint32_t flows, bool sends) {
  return [flows, sends]() -> absl::StatusOr<BenchCase> {
    struct State {
      BareForwarder forwarder;
      std::unique_ptr<LiveWire> wire;
      uint64_t lost = 0;
    };
    auto state = std::make_shared<State>();
    auto wire = LiveWire::Make(flows, [&] { return state->forwarder.Open(); });
    if (!wire.ok()) return wire.status();
    state->wire = *std::move(wire);
    return BenchCase{.sample =
                         [state, sends](uint64_t operations) {
                           return CpuNsOfFrames(
                               *state->wire, operations,
                               [&] { return state->forwarder.Turn(sends); },
                               state->lost);
                         },
                     .check = [state] { return CheckLost(state->lost); }};
  };
}

// Live traffic through an NF, all on one thread.
struct LiveChain {
  absl::Status Open(PortSpec::Kind kind);
  absl::Status Start(const std::string& nf, uint32_t flows);
  // Returns how many packets came in.
  uint64_t Turn();
  absl::Status Check();

  std::unique_ptr<LiveWire> wire;
  std::unique_ptr<LiveTraffic> traffic;
  std::unique_ptr<ChainSet> chains;
  uint64_t lost = 0;
};

absl::Status LiveChain::Open(PortSpec::Kind kind) {
  auto opened = LiveTraffic::Open(
      {{.side = Side::kInside, .kind = kind, .interface = "lan0"},
       {.side = Side::kOutside, .kind = kind, .interface = "wan0"}});
  if (opened.ok()) traffic = *std::move(opened);
  return opened.status();
}

absl::Status LiveChain::Start(const std::string& nf, uint32_t flows) {
  auto parsed = NfSpec::Parse(nf);
  SNF_CHECK(parsed.ok());
  RunOptions run;
  run.controller.max_flows = 2 * flows;
  run.controller.first_demand_bps = 500'000'000 / flows;
  run.check = false;
  auto started =
      RealDriver::Start(run,
                        {.speed = {.kind = Speed::Kind::kMax, .value = 0},
                         .threads = 1,
                         .unpaced = true},
                        *FindPlacementPolicy("snf"), *parsed, {traffic.get()});
  if (!started.ok()) return started.status();
  chains = std::make_unique<ChainSet>(
      std::make_unique<LiveChains>(*std::move(started), nf));
  traffic->Begin(*chains);
  return absl::OkStatus();
}

uint64_t LiveChain::Turn() {
  const uint64_t before = chains->only().newest().packets_in();
  while (traffic->Turn(*chains)) {
  }
  return chains->only().newest().packets_in() - before;
}

absl::Status LiveChain::Check() {
  if (absl::Status s = CheckLost(lost); !s.ok()) return s;
  const RunResult result = chains->Finish();
  traffic->Finish();
  if (absl::Status s = DrivenChain::Check(result); !s.ok()) return s;
  const std::string wrong =
      traffic->WhatDoesNotAddUp(result, chains->earlier());
  return wrong.empty() ? absl::OkStatus() : absl::InternalError(wrong);
}

BenchSuite::Make Through(const std::string& nf, uint32_t flows,
                         PortSpec::Kind kind = PortSpec::Kind::kPacket) {
  return [nf, flows, kind]() -> absl::StatusOr<BenchCase> {
    auto chain = std::make_shared<LiveChain>();
    auto wire = LiveWire::Make(flows, [&] { return chain->Open(kind); });
    if (!wire.ok()) return wire.status();
    chain->wire = *std::move(wire);
    if (absl::Status s = chain->Start(nf, flows); !s.ok()) return s;
    return BenchCase{.sample =
                         [chain](uint64_t operations) {
                           return CpuNsOfFrames(
                               *chain->wire, operations,
                               [&] { return chain->Turn(); }, chain->lost);
                         },
                     .check = [chain] { return chain->Check(); }};
  };
}

}  // namespace

void AddLiveRows(int number, const BenchSizes& sizes, BenchSuite& suite,
                 std::vector<BenchRow>& rows) {
  SNF_CHECK(number == 16);
  const auto side = [&suite](const std::string& what,
                             const BenchSuite::Make& make) {
    return BenchRow::Side{what, suite.Add("live " + what, make)};
  };
  rows.push_back(
      {.number = 16,
       .what = "live packets through veth, against a bare loop",
       .variant = InThousands(sizes.few_flows) + " flows",
       .of = BenchRow::Of::kInverseRatio,
       .must = {{.limit = 0.7, .is_least = true}},
       .aim = {{.limit = 0.9, .is_least = true}},
       .ours = side("passthrough", Through("passthrough", sizes.few_flows)),
       .base = side("bare receive and send", Bare(sizes.few_flows, true)),
       .beside = {side("firewall | monitor | nat",
                       Through("firewall | monitor | nat(ip=203.0.113.1)",
                               sizes.few_flows)),
                  side("passthrough by AF_XDP",
                       Through("passthrough", sizes.few_flows,
                               PortSpec::Kind::kXdp)),
                  side("bare receive alone", Bare(sizes.few_flows, false))},
       .notes = {"CPU time of the thread that takes packets of one interface "
                 "and sends them by the other."}});
}

}  // namespace snf
