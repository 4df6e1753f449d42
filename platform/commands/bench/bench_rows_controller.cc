// SPDX-License-Identifier: Apache-2.0
//
// Rows 6 and 7: the controller, held against the floor and against assignment
// by hash, as a network card does it (RSS).
#include <fmt/format.h>

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/packet/fixture_flows.h"
#include "base/packet/fixture_parse_lookup.h"
#include "base/packet/flow_key.h"
#include "base/packet/packet_parser.h"
#include "base/rng.h"
#include "controller/core/fixture_loaded_units.h"
#include "controller/core/fixture_lone_controller.h"
#include "controller/core/replica_chooser.h"
#include "platform/commands/bench/bench_rows.h"

namespace snf {
namespace {

using Bytes = std::span<const std::byte>;
using BenchCase = BenchSuite::BenchCase;

constexpr size_t kBatch = ParseLookupFloor::kBatch;

// Keeps the compiler from removing the computation of `value`.
template <typename T>
void Keep(const T& value) {
  asm volatile("" : : "r"(&value) : "memory");
}

// Frames one batch after the other.
class Walk {
 public:
  explicit Walk(uint32_t flows) : frames_(flows) {}

  template <typename Batch>
  uint64_t operator()(uint64_t packets, const Batch& batch) {
    uint64_t done = 0;
    for (; done < packets; done += kBatch) {
      for (Bytes& frame : batch_) frame = frames_.frame(next_++);
      if (next_ == frames_.count()) next_ = 0;
      batch(std::span<const Bytes>(batch_));
    }
    return done;
  }
  size_t count() const { return frames_.count(); }

 private:
  MadeFrames frames_;
  std::array<Bytes, kBatch> batch_;
  size_t next_ = 0;
};

// Makes a case that runs `batch` on batches of frames, all of which it has seen
// once.
template <typename Batch>
BenchCase OfFrames(uint32_t flows, const Batch& batch) {
  auto walk = std::make_shared<Walk>(flows);
  (*walk)(walk->count(), batch);
  return {.sample = [walk, batch](uint64_t packets) {
    return CpuNsOf(packets, [&](uint64_t n) { return (*walk)(n, batch); });
  }};
}

// --- Row 6 -------------------------------------------------------------------

// If `parts` is above 0, units are leased, and `parts` of them only by a half.
size_t AddDecision(BenchSuite& suite, uint32_t units, uint32_t replicas,
                   uint32_t parts) {
  struct Decisions {
    Decisions(uint32_t count, uint32_t halves, const ControllerOptions& options)
        : units(count, halves), chooser(options), rng(count), step(count) {}
    LoadedUnits units;
    ReplicaChooser chooser;
    Rng rng;
    int64_t step;
  };
  const auto make = [units, replicas, parts]() -> absl::StatusOr<BenchCase> {
    ControllerOptions options;
    options.max_units = units;
    options.replicas = replicas;
    auto of = std::make_shared<Decisions>(units, parts, options);
    return BenchCase{.sample = [of](uint64_t decisions) {
      constexpr int kInTurn = 500;  // between reports, which are not measured
      int64_t cpu_ns = 0;
      uint64_t done = 0;
      for (; done < decisions; done += kInTurn) {
        for (int i = 0; i < kInTurn; ++i) {
          of->units.Drain({}, Microseconds(of->step));
        }
        const int64_t begin = ThreadCpuNs();
        for (int i = 0; i < kInTurn; ++i) {
          ReplicaSet set;
          of->units.Advance(Microseconds(1));
          of->chooser.Choose(of->rng, of->units.Decide(), of->units.units(),
                             set);
          Keep(set);
        }
        cpu_ns += ThreadCpuNs() - begin;
      }
      return static_cast<double>(cpu_ns) / static_cast<double>(done);
    }};
  };
  return suite.Add(fmt::format("decision {} {} {}", units, replicas, parts),
                   make);
}

// Measures assignment among `units` by a hash of the flow's key, which is
// given.
size_t AddHashing(BenchSuite& suite, uint32_t units) {
  const auto make = [units]() -> absl::StatusOr<BenchCase> {
    std::vector<FlowKey> keys(4'096);
    const MadeFrames frames(4'096);
    for (size_t i = 0; i < keys.size(); ++i) {
      const Bytes frame = frames.frame(i);
      keys[i] = FiveTuple(frame, Parse(LinkType::kEthernet, frame), false);
    }
    return BenchCase{.sample = [keys, units](uint64_t decisions) {
      return CpuNsOf(decisions, [&](uint64_t n) {
        for (uint64_t i = 0; i < n; ++i) {
          Keep(Hash(keys[i % keys.size()]) % units);
        }
        return n;
      });
    }};
  };
  return suite.Add(fmt::format("hashing {}", units), make);
}

void AddDecisions(const BenchSizes& sizes, BenchSuite& suite,
                  std::vector<BenchRow>& rows) {
  struct Variant {
    const char* what;
    uint32_t replicas;
    uint32_t parts;
  };
  for (const auto& [what, replicas, parts] :
       {Variant{"3 replicas drawn", 3, 0}, Variant{"no replicas drawn", 0, 0},
        Variant{"of four units a half is leased", 0, 4}}) {
    rows.push_back(
        {.number = 6,
         .what = fmt::format("a decision, {}", what),
         .variant =
             fmt::format("{} units against 10", InThousands(sizes.many_units)),
         .must = {{2}},
         .aim = {{1.3}},
         .aim_ours = 60,
         .ours = {{"many units",
                   AddDecision(suite, sizes.many_units, replicas, parts)}},
         .base = {{"10 units", AddDecision(suite, 10, replicas, parts)}},
         .beside = {{"plain hash", AddHashing(suite, sizes.many_units)}}});
  }
}

// --- Row 7 -------------------------------------------------------------------

void AddRunning(uint32_t flows, BenchSuite& suite,
                std::vector<BenchRow>& rows) {
  const auto ours = [flows]() -> absl::StatusOr<BenchCase> {
    auto controller = std::make_shared<LoneController>(flows);
    return OfFrames(flows, [controller](std::span<const Bytes> frames) {
      controller->Burst(frames);
    });
  };
  const auto hash = [flows]() -> absl::StatusOr<BenchCase> {
    std::array<uint16_t, 128> table{};
    for (uint16_t i = 0; i < table.size(); ++i) table[i] = i % 10;
    return OfFrames(flows, [table](std::span<const Bytes> frames) {
      for (const Bytes frame : frames) {
        const ParsedPacket packet = Parse(LinkType::kEthernet, frame);
        const FlowKey key = FiveTuple(frame, packet, false);
        Keep(table[Hash(key) % table.size()]);
      }
    });
  };
  const auto floor = [flows]() -> absl::StatusOr<BenchCase> {
    return ParseLookupCase(flows);
  };
  rows.push_back(
      {.number = 7,
       .what = "a running flowlet's packet in the controller",
       .variant = InThousands(flows) + " flows",
       .must = {{3}},
       .aim = {{1.7}},
       .ours = {{"the controller",
                 suite.Add(fmt::format("controller {}", flows), ours)}},
       .base = {{"parse + lookup", suite.Add(ParseLookupName(flows), floor)}},
       .beside = {{"parse + plain hash",
                   suite.Add(fmt::format("rss {}", flows), hash)}}});
}

}  // namespace

std::string ParseLookupName(uint32_t flows) {
  return fmt::format("parse + lookup {}", flows);
}

BenchSuite::BenchCase ParseLookupCase(uint32_t flows) {
  auto floor = std::make_shared<ParseLookupFloor>(flows);
  return OfFrames(flows, [floor](std::span<const Bytes> frames) {
    floor->Batch(LinkType::kEthernet, frames, 1);
  });
}

void AddControllerRows(int number, const BenchSizes& sizes, BenchSuite& suite,
                       std::vector<BenchRow>& rows) {
  if (number == 6) {
    AddDecisions(sizes, suite, rows);
    return;
  }
  SNF_CHECK(number == 7);
  for (const uint32_t flows : {sizes.few_flows, sizes.flows}) {
    AddRunning(flows, suite, rows);
  }
}

}  // namespace snf
