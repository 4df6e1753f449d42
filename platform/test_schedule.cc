// SPDX-License-Identifier: Apache-2.0
#include "platform/test_schedule.h"

#include <algorithm>
#include <array>
#include <utility>

#include "controller/core/placement.h"

namespace snf {
namespace {

constexpr int64_t kMs = 1'000'000;

// Uniform in the exponent.
int64_t Any(Rng& rng, int64_t low, int64_t high) {
  const int64_t upper = low << rng.Below(64);
  if (upper >= high || upper < low) return rng.Uniform(low, high);
  return rng.Uniform(low, std::max(low, upper));
}

}  // namespace

RunOptions AnyOptions(Rng& rng) {
  RunOptions options = SmallTables();
  ControllerOptions& c = options.controller;
  c.flowlet_timeout = Nanos{Any(rng, 1'000, 5 * kMs)};
  c.flowlet_bytes = static_cast<uint32_t>(Any(rng, 100, 100'000));
  c.flow_timeout =
      rng.Chance(20'000)
          ? Nanos::max()
          : Nanos{c.flowlet_timeout.ns + Any(rng, 1, int64_t{1} << 32)};
  c.max_flows =
      rng.Chance(10'000) ? static_cast<uint32_t>(rng.Uniform(1, 8)) : 4096;
  c.alpha_1024 = static_cast<uint32_t>(rng.Below(1025));
  c.ewma_delta_65536 = static_cast<uint32_t>(rng.Below(65'537));
  c.demand_rule = rng.Chance(32'768) ? DemandRule::kFloor : DemandRule::kBurst;
  c.load_signal =
      rng.Chance(32'768) ? LoadSignal::kDemand : LoadSignal::kDrained;
  c.load_bucket = Nanos{Any(rng, 10'000, 5 * kMs)};
  c.load_buckets = static_cast<uint32_t>(rng.Uniform(1, 200));
  c.max_units = static_cast<uint32_t>(rng.Uniform(1, 32));
  c.unit_capacity_bps = Any(rng, 10'000, 1'000'000'000);
  if (rng.Chance(32'768)) {
    c.unit_capacity_bps = Any(rng, 1'000'000, 100'000'000);
  }
  c.first_demand_bps = rng.Chance(32'768) ? 0 : c.unit_capacity_bps / 3;
  c.unit_queue_packets = static_cast<uint32_t>(Any(rng, 1, 256));
  c.start_buffer_packets = static_cast<uint32_t>(rng.Uniform(0, 256));
  if (rng.Chance(20'000)) {
    c.unit_queue_packets = c.start_buffer_packets = 4096;
  }
  c.warm_units = static_cast<uint32_t>(rng.Below(c.max_units + 1));
  c.unit_idle_timeout = Nanos{Any(rng, 2 * kMs, 200 * kMs)};
  c.keep_warm = rng.Chance(16'384) ? Nanos{0} : Nanos{Any(rng, 1, 1'000 * kMs)};
  options.hop_delay = Nanos{rng.Chance(32'768) ? 0 : rng.Uniform(0, 5 * kMs)};
  options.unit_start_delay = Nanos{rng.Uniform(0, 5 * kMs)};
  options.warm_start_delay = Nanos{rng.Uniform(0, 5 * kMs)};
  if (rng.Chance(8'192)) {
    options.buffers.small = static_cast<uint32_t>(rng.Uniform(1, 40));
    options.buffers.medium = options.buffers.large = 0;
  }
  constexpr std::array kKinds = {FlowKeyKind::kConnection, FlowKeyKind::k5Tuple,
                                 FlowKeyKind::k3Tuple};
  options.flow.kind = kKinds[rng.Below(kKinds.size())];
  options.flow.vlan = rng.Chance(32'768);
  SetAnyStateOptions(rng, options);
  return options;
}

void SetAnyStateOptions(Rng& rng, RunOptions& options) {
  ControllerOptions& c = options.controller;
  c.seed = rng.Next();
  c.replicas = static_cast<uint32_t>(rng.Below(kMaxReplicas + 1));
  constexpr std::array kChoices = {ReplicaChoice::kWeighted,
                                   ReplicaChoice::kDeterministic,
                                   ReplicaChoice::kNone};
  constexpr std::array<uint32_t, 3> kWeights = {5, 2, 1};
  c.replica_choice = kChoices[rng.Weighted(kWeights)];
  c.push_delay = Nanos{Any(rng, 1, kMs)};
  c.reassign_period = Nanos{Any(rng, 1'000, 500 * kMs)};
  c.evacuate_slots = static_cast<uint32_t>(Any(rng, 1, 4'096));
  options.state_delay = Nanos{Any(rng, 1, kMs)};
  options.state_bandwidth_bps = Any(rng, 1'000'000, 100'000'000'000);
  options.state_retry = Nanos{Any(rng, 20'000, 50 * kMs)};
  if (rng.Chance(10'000)) {
    options.hold_packets = static_cast<uint32_t>(rng.Below(8));
  }
  if (rng.Chance(20'000)) {
    options.max_replicas = static_cast<uint32_t>(rng.Uniform(1, 8));
  }
  if (rng.Chance(32'768)) return;
  // Up to 30 % of the messages each.
  constexpr int64_t kMost = 19'661;
  options.chaos.state_delay_min = Nanos{rng.Uniform(0, 100'000)};
  options.chaos.state_delay_max =
      Nanos{options.chaos.state_delay_min.ns + Any(rng, 1, 5 * kMs)};
  options.chaos.state_loss_65536 = static_cast<uint32_t>(rng.Below(kMost));
  options.chaos.state_duplicate_65536 = static_cast<uint32_t>(rng.Below(kMost));
}

std::string_view AnyPolicy(Rng& rng) {
  // The first one is the platform's own.
  const auto policies = PlacementPolicies();
  if (rng.Chance(32'768)) return policies[0]->name();
  return policies[rng.Below(policies.size())]->name();
}

namespace {

Nanos AnyGap(Rng& rng) {
  constexpr std::array<uint32_t, 7> kWeights = {30, 30, 30, 6, 2, 1, 1};
  switch (rng.Weighted(kWeights)) {
    case 0:
      return {0};
    case 1:
      return {rng.Exponential(10'000)};
    case 2:
      return {rng.Exponential(kMs)};
    case 3:
      return {rng.Exponential(100 * kMs)};
    case 4:
      return {rng.Exponential(3'000 * kMs)};
    case 5:
      return {-rng.Exponential(kMs)};
    default:
      return Seconds(int64_t{rng.Uniform(1, 3)} * 365 * 86'400);
  }
}

// A frame that is no plain UDP packet.
Frame OddFrame(Rng& rng) {
  const auto any16 = [&] { return static_cast<uint16_t>(rng.Below(4)); };
  const auto payload = Frame(8 * (1 + rng.Below(40)), std::byte{0x5a});
  switch (rng.Below(7)) {
    case 0:
      return Ethernet(0x0806, Frame(28));
    case 1:
      return Ethernet(0x0800,
                      Ipv4({.protocol = 1}, Icmp(8, 0, any16(), payload)));
    case 2:
      return Ethernet(0x0800, Ipv4({.id = any16(), .more_fragments = true},
                                   Udp(any16(), 53, 16)));
    case 3:
      return Ethernet(
          0x0800, Ipv4({.id = any16(), .fragment_offset_bytes = 24}, payload));
    case 4:
      return Ethernet(0x0800, Ipv4({.protocol = 1},
                                   Icmp(3, 3, 0, Ipv4({}, Udp(any16(), 53)))));
    case 5:
      return Ethernet(0x8100, Vlan(any16(), 0x86dd,
                                   Ipv6({.next_header = 6},
                                        Tcp(any16(), 80, 0, rng.Below(900)))));
    default:
      return Ethernet(0x0800, Hex("45 00 00"));
  }
}

}  // namespace

std::vector<OfferedFrame> AnyTraffic(Rng& rng) {
  std::vector<OfferedFrame> packets;
  Instant time{rng.Uniform(-1'000 * kMs, 1'000 * kMs)};
  const uint64_t count = rng.Uniform(1, 400);
  const uint64_t flows = rng.Uniform(1, 30);
  const bool runs = rng.Chance(32'768);  // of packets of one flow
  constexpr std::array kAsks = {
      Ask::kDropFirst, Ask::kDropSecond, Ask::kConsume,     Ask::kReply,
      Ask::kFlood,     Ask::kTimer,      Ask::kCancelTimer, Ask::kRewrite};
  FrameFields fields;
  for (uint32_t i = 0; i < count; ++i) {
    time = time + AnyGap(rng);
    if (rng.Chance(6'000)) {
      packets.push_back({.time = time, .bytes = OddFrame(rng)});
      continue;
    }
    if (!runs || rng.Chance(6'000)) {
      fields.flow = static_cast<uint32_t>(rng.Below(flows));
    }
    fields.sequence = i;
    fields.bytes = static_cast<uint32_t>(Any(rng, 60, 1514));
    if (rng.Chance(300)) fields.bytes = 20'000;
    fields.ask =
        rng.Chance(16'384) ? kAsks[rng.Below(kAsks.size())] : Ask::kForward;
    fields.first_payload_byte = static_cast<std::byte>(rng.Below(100));
    fields.from_responder = rng.Chance(20'000);
    OfferedFrame packet{.time = time, .bytes = UdpFrame(fields)};
    if (rng.Chance(2'000)) {
      packet.original_length = static_cast<uint32_t>(rng.Below(60'000));
    }
    packets.push_back(std::move(packet));
  }
  return packets;
}

}  // namespace snf
