// SPDX-License-Identifier: Apache-2.0
//
// Measures the cost of finding a packet's rule, and that of a linear scan.
// Rules are made in the manner of ClassBench (Taylor and Turner, INFOCOM 2005):
// prefixes nest, ports are those of a few services, the high ones, any or a
// range, and three in four rules are TCP. Three packets in four match a rule,
// one drawn at random. Compare within one run:
//   base_rules_bench --benchmark_enable_random_interleaving=true
//       --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "base/rules/rule_table.h"
#include "benchmark/benchmark.h"

namespace snf {
namespace {

constexpr size_t kPackets = 4096;

IpPrefix Ipv4Prefix(uint32_t address, uint32_t length) {
  const uint32_t mask = length == 0 ? 0 : ~uint32_t{0} << (32 - length);
  return {.address = IpAddress::FromIpv4(be32(address & mask)),
          .length = static_cast<uint8_t>(96 + length)};
}

// Rules and packets for them, and the rules once more in the form for a linear
// scan.
class Workload {
 public:
  explicit Workload(size_t rules) : rng_(rules) {
    for (size_t i = 0; i < 8 + rules / 16; ++i) {
      // Half of the networks lie within an earlier one.
      const uint32_t outer =
          i == 0 || rng_.Chance(32'768)
              ? static_cast<uint32_t>(rng_.Next())
              : networks_[rng_.Below(networks_.size())] & 0xffff'0000;
      networks_.push_back(outer | (rng_.Next() & 0xffff));
    }
    for (size_t i = 0; i < rules; ++i) rules_.push_back(Rule());
    table_ = *RuleTable::Build(rules_);
    for (const PacketRule& rule : rules_) scanned_.push_back(ScannedOf(rule));
    for (size_t i = 0; i < kPackets; ++i) packets_.push_back(Packet());
    for (const PacketFields& packet : packets_) {
      SNF_CHECK(Scan(packet) == table_.Find(packet));
    }
  }

  const RuleTable& table() const { return table_; }
  const std::vector<PacketFields>& packets() const { return packets_; }

  uint32_t Scan(const PacketFields& packet) const {
    const uint32_t from = packet.source.ipv4().host();
    const uint32_t to = packet.destination.ipv4().host();
    for (uint32_t i = 0; i < scanned_.size(); ++i) {
      const Scanned& rule = scanned_[i];
      if (((from ^ rule.from) & rule.from_mask) == 0 &&
          ((to ^ rule.to) & rule.to_mask) == 0 &&
          packet.source_port >= rule.from_first &&
          packet.source_port <= rule.from_last &&
          packet.destination_port >= rule.to_first &&
          packet.destination_port <= rule.to_last &&
          packet.protocol == rule.protocol) {
        return i;
      }
    }
    return RuleTable::kNoRule;
  }

 private:
  struct Scanned {
    uint32_t from, from_mask, to, to_mask;
    uint16_t from_first, from_last, to_first, to_last;
    IpProtocol protocol;
  };

  IpPrefix Network(std::initializer_list<uint32_t> lengths) {
    return Ipv4Prefix(networks_[rng_.Below(networks_.size())],
                      lengths.begin()[rng_.Below(lengths.size())]);
  }

  std::vector<PortRange> Ports(bool of_service) {
    static constexpr std::array<uint16_t, 12> kServices = {
        80, 443, 53, 22, 25, 110, 143, 389, 1521, 1433, 3306, 8080};
    constexpr std::array<uint32_t, 4> kSource = {80, 5, 10, 5};
    constexpr std::array<uint32_t, 4> kDestination = {15, 65, 10, 10};
    switch (rng_.Weighted(of_service ? kDestination : kSource)) {
      case 0:
        return {};
      case 1: {
        const uint16_t port = kServices[rng_.Below(kServices.size())];
        return {{port, port}};
      }
      case 2:
        return {{1024, 65535}};
      default: {
        const auto first = static_cast<uint16_t>(rng_.Below(60'000));
        return {{first, static_cast<uint16_t>(first + rng_.Below(200))}};
      }
    }
  }

  PacketRule Rule() {
    PacketRule rule;
    rule.protocol = rng_.Chance(49'152) ? IpProtocol::kTcp : IpProtocol::kUdp;
    if (!rng_.Chance(10'000)) rule.from = {Network({8, 16, 21, 24, 28, 32})};
    // Never open at both ends, or a few rules would take all packets.
    rule.to = {Network({16, 23, 24, 24, 27, 30, 32, 32, 32})};
    rule.from_ports = Ports(false);
    rule.to_ports = Ports(true);
    return rule;
  }

  static Scanned ScannedOf(const PacketRule& rule) {
    const auto mask = [](const std::vector<IpPrefix>& prefixes) {
      return prefixes.empty() ? 0 : ~uint32_t{0} << (128 - prefixes[0].length);
    };
    const auto address = [](const std::vector<IpPrefix>& prefixes) {
      return prefixes.empty() ? 0 : prefixes[0].address.ipv4().host();
    };
    const auto range = [](const std::vector<PortRange>& ranges) {
      return ranges.empty() ? PortRange{0, 0xffff} : ranges[0];
    };
    return {.from = address(rule.from),
            .from_mask = mask(rule.from),
            .to = address(rule.to),
            .to_mask = mask(rule.to),
            .from_first = range(rule.from_ports).first,
            .from_last = range(rule.from_ports).last,
            .to_first = range(rule.to_ports).first,
            .to_last = range(rule.to_ports).last,
            .protocol = *rule.protocol};
  }

  PacketFields Packet() {
    const Scanned& aim = scanned_[rng_.Below(scanned_.size())];
    const auto any = [this] { return static_cast<uint32_t>(rng_.Next()); };
    const auto port = [this](uint16_t first, uint16_t last) {
      return static_cast<uint16_t>(rng_.Uniform(first, last));
    };
    uint32_t from = aim.from | (any() & ~aim.from_mask);
    if (rng_.Chance(16'384)) from = any();
    const uint32_t to = aim.to | (any() & ~aim.to_mask);
    return {.source = IpAddress::FromIpv4(be32(from)),
            .destination = IpAddress::FromIpv4(be32(to)),
            .source_port = port(aim.from_first, aim.from_last),
            .destination_port = port(aim.to_first, aim.to_last),
            .protocol = aim.protocol,
            .l3 = L3::kIpv4,
            .has_ports = true};
  }

  Rng rng_;
  std::vector<uint32_t> networks_;
  std::vector<PacketRule> rules_;
  RuleTable table_;
  std::vector<Scanned> scanned_;
  std::vector<PacketFields> packets_;
};

// Returns the workload of so many rules. It is made at first use and shared by
// repetitions.
const Workload& WorkloadOf(const benchmark::State& state) {
  static std::vector<std::pair<int64_t, std::unique_ptr<Workload>>> all;
  for (const auto& [rules, workload] : all) {
    if (rules == state.range(0)) return *workload;
  }
  const auto rules = static_cast<size_t>(state.range(0));
  return *all.emplace_back(state.range(0), std::make_unique<Workload>(rules))
              .second;
}

template <typename Packets, typename One>
void EachPacket(benchmark::State& state, const Packets& workload, One one) {
  size_t next = 0;
  for ([[maybe_unused]] auto _ : state) {
    uint32_t found = one(workload.packets()[next++ % kPackets]);
    benchmark::DoNotOptimize(found);
  }
  state.counters["tuples"] = static_cast<double>(workload.table().tuples());
  state.counters["patterns"] = static_cast<double>(workload.table().patterns());
}

void BM_Table(benchmark::State& state) {
  const Workload& workload = WorkloadOf(state);
  EachPacket(state, workload, [&workload](const PacketFields& packet) {
    return workload.table().Find(packet);
  });
}
BENCHMARK(BM_Table)->ArgName("rules")->Arg(20)->Arg(1'000)->Arg(10'000);

void BM_LinearScan(benchmark::State& state) {
  const Workload& workload = WorkloadOf(state);
  EachPacket(state, workload, [&workload](const PacketFields& packet) {
    return workload.Scan(packet);
  });
}
BENCHMARK(BM_LinearScan)->ArgName("rules")->Arg(20)->Arg(1'000)->Arg(10'000);

// A rule with a set of addresses, behind 1,000 rules without sets. Every second
// packet is from an address of the set.
class SetWorkload {
 public:
  explicit SetWorkload(uint32_t entries) : rng_(entries) {
    RuleList list;
    for (uint32_t i = 0; i < 1'000; ++i) {
      PacketRule& rule = list.rules.emplace_back();
      rule.protocol = IpProtocol::kTcp;
      rule.to = {Ipv4Prefix(0xac10'0000 + 256 * i, 24)};
    }
    list.rules.emplace_back().from_set = "bad";
    RuleSet& set = list.sets.emplace_back();
    set.name = "bad";
    for (uint32_t i = 0; i < entries; ++i) {
      set.prefixes.push_back(Ipv4Prefix(Odd(), 32));
    }
    table_ = *RuleTable::Build(list);
    for (size_t i = 0; i < kPackets; ++i) {
      IpAddress from = set.prefixes[rng_.Below(entries)].address;
      if (i % 2 == 0) from = IpAddress::FromIpv4(be32(Odd() - 1));
      packets_.push_back({.source = from,
                          .destination = IpAddress::FromIpv4(be32(0x0101'0101)),
                          .protocol = IpProtocol::kTcp,
                          .l3 = L3::kIpv4,
                          .has_ports = true});
      SNF_CHECK(table_.Find(packets_.back()) ==
                (i % 2 == 0 ? RuleTable::kNoRule : 1'000));
    }
  }

  const RuleTable& table() const { return table_; }
  const std::vector<PacketFields>& packets() const { return packets_; }

 private:
  uint32_t Odd() { return static_cast<uint32_t>(rng_.Next()) | 1; }

  Rng rng_;
  RuleTable table_;
  std::vector<PacketFields> packets_;
};

void BM_Set(benchmark::State& state) {
  const SetWorkload workload(static_cast<uint32_t>(state.range(0)));
  EachPacket(state, workload, [&workload](const PacketFields& packet) {
    return workload.table().Find(packet);
  });
}
BENCHMARK(BM_Set)->ArgName("entries")->Arg(10)->Arg(1'000)->Arg(100'000);

}  // namespace
}  // namespace snf
