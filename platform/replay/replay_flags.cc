// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/packet/ip_prefix.h"
#include "controller/core/placement.h"
#include "platform/process/command_files.h"
#include "platform/replay/replay.h"
#include "platform/run/chaos_flag.h"
#include "runtime/sdk/nf.h"
#include "traces/split_writer.h"

namespace snf {
namespace {

constexpr int64_t kMaxCapacityBps = 1'000'000'000'000;
constexpr Nanos kMaxPushDelay = Seconds(10);
// A state with a queue on its way comes so much later than one without.
constexpr Nanos kPushMargin = Microseconds(180);

absl::Status Usage(const std::string& message) {
  return absl::InvalidArgumentError(message);
}

std::string_view MeaningOfPolicy(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6>
      kMeanings = {{
          {"snf", "weighted greedy bin-packing of flowlets"},
          {"vanilla_flow", "bin-packing of flows: each stays where it began"},
          {"smart_flow", "the same, each decided anew every reassign_period"},
          {"per_packet", "bin-packing of single packets"},
          {"hash", "by the hash of the flow over all max_units units"},
          {"rotate", "each packet on the next unit, to try what an NF stands"},
      }};
  for (const auto& [policy, meaning] : kMeanings) {
    if (policy == name) return meaning;
  }
  return "";
}

// Stdin, a pipe and the like.
bool CanBeReadOnlyOnce(const std::string& file) {
  std::error_code ignored;
  const auto type = std::filesystem::status(file, ignored).type();
  return file == "-" || type == std::filesystem::file_type::fifo ||
         type == std::filesystem::file_type::character ||
         type == std::filesystem::file_type::socket;
}

}  // namespace

void ReplayCommand::AddFlags() {
  flags_.Heading("What to run, what to write");
  std::vector<FlagSet::Meaning> nfs;
  for (const NfRegistration* nf : ListNfs()) {
    nfs.push_back(
        {.choice = std::string(nf->name), .what = std::string(nf->summary)});
  }
  flags_.Text(
      "nf", nf_, "NAME[:KEY=VALUE,…]",
      "network function to run on the units, and its options, which snf "
      "nf show NAME explains; or a chain of such, as in 'policer | nat', "
      "or the file of a module, as in ./my_nf.so:",
      nfs);
  flags_.Text("config", config_, "FILE",
              "chains of NFs, and which packets take which, instead of --nf: "
              "protobuf's text format or JSON (proto/config.proto)");
  flags_.Custom(
      "inside", "PREFIX[,PREFIX…]",
      "addresses that an NF with two sides, as nat, has on its inside, as in "
      "10.0.0.0/8,2001:db8::/32; without it, whoever sends first is inside",
      [this](const std::string& text) {
        const auto inside = ParsePrefixes(text);
        if (inside.ok()) options_.inside = *inside;
        return inside.status();
      },
      [this] { return FormatPrefixes(options_.inside); });
  flags_.Text("out", out_, "FILE",
              "write released packets, at the time of their release, to FILE "
              "(.pcap or .pcapng, also with .gz or .zst; - is stdout)");
  flags_.Switch("annotate", annotate_,
                "with a comment for each packet of --out, which then has to be "
                "pcapng: its unit, flowlet, clock and latency");
  flags_.Text("drops", drops_, "FILE",
              "write dropped packets to FILE (.pcapng, also with .gz or .zst), "
              "each with the reason as its comment");
  flags_.Switch("force", force_, "replace captures that are there");
  flags_.Text(
      "json", json_, "FILE",
      "write the report as JSON to FILE (- is stdout, instead of text); snf "
      "replay --json_schema says what its keys mean");
  flags_.Text(
      "csv", csv_, "DIR",
      "write time series per 100 ms, latency quantiles and all figures to "
      "DIR");
  flags_.Text("explain", explain_, "FLOW",
              "tell the story of a flow, also in --json: top (the most bytes), "
              "top:N (the N that have most), worst-wait (whose packet was held "
              "longest), or as in 'tcp 10.0.0.1:5000 > 192.0.2.9:80', several "
              "with ; between; of an NF with two sides by its inside end, 'tcp "
              "10.0.0.1:5000'");
  AddComparison();
  flags_.Switch("check", options_.check,
                "hold the run to the protocol's invariants (slower "
                "than --no_check; the result is the same)");
  flags_.Switch("quiet", quiet_, "no progress on stderr");
  flags_.Number("seed", options_.controller.seed,
                "seed of random choices: of replicas, and of chaos");
}

void ReplayCommand::AddTuningFlags() {
  ControllerOptions& c = options_.controller;
  flags_.Heading("Flows, flowlets and where they go");
  flow_key_.Add(flags_, "what packets are one flow:");
  flags_.Duration(
      "flowlet_timeout", c.flowlet_timeout, Nanos{1}, Seconds(10),
      "a longer gap between packets of a flow begins a new flowlet");
  flags_.Bytes("flowlet_bytes", c.flowlet_bytes, 1, 1'000'000'000,
               "a packet that would make a flowlet longer begins a new one");
  flags_.DurationOrInfinity("flow_timeout", c.flow_timeout, Microseconds(1),
                            "a flow without packets for so long is forgotten");
  flags_.Count("max_flows", c.max_flows, 1, 1u << 28,
               "flows at one time; packets of more are dropped");
  std::vector<FlagSet::Meaning> policies;
  for (const PlacementPolicy* policy : PlacementPolicies()) {
    policies.push_back({.choice = std::string(policy->name()),
                        .what = std::string(MeaningOfPolicy(policy->name()))});
  }
  flags_.Choice("policy", policy_, policies,
                "how flowlets are placed on units:");
  flags_.Duration("reassign_period", c.reassign_period, Microseconds(1),
                  Seconds(86'400), "period of the policy smart_flow");
  flags_.Fraction("alpha", c.alpha_1024, 1024,
                  "weight of a unit's having the flow's state against its "
                  "utilisation");
  flags_.Fraction("ewma_delta", c.ewma_delta_65536, 65'536,
                  "weight of the last flowlet's measured rate in the estimate "
                  "of the next");
  flags_.Choice("demand", demand_,
                {{"floor", "over its duration, but at least flowlet_timeout"},
                 {"burst", "over its duration, however short"}},
                "a flowlet's rate is that of its bytes:");
  flags_.BitRate("first_demand", c.first_demand_bps, 1'000, 1'000'000'000'000,
                 "demand of a flow's first flowlet before any was measured",
                 "1% of unit_capacity");
  flags_.Choice("load_signal", load_signal_,
                {{"demand",
                  "the larger of what it drained over the window and what its "
                  "open flowlets ask for, plus what still waits there"},
                 {"drained", "what it drained over the window, alone"}},
                "a unit's load is:");
  flags_.Duration("load_bucket", c.load_bucket, Microseconds(1), Seconds(1),
                  "width of a bucket of the load window");
  flags_.Count("load_buckets", c.load_buckets, 1, 10'000,
               "buckets in the load window");
}

void ReplayCommand::AddStateFlags() {
  ControllerOptions& c = options_.controller;
  flags_.Heading("State, which follows flowlets from unit to unit");
  flags_.Count("replicas", c.replicas, 0, kMaxReplicas,
               "units that a flow's state is pushed to ahead of its next "
               "flowlet, when it has been idle for half of flowlet_timeout");
  flags_.Choice("replica_choice", replica_choice_,
                {{"weighted", "at random, those of low ids rather"},
                 {"deterministic", "those of the lowest ids"},
                 {"none", "none: state is pulled when it is missed"}},
                "which units a flow's state is pushed to:");
  flags_.Duration("push_delay", c.push_delay, Nanos{0}, kMaxPushDelay,
                  "so long after a push, placement counts on it to have come; "
                  "it delays nothing. If not given, it is state_delay + 180us");
  flags_.Duration("state_delay", options_.state_delay, Nanos{0}, Seconds(10),
                  "time that a state takes from unit to unit, besides that for "
                  "its bytes");
  flags_.BitRate("state_bandwidth", options_.state_bandwidth_bps, 1'000,
                 1'000'000'000'000,
                 "rate at which the bytes of a state go from unit to unit");
  flags_.Duration(
      "state_retry", options_.state_retry, Microseconds(1),
      UnitOptions::kMaxRetryDelay,
      "a message about state without an answer is repeated after so "
      "long, then after twice as long, and so on");
  flags_.Count("hold_queue", options_.hold_packets, 1, 1u << 20,
               "packets that may wait for state at a unit; more are dropped");
  flags_.Count("max_replicas", options_.max_replicas, 1, 1u << 24,
               "replicas kept at a unit; the oldest make room for others");
  flags_.Duration("table_period", options_.table_period, Microseconds(100),
                  Seconds(3'600),
                  "a unit sends what it wrote into shared tables, and is sent "
                  "what others did, once in so long at most; so whoever reads "
                  "them sees an update after twice that, and the way. Who does "
                  "not read them is told once in 100 periods");
  flags_.Custom(
      "chaos", "'KEY=VALUE …'",
      "trouble with messages about state: state_delay=0..2ms is added to each, "
      "evenly from that range; state_loss=0.01 and state_duplicate=0.01 are "
      "probabilities",
      [this](const std::string& text) {
        const absl::StatusOr<ChaosOptions> chaos = ParseChaos(text);
        if (chaos.ok()) options_.chaos = *chaos;
        return chaos.status();
      },
      [this] { return FormatChaos(options_.chaos); });
}

void ReplayCommand::AddComparison() {
  flags_.Custom(
      "compare", "POLICY[,POLICY…]",
      "run the same under each of these policies too, at most 4, and print the "
      "results side by side",
      [this](const std::string& text) { return ParseCompare(text); },
      [this] { return fmt::format("{}", fmt::join(compare_, ",")); });
}

absl::Status ReplayCommand::ParseCompare(const std::string& text) {
  constexpr size_t kMost = 4;
  std::vector<std::string> policies;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string policy = text.substr(begin, end - begin);
    if (FindPlacementPolicy(policy) == nullptr) {
      std::string known;
      for (const PlacementPolicy* one : PlacementPolicies()) {
        known += fmt::format("{}{}", known.empty() ? "" : ", ", one->name());
      }
      return Usage(fmt::format("\"{}\" is none of {}", policy, known));
    }
    if (std::ranges::find(policies, policy) != policies.end()) {
      return Usage(fmt::format("\"{}\" is named twice", policy));
    }
    policies.push_back(policy);
    begin = end + 1;
  }
  if (policies.size() > kMost) {
    return Usage(fmt::format("\"{}\" names more than {}", text, kMost));
  }
  compare_ = policies;
  return absl::OkStatus();
}

void ReplayCommand::AddUnitFlags() {
  ControllerOptions& c = options_.controller;
  flags_.Heading("Compute units (a stated model)");
  flags_.BitRateOrNone("unit_capacity", c.unit_capacity_bps, real_.unpaced,
                       1'000, kMaxCapacityBps,
                       "what one unit can process; none, with --clock=real: "
                       "each as much as it can");
  flags_.Count("max_units", c.max_units, 1, kMaxUnits, "most units");
  flags_.Count("warm_units", c.warm_units, 0, kMaxUnits,
               "units warm at the start");
  flags_.Count("unit_queue", c.unit_queue_packets, 1, 1u << 20,
               "packets that may wait at a unit; more are dropped");
  flags_.Count("start_buffer", c.start_buffer_packets, 1, 1u << 20,
               "packets that may wait at a unit that is still starting, as a "
               "part of unit_queue; more are dropped");
  flags_.Duration("unit_idle_timeout", c.unit_idle_timeout, Microseconds(1),
                  Seconds(86'400),
                  "a unit without packets for so long is parked, warm");
  flags_.Duration("keep_warm", c.keep_warm, Nanos{0}, Seconds(86'400),
                  "a warm unit stops after so long");
  flags_.Duration("unit_start_delay", options_.unit_start_delay, Nanos{0},
                  Seconds(600),
                  "from a cold start to the first packet (not with "
                  "--unit_capacity=none)");
  flags_.Duration("warm_start_delay", options_.warm_start_delay, Nanos{0},
                  Seconds(600),
                  "from a warm start to the first packet (likewise)");
  flags_.Duration("hop_delay", options_.hop_delay, Nanos{0}, Seconds(10),
                  "controller to unit, unit to unit (but state_delay with "
                  "state), unit to the way out");
}

absl::Status ReplayCommand::AtOdds(const char* a, const char* b,
                                   const char* because) const {
  return Usage(fmt::format("{} with {}: {}", flags_.Printed(a),
                           flags_.Printed(b), because));
}

absl::Status ReplayCommand::CheckState() const {
  const ControllerOptions& c = options_.controller;
  const bool none = replica_choice_ == kNoReplicas;
  if (flags_.given("replicas") && c.replicas >= c.max_units) {
    return AtOdds("replicas", "max_units",
                  "a flow's state cannot go to more other units than there "
                  "are");
  }
  if (flags_.given("replicas") && flags_.given("replica_choice") &&
      (c.replicas == 0) != none) {
    return AtOdds(
        "replicas", "replica_choice",
        none ? "without a choice there are none" : "there are none to choose");
  }
  for (const char* flag : {"push_delay", "max_replicas"}) {
    if (!flags_.given(flag) || (c.replicas > 0 && !none)) continue;
    return AtOdds(flag, none ? "replica_choice" : "replicas",
                  "there are no replicas");
  }
  if (flags_.given("hold_queue") &&
      options_.hold_packets > c.unit_queue_packets) {
    return AtOdds("hold_queue", "unit_queue",
                  "what waits for state is a part of the queue");
  }
  return absl::OkStatus();
}

absl::Status ReplayCommand::CheckPolicies() const {
  const std::vector<std::string> policies = Policies();
  const auto among = [&policies](const char* policy) {
    return std::ranges::find(policies, policy) != policies.end();
  };
  if (flags_.given("reassign_period") && !among("smart_flow")) {
    return AtOdds("reassign_period", "policy", "only smart_flow has a period");
  }
  if (flags_.given("flowlet_bytes") && policies.size() == 1 &&
      FindPlacementPolicy(policies.front())->per_packet()) {
    return AtOdds("flowlet_bytes", "policy",
                  "each packet is a flowlet of its own");
  }
  if (compare_.empty()) return absl::OkStatus();
  if (policies.size() == 1) {
    return AtOdds("compare", "policy", "there is nothing to compare with");
  }
  for (const char* flag : {"out", "drops", "csv", "explain"}) {
    if (!flags_.given(flag)) continue;
    return AtOdds(flag, "compare", "it tells of one run alone");
  }
  return absl::OkStatus();
}

std::vector<std::string> ReplayCommand::Policies() const {
  std::vector<std::string> policies = {
      std::string(PlacementPolicies()[policy_]->name())};
  for (const std::string& policy : compare_) {
    if (policy != policies.front()) policies.push_back(policy);
  }
  return policies;
}

absl::Status ReplayCommand::CheckTogether() const {
  const ControllerOptions& c = options_.controller;
  if (c.flow_timeout <= c.flowlet_timeout) {
    return AtOdds("flow_timeout", "flowlet_timeout",
                  "a flow must outlive its flowlets");
  }
  if (c.unit_idle_timeout <= c.flowlet_timeout) {
    return AtOdds("unit_idle_timeout", "flowlet_timeout",
                  "a unit would be parked within a flowlet");
  }
  if (flags_.given("warm_units") && c.warm_units > c.max_units) {
    return AtOdds("warm_units", "max_units", "more than there may be");
  }
  if (flags_.given("start_buffer") &&
      c.start_buffer_packets > c.unit_queue_packets) {
    return AtOdds("start_buffer", "unit_queue",
                  "the start buffer is a part of the queue");
  }
  if (absl::Status s = CheckState(); !s.ok()) return s;
  if (absl::Status s = CheckPolicies(); !s.ok()) return s;
  if (absl::Status s = CheckReal(); !s.ok()) return s;
  if (flags_.given("nf") && flags_.given("config")) {
    return AtOdds("nf", "config", "either says what to run");
  }
  if (absl::Status s = CheckWritten(); !s.ok()) return s;
  if (json_ == "-" && out_ == "-") {
    return AtOdds("json", "out", "both cannot be stdout");
  }
  for (const std::string& file : files_) {
    if (CanBeReadOnlyOnce(file) &&
        (explains_after_a_pass() || !compare_.empty())) {
      return Usage(fmt::format(
          "{} with {}: it reads the capture more than once, which {} cannot",
          flags_.Printed(explains_after_a_pass() ? "explain" : "compare"), file,
          file == "-" ? "stdin" : "a pipe"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReplayCommand::CheckWritten() const {
  const std::array<WrittenFile, 3> written = {
      {{"--out", out_}, {"--drops", drops_}, {"--json", json_}}};
  if (absl::Status s = CheckCaptureName(written[0]); !s.ok()) return s;
  // Only pcapng can hold comments.
  if (annotate_ && out_ != "-" && !NamesPcapng(out_)) {
    return Usage(
        "--annotate: wants --out=FILE.pcapng (or with .gz or .zst behind, or "
        "-): other formats hold no comments");
  }
  if (!drops_.empty() && !NamesPcapng(drops_)) {
    return Usage(fmt::format(
        "--drops={}: its name has to end in .pcapng, or in that and .gz or "
        ".zst: other formats hold no comments",
        drops_));
  }
  std::vector<std::string> read = files_;
  read.push_back(config_);
  if (absl::Status s = CheckFiles(read, written); !s.ok()) return s;
  for (const std::string& name : {out_, drops_}) {
    absl::Status s = SplitWriter::CheckAbsent(name, force_);
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

void ReplayCommand::SettleOptions() {
  options_.flow.kind = flow_key_.kind();
  options_.flow.vlan = flow_key_.vlan();
  ControllerOptions& c = options_.controller;
  c.load_signal = LoadSignal{static_cast<uint8_t>(load_signal_)};
  c.demand_rule = DemandRule{static_cast<uint8_t>(demand_)};
  c.replica_choice = ReplicaChoice{static_cast<uint8_t>(replica_choice_)};
  c.hash_seed = c.seed;
  if (real_.unpaced) c.unit_capacity_bps = kMaxCapacityBps;
  // A buffer for every place in the queues, up to 2 GiB of them; pages that no
  // packet touches cost nothing.
  constexpr uint64_t kMaxBuffers = 1 << 20;
  options_.buffers.small = static_cast<uint32_t>(
      std::clamp<uint64_t>(uint64_t{c.max_units} * c.unit_queue_packets,
                           options_.buffers.small, kMaxBuffers));
  // Defaults give way to what was given.
  c.replicas = replica_choice_ == kNoReplicas
                   ? 0
                   : std::min(c.replicas, c.max_units - 1);
  if (!flags_.given("push_delay")) {
    c.push_delay = std::min(Nanos{options_.state_delay.ns + kPushMargin.ns},
                            kMaxPushDelay);
  }
  options_.hold_packets = std::min(options_.hold_packets, c.unit_queue_packets);
  c.warm_units = std::min(c.warm_units, c.max_units);
  c.start_buffer_packets =
      std::min(c.start_buffer_packets, c.unit_queue_packets);
}

}  // namespace snf
