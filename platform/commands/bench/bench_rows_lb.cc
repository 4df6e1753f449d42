// SPDX-License-Identifier: Apache-2.0
//
// Row 20: the load balancer against one written by hand around a hash table.
#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/packet/fixture_flows.h"
#include "base/packet/flow_key.h"
#include "base/packet/rewrite.h"
#include "base/rng.h"
#include "platform/commands/bench/bench_rows.h"
#include "platform/commands/bench/fixture_driven_chain.h"
#include "runtime/core/fixture_traffic.h"

namespace snf {
namespace {

using BenchCase = BenchSuite::BenchCase;

constexpr uint32_t kServers = 10;
const MadeEnd kVirtual = {be32(0xc000'020a), be16(80)};

MadeEnd Server(uint32_t number) {
  return {be32(0xac10'0001 + number), be16(8'080)};
}

std::string Lb() {
  // Clients alone open no connection. It may wait as long as a run of all rows.
  std::string text =
      "lb(virtual=192.0.2.10:80,tcp_opening_timeout=3600s,servers=";
  for (uint32_t i = 0; i < kServers; ++i) {
    text += fmt::format("{}172.16.0.{}:8080", i > 0 ? "+" : "", i + 1);
  }
  return text + ")";
}

// Packets of clients in random order, which are copied, parsed, looked up in a
// table by their five-tuple, 32 at a time, and rewritten.
class HashMapLb {
 public:
  explicit HashMapLb(uint32_t flows) {
    servers_.reserve(flows);
    for (uint32_t i = 0; i < flows; ++i) {
      const MadeConnection of = MadeConnection::Number(i);
      packets_.emplace_back().bytes =
          MakeFrame(of.protocol, of.inside, kVirtual);
    }
    Rng(1).Shuffle(std::span(packets_));
    Run(flows);  // begins all connections
  }
  uint64_t Run(uint64_t packets) {
    uint64_t done = 0;
    for (; done < packets; done += buffers_.size()) RunBatch();
    return done;
  }

 private:
  void RunBatch() {
    for (size_t i = 0; i < buffers_.size(); ++i) {
      buffers_.Put(i, packets_[next_], {});
      next_ = next_ + 1 == packets_.size() ? 0 : next_ + 1;
      keys_[i] = FiveTuple(buffers_.bytes(i), buffers_.info(i).headers, false);
      servers_.prefetch(keys_[i]);
    }
    for (size_t i = 0; i < buffers_.size(); ++i) {
      const auto [at, is_new] = servers_.try_emplace(keys_[i]);
      if (is_new) {
        at->second = Server(static_cast<uint32_t>(Hash(keys_[i]) % kServers));
      }
      RewriteDestination(buffers_.bytes(i), buffers_.info(i).headers,
                         at->second.address, at->second.port);
    }
  }

  BatchBuffers buffers_;
  std::array<FlowKey, BatchBuffers::kBatch> keys_{};
  std::vector<MadePacket> packets_;
  size_t next_ = 0;
  absl::flat_hash_map<FlowKey, MadeEnd, FlowKeyHash> servers_;
};

}  // namespace

void AddLbRow(const BenchSizes& sizes, BenchSuite& suite,
              std::vector<BenchRow>& rows) {
  const uint32_t flows = sizes.memory_flows;
  const auto ours = [flows]() -> absl::StatusOr<BenchCase> {
    auto started = DrivenChain::Start(
        {.nf = Lb(), .flows = flows, .far = kVirtual, .both_sides = false});
    if (!started.ok()) return started.status();
    const std::shared_ptr<DrivenChain> chain = *std::move(started);
    return BenchCase{
        .sample =
            [chain](uint64_t packets) {
              return CpuNsOf(packets, [&](uint64_t n) {
                chain->Offer(n);
                return n;
              });
            },
        .check = [chain] { return DrivenChain::Check(chain->Finish()); }};
  };
  const auto base = [flows]() -> absl::StatusOr<BenchCase> {
    auto floor = std::make_shared<HashMapLb>(flows);
    return BenchCase{.sample = [floor](uint64_t packets) {
      return CpuNsOf(packets, [&](uint64_t n) { return floor->Run(n); });
    }};
  };
  rows.push_back(
      {.number = 20,
       .what = "lb on the whole path, 10 servers",
       .variant = fmt::format("{} K connections", flows / 1'000),
       .of = BenchRow::Of::kInverseRatio,
       .must = {{.limit = 0.4, .is_least = true}},
       .aim = {{.limit = 0.7, .is_least = true}},
       .ours = {{"the whole path with lb", suite.Add("driven lb", ours)}},
       .base = {{"one table, by hand", suite.Add("hash-map lb", base)}},
       .notes = {"Packets of clients alone."}});
}

}  // namespace snf
