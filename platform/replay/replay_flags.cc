// SPDX-License-Identifier: Apache-2.0
#include "platform/replay/replay_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/packet/ip_prefix.h"
#include "controller/core/placement.h"
#include "platform/replay/fault_flag.h"
#include "platform/replay/store_flag.h"
#include "platform/run/chaos_flag.h"
#include "platform/run/pace.h"
#include "runtime/sdk/nf.h"

namespace snf {

ReplayFlags::ReplayFlags(FlagSet& flags, Input input)
    : flags_(flags), input_(input) {
  options_.run.controller.start_timeout = Seconds(10);
  options_.run.nf_patience = Seconds(10);
  if (has_captures()) {
    flags_.Arguments("FILE", options_.files, 0);
  } else {
    clock_ = 1;
    options_.real.unpaced = true;
    options_.run.check = false;
  }
  AddFlags();
  AddTuningFlags();
  AddStateFlags();
  AddUnitFlags();
  AddRealFlags();
}

void ReplayFlags::AddFlags() {
  flags_.Heading("What to run, what to write");
  if (!has_captures()) {
    AddPorts();
    AddController();
  }
  std::vector<FlagSet::Meaning> nfs;
  for (const NfRegistration* nf : ListNfs()) {
    nfs.push_back(
        {.choice = std::string(nf->name), .what = std::string(nf->summary)});
  }
  flags_.Text(
      "nf", options_.nf, "NAME[:KEY=VALUE,…]",
      "network function to run on the units, and its options, which snf "
      "nf show NAME explains; or a chain of such, as in 'policer | nat', "
      "or the file of a module, as in ./my_nf.so:",
      nfs);
  AddConfig();
  if (has_captures()) AddInside();
  AddOutputs();
}

void ReplayFlags::AddPorts() {
  flags_.Repeated(
      "port", "SIDE=[KIND:]INTERFACE",
      "where packets come in and leave: an inside and an outside, as in "
      "--port inside=lan0 --port outside=wan0, or several of each, of which "
      "a packet leaves by the one where its receiver was seen; with xdp:, by "
      "AF_XDP, for "
      "network cards; with tap:, a TAP interface, "
      "which is made if it is not there; with file:, a capture, whose frames "
      "come in as they were captured, while what leaves there goes nowhere",
      [this](const std::string& text) {
        const absl::StatusOr<PortSpec> port = ParsePort(text);
        if (port.ok()) options_.ports.push_back(*port);
        return port.status();
      },
      [this] {
        std::string text;
        for (const PortSpec& port : options_.ports) {
          text += (text.empty() ? "" : ",") + port.text();
        }
        return text;
      });
}

void ReplayFlags::AddController() {
  flags_.Custom(
      "controller", "I/N",
      "be controller I, from 0 on, of N at the same ports, each a process of "
      "its own with the same --nf: it takes the packets of its hosts inside "
      "alone, and what comes to its part of an NF's external ports",
      [this](const std::string& text) {
        const auto controller = ControllerOf::Parse(text);
        if (controller.ok()) options_.controller = *controller;
        return controller.status();
      },
      [this] { return options_.controller.text(); });
}

void ReplayFlags::AddConfig() {
  flags_.Text("config", options_.config_file, "FILE",
              has_captures()
                  ? "chains of NFs, and which packets take which, instead of "
                    "--nf: protobuf's text format or JSON (proto/config.proto)"
                  : "a chain of NFs, instead of --nf: protobuf's text format "
                    "or JSON (proto/config.proto)");
}

void ReplayFlags::AddInside() {
  flags_.Custom(
      "inside", "PREFIX[,PREFIX…]",
      "addresses that an NF with two sides, as nat, has on its inside, as in "
      "10.0.0.0/8,2001:db8::/32; without it, whoever sends first is inside",
      [this](const std::string& text) {
        const auto inside = ParsePrefixes(text);
        if (inside.ok()) options_.run.inside = *inside;
        return inside.status();
      },
      [this] { return FormatPrefixes(options_.run.inside); });
}

void ReplayFlags::AddOutputs() {
  flags_.Text("out", options_.out, "FILE",
              "write released packets, at the time of their release, to FILE "
              "(.pcap or .pcapng, also with .gz or .zst; - is stdout)");
  flags_.Switch("annotate", options_.annotate,
                "with a comment for each packet of --out, which then has to be "
                "pcapng: its unit, flowlet, clock and latency");
  flags_.Text("drops", options_.drops, "FILE",
              "write dropped packets to FILE (.pcapng, also with .gz or .zst), "
              "each with the reason as its comment");
  flags_.Switch("force", force_, "replace captures that are there");
  flags_.Text(
      "json", options_.json, "FILE",
      "write the report as JSON to FILE (- is stdout, instead of text)");
  flags_.Question("json_schema", options_.json_schema,
                  "only tell what the keys of --json mean");
  flags_.Text(
      "csv", options_.csv, "DIR",
      "write time series per 100 ms, in virtual time also of single units "
      "per 10 ms, latency quantiles and all figures to DIR");
  if (has_captures()) {
    AddStories();
    flags_.Switch("check", options_.run.check,
                  "hold the run to the protocol's invariants (slower "
                  "than --no_check; the result is the same)");
  }
  flags_.Switch("quiet", options_.quiet, "no progress on stderr");
  flags_.Number("seed", options_.run.controller.seed,
                "seed of random choices: of replicas, of chaos and of hashes; "
                "with --clock=real, hashes have a secret one where it is not "
                "given");
}

void ReplayFlags::AddStories() {
  flags_.Duration("warm_up", options_.warm_up, Nanos{0}, Seconds(86'400),
                  "leave so much of the beginning out of latency, of the "
                  "number of units and of a unit's utilisation; what is "
                  "counted, and all over time, has it");
  flags_.Text("decisions", options_.decisions, "FILE",
              "write every placement of a flowlet and what the policy saw to "
              "FILE (.csv, or .jsonl for an object a line, also with .gz or "
              ".zst)");
  flags_.Text("usage", options_.usage, "FILE",
              "write what the chain used to FILE (- is stdout, with --json "
              "elsewhere): a JSON object a line for each second, with packets, "
              "bytes, processing time of units, and bytes of state times "
              "seconds");
  flags_.Text("explain", explain_, "FLOW",
              "tell the story of a flow, also in --json: top (the most bytes), "
              "top:N (the N that have most), worst-wait (whose packet was held "
              "longest), or as in 'tcp 10.0.0.1:5000 > 192.0.2.9:80', several "
              "with ; between; of an NF with two sides by its inside end, 'tcp "
              "10.0.0.1:5000'");
  AddComparison();
}

void ReplayFlags::AddTuningFlags() {
  ControllerOptions& c = options_.run.controller;
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
  flags_.DurationOrInfinity(
      "evict_after", c.evict_after, Nanos{0},
      "with max_flows there, a flow silent for so long makes way for another");
  std::vector<FlagSet::Meaning> policies;
  for (const PlacementPolicy* policy : PlacementPolicies()) {
    policies.push_back({.choice = std::string(policy->name()),
                        .what = std::string(policy->help())});
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
                {{"floor", "over its duration, but at least demand_floor"},
                 {"burst", "over its duration, however short"}},
                "a flowlet's rate is that of its bytes:");
  flags_.Duration("demand_floor", c.demand_floor, Nanos{1}, Seconds(10),
                  "the shortest time over which a rate is measured");
  flags_.BitRate("first_demand", c.first_demand_bps, 1'000, 1'000'000'000'000,
                 "demand of a flow's first flowlet before any was measured; "
                 "it counts as much as 100 measured ones",
                 "1% of unit_capacity");
  flags_.Choice("load_signal", load_signal_,
                {{"wait",
                  "the time that a packet would wait there; units are filled "
                  "as latency_target allows"},
                 {"demand",
                  "the larger of what it drained over the window and what its "
                  "open flowlets ask for, plus what still waits there"},
                 {"drained", "what it drained over the window, alone"}},
                "a unit's load is:");
  flags_.Duration("latency_target", c.latency_target, Microseconds(1),
                  Seconds(10),
                  "with load_signal=wait: 99 % of the packets are to wait no "
                  "longer at their unit");
  flags_.Duration("load_bucket", c.load_bucket, Microseconds(1), Seconds(1),
                  "width of a bucket of the load window");
  flags_.Count("load_buckets", c.load_buckets, 1, 10'000,
               "buckets in the load window");
}

void ReplayFlags::AddStateFlags() {
  ControllerOptions& c = options_.run.controller;
  flags_.Heading("State, which follows flowlets from unit to unit");
  AddStateMode();
  flags_.Count("replicas", c.replicas, 0, kMaxReplicas,
               "units that a flow's state is pushed to ahead of its next "
               "flowlet, when it has been idle for half of flowlet_timeout");
  flags_.Choice("replica_choice", replica_choice_,
                {{"likely",
                  "as many as the chance that the flow moves is worth, at the "
                  "other end of the units"},
                 {"weighted", "at random, those of low ids rather"},
                 {"deterministic", "those of the lowest ids"},
                 {"none", "none: state is pulled when it is missed"}},
                "which units a flow's state is pushed to:");
  flags_.Fraction("replica_chance", c.replica_chance_65536, 65'536,
                  "with replica_choice=likely: the least chance of use that is "
                  "worth a push");
  flags_.Duration("push_delay", c.push_delay, Nanos{0}, kMaxPushDelay,
                  "so long after a push, placement counts on it to have come; "
                  "it delays nothing. If not given, it is state_delay + 180us");
  if (has_captures()) AddStateModel();
  flags_.Duration(
      "state_retry", options_.run.state_retry, Microseconds(1),
      UnitOptions::kMaxRetryDelay,
      "a message about state without an answer is repeated after so "
      "long, then after twice as long, and so on");
  flags_.Count("hold_queue", options_.run.hold_packets, 1, 1u << 20,
               "packets that may wait for state at a unit; more are dropped");
  flags_.Count("max_replicas", options_.run.max_replicas, 1, 1u << 24,
               "replicas kept at a unit; the oldest make room for others");
  flags_.Duration("table_period", options_.run.table_period, Microseconds(100),
                  Seconds(3'600),
                  "a unit sends what it wrote into shared tables, and is sent "
                  "what others did, once in so long at most; so whoever reads "
                  "them sees an update after twice that, and the way. Who does "
                  "not read them is told once in 100 periods");
  AddLoggers();
  if (!has_captures()) return;
  AddChaos();
  AddFaults();
  AddLeases();
}

void ReplayFlags::AddStateMode() {
  flags_.Choice("state", state_,
                {{"proactive", "it is pushed there ahead, or else pulled"},
                 {"reactive", "it is pulled from the unit before"},
                 {"external",
                  "it is read from a store outside of units, into which it is "
                  "written once the flow has been idle for half of "
                  "flowlet_timeout"}},
                "how the state of a flow gets to the unit of its next "
                "flowlet:");
  flags_.Text("redis", options_.real.redis, "ADDRESS",
              "the store of --state=external in real time: unix:/PATH or "
              "HOST:PORT of a Redis; without it, a redis-server of the run's "
              "own, which ends with it");
  flags_.Custom(
      "store", "'KEY=VALUE …'",
      "of --state=external: a state that is not in the store yet is asked for "
      "again after poll=50us, and so on; a request without an answer after "
      "timeout=10ms; packets are dropped after patience=1s without any. In "
      "virtual time also the model of the server: round_trips (five: the "
      "least, p50, p90, p99, p99.9), operation and threads, as snf bench "
      "--rows=14 measures them",
      [this](const std::string& text) {
        const absl::StatusOr<StoreOptions> store = ParseStore(text);
        if (store.ok()) options_.run.store = *store;
        return store.status();
      },
      [this] { return FormatStore(options_.run.store); });
}

void ReplayFlags::AddLoggers() {
  flags_.Choice("loggers", loggers_,
                {{"off", "as soon as it is processed"},
                 {"on", "once the unit's output logger has what it changed"}},
                "when a packet is released, and others learn of what it did:");
  if (!has_captures()) return;
  flags_.Switch("recovery", options_.recovery,
                "also think through, every 7.3 ms, that a unit dies, and tell "
                "how long recovery would take with output loggers, with a "
                "checkpoint every 50 ms and a replay of the input since, and "
                "with a datastore (--store) and a replay of what is in "
                "transit; and what each costs a packet");
  flags_.Duration("logger_delay", options_.run.logger_delay, Nanos{0},
                  Seconds(10),
                  "time from a unit to its logger, and as long back");
}

void ReplayFlags::AddFaults() {
  flags_.Custom(
      "faults", "'kill …; kill …'",
      "units that die, with their host and the packets in it, and are "
      "recovered from, with --loggers=on: \"kill unit 3 at 1.2s\" after the "
      "first packet; \"kill any p=0.001\", of those that run, by chance with "
      "each packet; "
      "loggers that die: \"kill logger 3 at 1s\", \"kill any logger p=0.001\", "
      "or \"kill process of any logger p=0.001\", whose ring is "
      "kept; in real time processes are killed, with all their units, or all "
      "loggers; the controller, which a successor replaces, at any time, also "
      "while units or loggers fail: \"kill controller "
      "at 2s\", \"kill controller p=0.001\"; with --controllers \"kill "
      "controller 2 at 2s\", and without loggers too \"add controller at "
      "3s\", \"remove controller 1 at 4s\", whose flows others go on with, and "
      "\"kill resource_manager at 5s\", whose leases stay",
      [this](const std::string& text) {
        const absl::StatusOr<FaultOptions> faults = ParseFaults(text);
        if (faults.ok()) options_.run.faults = *faults;
        return faults.status();
      },
      [this] { return FormatFaults(options_.run.faults); });
}

void ReplayFlags::AddLeases() {
  flags_.Count("controllers", options_.cluster.controllers, 1,
               ClusterOptions::kMostControllers,
               "controllers, each with flows of its own, that lease the units "
               "from a resource manager");
  flags_.Choice(
      "leases", leases_,
      {{"shared", "shares of units that all of them use"},
       {"independent", "whole units, each controller its own max_units"}},
      "what several controllers lease:");
}

void ReplayFlags::AddStateModel() {
  flags_.Duration("state_delay", options_.run.state_delay, Nanos{0},
                  Seconds(10),
                  "time that a state takes from unit to unit, besides that for "
                  "its bytes");
  flags_.BitRate("state_bandwidth", options_.run.state_bandwidth_bps, 1'000,
                 1'000'000'000'000,
                 "rate at which the bytes of a state go from unit to unit");
}

void ReplayFlags::AddChaos() {
  flags_.Custom(
      "chaos", "'KEY=VALUE …'",
      "trouble with messages about state: state_delay=0..2ms is added to each, "
      "evenly from that range; state_loss=0.01 and state_duplicate=0.01 are "
      "probabilities. So is start_failure=0.1, of a unit's start to fail. "
      "logger_delay, logger_loss and logger_duplicate do the same between "
      "units and their output loggers; lease_delay, lease_loss and "
      "lease_duplicate, to messages about leases",
      [this](const std::string& text) {
        const absl::StatusOr<ChaosOptions> chaos = ParseChaos(text);
        if (chaos.ok()) options_.run.chaos = *chaos;
        return chaos.status();
      },
      [this] { return FormatChaos(options_.run.chaos); });
}

void ReplayFlags::AddComparison() {
  flags_.Custom(
      "compare", "POLICY[,POLICY…]",
      "run the same under each of these policies too, at most 4, and print the "
      "results side by side",
      [this](const std::string& text) { return ParseCompare(text); },
      [this] { return fmt::format("{}", fmt::join(compare_, ",")); });
}

absl::Status ReplayFlags::ParseCompare(const std::string& text) {
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
      return absl::InvalidArgumentError(
          fmt::format("\"{}\" is none of {}", policy, known));
    }
    if (std::ranges::find(policies, policy) != policies.end()) {
      return absl::InvalidArgumentError(
          fmt::format("\"{}\" is named twice", policy));
    }
    policies.push_back(policy);
    begin = end + 1;
  }
  if (policies.size() > kMost) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" names more than {}", text, kMost));
  }
  compare_ = policies;
  return absl::OkStatus();
}

void ReplayFlags::AddUnitFlags() {
  ControllerOptions& c = options_.run.controller;
  flags_.Heading("Compute units (a stated model)");
  flags_.BitRateOrNone("unit_capacity", c.unit_capacity_bps,
                       options_.real.unpaced, 1'000, kMaxCapacityBps,
                       "what one unit can process; none, with --clock=real: "
                       "each as much as it can");
  flags_.PacketRate("unit_packets", c.unit_packets_ps, 1, 1'000'000'000,
                    "what one unit can process in packets: one takes at least "
                    "1 / RATE, and costs as much as one that takes so long "
                    "by its bits, in load, demand and flowlet_bytes",
                    "as many as unit_capacity carries");
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
  flags_.Duration("unit_start_delay", options_.run.unit_start_delay, Nanos{0},
                  Seconds(600),
                  "from a cold start to the first packet (not with "
                  "--unit_capacity=none)");
  flags_.Duration("warm_start_delay", options_.run.warm_start_delay, Nanos{0},
                  Seconds(600),
                  "from a warm start to the first packet (likewise)");
  flags_.DurationOrInfinity(
      "start_timeout", c.start_timeout, Microseconds(1),
      "a start that takes longer has failed: it is counted, after a while "
      "others are started, and nothing new waits for that unit");
  flags_.DurationOrInfinity(
      "nf_patience", options_.run.nf_patience, Milliseconds(1),
      "a call of the network function that takes longer, by the machine's "
      "clock, ends the run with exit code 70, and what it was still to write "
      "is lost; time spent in a debugger does not count");
  if (has_captures()) {
    flags_.Duration("hop_delay", options_.run.hop_delay, Nanos{0}, Seconds(10),
                    "controller to unit, unit to unit (but state_delay with "
                    "state), unit to the way out");
  }
}

void ReplayFlags::AddRealFlags() {
  flags_.Heading("Real time");
  if (has_captures()) AddPaceFlags();
  AddThreads();
  AddIsolation();
  flags_.Switch("pin", options_.real.pin,
                "each thread keeps to a CPU of its own");
  if (has_captures()) {
    flags_.Switch("preload", options_.preload,
                  "read all of the capture before it runs");
    flags_.Count("loop", options_.loop, 1, std::numeric_limits<uint32_t>::max(),
                 "replay it so often, as one long capture; it is preloaded");
  }
  flags_.Switch("watch", options_.watch,
                "show how the run stands: as a screen where stderr is a "
                "terminal, else in a line every 2 s");
  flags_.Count("metrics_port", metrics_port_, 0, 65'535,
               "tell Prometheus how it stands, on "
               "http://127.0.0.1:COUNT/metrics; 0: nowhere");
}

void ReplayFlags::AddPaceFlags() {
  flags_.Choice("clock", clock_,
                {{"virtual",
                  "the capture's: units, hops and starts take the "
                  "times that flags give"},
                 {"real",
                  "the machine's: threads and rings take the time that they "
                  "take, units what flags give"}},
                "whose time it is:");
  flags_.Custom(
      "speed", "SPEED",
      "how fast packets come: 1x (at the capture's own gaps), 0.5x, 2Gbps, "
      "100kpps, or max",
      [this](const std::string& text) {
        const absl::StatusOr<Speed> speed = ParseSpeed(text);
        if (speed.ok()) options_.real.speed = *speed;
        return speed.status();
      },
      [this] { return FormatSpeed(options_.real.speed); });
  flags_.Choice("overload", overload_,
                {{"auto", "wait at speed max, else drop"},
                 {"wait", "it waits, and those behind it"},
                 {"drop", "it is dropped, and counted"}},
                "what becomes of a packet for which there is no room:");
}

void ReplayFlags::AddThreads() {
  flags_.Custom(
      "threads", "auto|COUNT",
      fmt::format("threads, the controller's among them and, with "
                  "--loggers=on, of three or more one of the loggers, 1 to {}; "
                  "auto: as many as CPUs",
                  RealOptions::kMaxThreads),
      [this](const std::string& text) {
        options_.real.threads = 0;
        if (text == "auto") return absl::OkStatus();
        uint32_t threads = 0;
        const char* const end = text.data() + text.size();
        const auto parsed = std::from_chars(text.data(), end, threads);
        if (parsed.ec != std::errc() || parsed.ptr != end || threads == 0 ||
            threads > RealOptions::kMaxThreads) {
          return absl::InvalidArgumentError(
              fmt::format("\"{}\" is neither auto nor from 1 to {}", text,
                          RealOptions::kMaxThreads));
        }
        options_.real.threads = threads;
        return absl::OkStatus();
      },
      [this] {
        return options_.real.threads == 0
                   ? "auto"
                   : std::to_string(options_.real.threads);
      });
}

void ReplayFlags::AddIsolation() {
  flags_.Choice("isolation", isolation_,
                {{"thread", "threads of one process"},
                 {"process",
                  "a process for each thread but the controller's, and with "
                  "--loggers=on one for all output loggers, which all share "
                  "the memory in which packets are, and nothing else"},
                 {"lxc",
                  "such processes in containers, which see nothing of the "
                  "machine; as root"}},
                "what units and loggers are:");
  flags_.Count(
      "warm_pool", warm_pool_, 0, UnitStarts::kMostProcesses,
      fmt::format("processes that are there, parked, for the next units that "
                  "start, at least (up to {} times as many while many start). "
                  "Processes of units then come and go, up to {}, one a unit; "
                  "not with --threads, --pin, --keep or controllers that "
                  "fail, where they stay",
                  WarmPool::kMostTimes, UnitStarts::kMostProcesses));
}

}  // namespace snf
