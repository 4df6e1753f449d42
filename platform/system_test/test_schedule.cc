// SPDX-License-Identifier: Apache-2.0
#include "platform/system_test/test_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "controller/core/placement.h"
#include "platform/run/chaos_flag.h"
#include "traces/capture_writer.h"
#include "traces/merged_reader.h"

namespace snf {
namespace {

constexpr int64_t kMs = 1'000'000;
// Of the packets of a schedule: where each of them has room, none is dropped.
constexpr int64_t kMostPackets = 400;
constexpr uint32_t kRoomForAll = 1'024;

// Uniform in the exponent.
int64_t Any(Rng& rng, int64_t low, int64_t high) {
  const int64_t upper = low << rng.Below(64);
  if (upper >= high || upper < low) return rng.Uniform(low, high);
  return rng.Uniform(low, std::max(low, upper));
}

// How state moves, and what the network does to it.
void SetAnyStateOptions(Rng& rng, RunOptions& options) {
  ControllerOptions& c = options.controller;
  c.seed = rng.Next();
  c.replicas = static_cast<uint32_t>(rng.Below(kMaxReplicas + 1));
  constexpr std::array kChoices = {
      ReplicaChoice::kWeighted, ReplicaChoice::kLikely,
      ReplicaChoice::kDeterministic, ReplicaChoice::kNone};
  constexpr std::array<uint32_t, 4> kWeights = {5, 3, 2, 1};
  c.replica_choice = kChoices[rng.Weighted(kWeights)];
  c.replica_chance_65536 = static_cast<uint32_t>(Any(rng, 1, 65'536));
  c.push_delay = Nanos{Any(rng, 1, 50 * kMs)};
  options.push_bases = c.seed % 4 == 0 ? 0 : 1u << c.seed % 17;
  c.reassign_period = Nanos{Any(rng, 1'000, 500 * kMs)};
  c.evacuate_slots = static_cast<uint32_t>(Any(rng, 1, 4'096));
  options.state_delay = Nanos{Any(rng, 1, kMs)};
  options.state_bandwidth_bps = Any(rng, 1'000'000, 100'000'000'000);
  options.state_retry = Nanos{Any(rng, 20'000, 50 * kMs)};
  if (rng.Chance(10'000)) {
    options.hold_packets = static_cast<uint32_t>(rng.Below(8));
  }
  options.max_replicas = static_cast<uint32_t>(
      rng.Chance(20'000) ? rng.Uniform(1, 8) : kRoomForAll);
  if (rng.Chance(32'768)) return;
  // Up to 30 % of the messages each.
  constexpr int64_t kMost = 19'661;
  options.chaos.state_delay_min = Nanos{rng.Uniform(0, 100'000)};
  options.chaos.state_delay_max =
      Nanos{options.chaos.state_delay_min.ns + Any(rng, 1, 5 * kMs)};
  options.chaos.state_loss_65536 = static_cast<uint32_t>(rng.Below(kMost));
  options.chaos.state_duplicate_65536 = static_cast<uint32_t>(rng.Below(kMost));
}

RunOptions AnyOptions(Rng& rng) {
  RunOptions options = SmallTables();
  ControllerOptions& c = options.controller;
  c.flowlet_timeout = Nanos{Any(rng, 1'000, 5 * kMs)};
  c.flowlet_bytes = static_cast<uint32_t>(Any(rng, 100, 100'000));
  c.flow_timeout =
      rng.Chance(20'000)
          ? Nanos::max()
          : Nanos{c.flowlet_timeout.ns + Any(rng, 1, int64_t{1} << 32)};
  c.max_flows = static_cast<uint32_t>(rng.Chance(10'000) ? rng.Uniform(1, 8)
                                                         : kRoomForAll);
  c.alpha_1024 = static_cast<uint32_t>(rng.Below(1025));
  c.ewma_delta_65536 = static_cast<uint32_t>(rng.Below(65'537));
  c.demand_rule = rng.Chance(32'768) ? DemandRule::kFloor : DemandRule::kBurst;
  c.load_signal = LoadSignal{static_cast<uint8_t>(rng.Below(3))};
  c.latency_target = Nanos{Any(rng, 1'000, 50 * kMs)};
  c.load_bucket = Nanos{Any(rng, 10'000, 5 * kMs)};
  c.load_buckets = static_cast<uint32_t>(rng.Uniform(1, 200));
  c.max_units = static_cast<uint32_t>(rng.Uniform(1, 32));
  c.unit_capacity_bps = Any(rng, 10'000, 1'000'000'000);
  if (rng.Chance(32'768)) {
    c.unit_capacity_bps = Any(rng, 1'000'000, 100'000'000);
  } else if (rng.Chance(32'768)) {
    c.unit_capacity_bps = rng.Uniform(100'000'000, 10'000'000'000);
  }
  c.first_demand_bps = rng.Chance(32'768) ? 0 : c.unit_capacity_bps / 3;
  c.unit_queue_packets = static_cast<uint32_t>(Any(rng, 1, 256));
  c.start_buffer_packets = static_cast<uint32_t>(rng.Uniform(0, 256));
  if (rng.Chance(20'000)) {
    c.unit_queue_packets = c.start_buffer_packets = kRoomForAll;
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

std::string_view AnyPolicy(Rng& rng) {
  // The first one is the platform's own.
  const auto policies = PlacementPolicies();
  if (rng.Chance(32'768)) return policies[0]->name();
  return policies[rng.Below(policies.size())]->name();
}

// Dense traffic keeps several units busy at a time.
Nanos AnyGap(Rng& rng, bool is_dense) {
  constexpr std::array<uint32_t, 7> kWeights = {30, 30, 30, 6, 2, 1, 1};
  constexpr std::array<uint32_t, 3> kDenseWeights = {25, 70, 5};
  switch (is_dense ? rng.Weighted(kDenseWeights) : rng.Weighted(kWeights)) {
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

// Asks of test NFs are among the frames; to others they are just bytes.
std::vector<OfferedFrame> AnyTraffic(Rng& rng) {
  std::vector<OfferedFrame> packets;
  Instant time{rng.Uniform(-1'000 * kMs, 1'000 * kMs)};
  const uint64_t count = rng.Uniform(1, kMostPackets);
  const uint64_t flows = rng.Uniform(1, 30);
  const bool is_dense = rng.Chance(20'000);
  const bool runs = rng.Chance(32'768);  // of packets of one flow
  constexpr std::array kAsks = {
      Ask::kDropFirst, Ask::kDropSecond, Ask::kConsume,     Ask::kReply,
      Ask::kFlood,     Ask::kTimer,      Ask::kCancelTimer, Ask::kRewrite};
  FrameFields fields;
  for (uint32_t i = 0; i < count; ++i) {
    time = time + AnyGap(rng, is_dense);
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

// What flags cannot say, or refuse together, gives way.
void KeepToFlags(Schedule& schedule) {
  const RunOptions defaults;
  RunOptions& options = schedule.options;
  ControllerOptions& c = options.controller;
  // Enough for every packet; so how many there are changes nothing.
  options.buffers = {.small = 2'048, .medium = 1'024, .large = 512};
  options.flow.fragments = defaults.flow.fragments;
  c.evacuate_slots = defaults.controller.evacuate_slots;
  c.hash_seed = c.seed;
  c.start_buffer_packets =
      std::clamp(c.start_buffer_packets, 1u, c.unit_queue_packets);
  options.hold_packets =
      std::clamp(options.hold_packets, 1u, c.unit_queue_packets);
  c.replicas = std::min(c.replicas, c.max_units - 1);
  if (c.replica_choice == ReplicaChoice::kNone) c.replicas = 0;
  if (c.replicas == 0) {
    c.replica_choice = ReplicaChoice::kNone;
    c.push_delay = defaults.controller.push_delay;
  }
  if (FindPlacementPolicy(schedule.policy)->per_packet()) {
    c.flowlet_bytes = defaults.controller.flowlet_bytes;
  }
  if (schedule.policy != "smart_flow") {
    c.reassign_period = defaults.controller.reassign_period;
  }
}

Schedule AnyScheduleOfFlags(Rng& rng) {
  Schedule schedule;
  schedule.options = AnyOptions(rng);
  schedule.policy = AnyPolicy(rng);
  schedule.nf = FindNf(rng.Chance(16'384) ? "passthrough" : "chronicle");
  KeepToFlags(schedule);
  return schedule;
}

}  // namespace

Schedule AnySchedule(Rng& rng) {
  Schedule schedule = AnyScheduleOfFlags(rng);
  schedule.packets = AnyTraffic(rng);
  schedule.is_synthetic = true;
  // No capture has packets of before 1970.
  Instant earliest;
  for (const OfferedFrame& packet : schedule.packets) {
    earliest = std::min(earliest, packet.time);
  }
  for (OfferedFrame& packet : schedule.packets) {
    packet.time = Instant{} + (packet.time - earliest);
  }
  return schedule;
}

Schedule AnySchedule(Rng& rng, std::span<const OfferedFrame> capture) {
  Schedule schedule = AnyScheduleOfFlags(rng);
  const auto packets = static_cast<int64_t>(capture.size());
  const int64_t count = rng.Uniform(1, std::min(packets, kMostPackets));
  const auto part =
      capture.subspan(static_cast<size_t>(rng.Uniform(0, packets - count)),
                      static_cast<size_t>(count));
  schedule.packets.assign(part.begin(), part.end());
  return schedule;
}

Schedule AnyScheduleOfAsks(Rng& rng) {
  Schedule schedule;
  schedule.options = AnyOptions(rng);
  schedule.policy = AnyPolicy(rng);
  schedule.packets = AnyTraffic(rng);
  schedule.is_synthetic = true;
  // A timer that is set for ever needs a flow that ends.
  const bool finite = schedule.options.controller.flow_timeout != Nanos::max();
  const std::array nfs = {&TimelessChronicleNf(), &TimelessChronicleNf(),
                          &ForwardingNf(),        &ChronicleNf(),
                          &ScriptedNf(),          &KeepaliveNf()};
  schedule.nf = nfs[rng.Below(finite ? 6 : 5)];
  return schedule;
}

namespace {

class ReplayCommandLine {
 public:
  explicit ReplayCommandLine(const std::string& file)
      : text_("./snf replay " + file) {}

  template <typename T>
  void Add(std::string_view flag, const T& value, std::string_view unit = "") {
    text_ += fmt::format(" --{}={}{}", flag, value, unit);
  }
  void Add(std::string_view flag, Nanos time) {
    if (time == Nanos::max()) return Add(flag, "inf");
    Add(flag, time.ns, "ns");
  }
  // A share of `one`, with enough decimals to come back as the same one.
  void AddShare(std::string_view flag, uint64_t share, uint64_t one) {
    const uint64_t millionths = (share * 1'000'000 + one / 2) / one;
    Add(flag, fmt::format("{}.{:06}", millionths / 1'000'000,
                          millionths % 1'000'000));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void AddStateFlags(const RunOptions& options, ReplayCommandLine& line) {
  const ControllerOptions& c = options.controller;
  line.Add("state_delay", options.state_delay);
  line.Add("state_bandwidth", options.state_bandwidth_bps, "bps");
  line.Add("state_retry", options.state_retry);
  line.Add("hold_queue", options.hold_packets);
  if (options.chaos.any()) {
    line.Add("chaos", "'" + FormatChaos(options.chaos) + "'");
  }
  if (c.replica_choice == ReplicaChoice::kNone) {
    line.Add("replica_choice", "none");
    return;
  }
  constexpr std::array kChoices = {"likely", "weighted", "deterministic"};
  line.Add("replica_choice", kChoices[static_cast<size_t>(c.replica_choice)]);
  if (c.replica_choice == ReplicaChoice::kLikely) {
    line.AddShare("replica_chance", c.replica_chance_65536, 65'536);
  }
  line.Add("replicas", c.replicas);
  line.Add("push_delay", c.push_delay);
  line.Add("max_replicas", options.max_replicas);
  line.Add("push_bases", options.push_bases);
}

void AddUnitFlags(const RunOptions& options, ReplayCommandLine& line) {
  const ControllerOptions& c = options.controller;
  line.Add("unit_capacity", c.unit_capacity_bps, "bps");
  line.Add("max_units", c.max_units);
  line.Add("warm_units", c.warm_units);
  line.Add("unit_queue", c.unit_queue_packets);
  line.Add("start_buffer", c.start_buffer_packets);
  line.Add("unit_idle_timeout", c.unit_idle_timeout);
  line.Add("keep_warm", c.keep_warm);
  line.Add("unit_start_delay", options.unit_start_delay);
  line.Add("warm_start_delay", options.warm_start_delay);
  line.Add("hop_delay", options.hop_delay);
}

}  // namespace

std::string ReplayLine(const Schedule& schedule, const std::string& file) {
  const ControllerOptions& c = schedule.options.controller;
  constexpr std::array kKeys = {"connection", "5tuple", "3tuple"};
  const FlowClassifier::Options& flow = schedule.options.flow;
  ReplayCommandLine line(file);
  line.Add("nf", schedule.nf->name);
  line.Add("seed", c.seed);
  line.Add("flow_key",
           fmt::format("{}{}", kKeys[static_cast<size_t>(flow.kind)],
                       flow.vlan ? ",vlan" : ""));
  line.Add("flowlet_timeout", c.flowlet_timeout);
  if (!FindPlacementPolicy(schedule.policy)->per_packet()) {
    line.Add("flowlet_bytes", c.flowlet_bytes, "B");
  }
  line.Add("flow_timeout", c.flow_timeout);
  line.Add("max_flows", c.max_flows);
  line.Add("policy", schedule.policy);
  if (schedule.policy == "smart_flow") {
    line.Add("reassign_period", c.reassign_period);
  }
  line.AddShare("alpha", c.alpha_1024, 1'024);
  line.AddShare("ewma_delta", c.ewma_delta_65536, 65'536);
  line.Add("demand", c.demand_rule == DemandRule::kFloor ? "floor" : "burst");
  if (c.first_demand_bps > 0) {
    line.Add("first_demand", c.first_demand_bps, "bps");
  }
  constexpr std::array kSignals = {"wait", "demand", "drained"};
  line.Add("load_signal", kSignals[static_cast<size_t>(c.load_signal)]);
  line.Add("latency_target", c.latency_target);
  line.Add("load_bucket", c.load_bucket);
  line.Add("load_buckets", c.load_buckets);
  AddStateFlags(schedule.options, line);
  AddUnitFlags(schedule.options, line);
  return line.text();
}

absl::Status WriteFrames(const std::string& file,
                         std::span<const OfferedFrame> packets) {
  auto writer = CaptureWriter::Open(file, {});
  if (!writer.ok()) return writer.status();
  for (const OfferedFrame& packet : packets) {
    const auto captured = static_cast<uint32_t>(packet.bytes.size());
    (*writer)->Write(
        {.time = packet.time,
         .bytes = packet.bytes,
         .original_bytes = std::max(packet.original_length, captured),
         .link = packet.link});
  }
  return (*writer)->Close();
}

absl::StatusOr<std::vector<OfferedFrame>> ReadFrames(const std::string& file) {
  auto reader = MergedReader::Open({file});
  if (!reader.ok()) return reader.status();
  std::vector<OfferedFrame> packets;
  CapturedPacket packet;
  while ((*reader)->Next(packet) == ReadResult::kPacket) {
    packets.push_back({.time = packet.time,
                       .bytes = {packet.bytes.begin(), packet.bytes.end()},
                       .original_length = packet.original_bytes,
                       .link = packet.link});
  }
  if (!(*reader)->status().ok()) return (*reader)->status();
  return packets;
}

}  // namespace snf
