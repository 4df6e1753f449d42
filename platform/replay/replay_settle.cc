// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/keyed_hash.h"
#include "controller/core/placement.h"
#include "platform/explain/decision_log.h"
#include "platform/process/command_files.h"
#include "platform/process/version.h"
#include "platform/replay/replay_flags.h"
#include "platform/replay/side_by_side.h"
#include "platform/run/run_setup.h"
#include "platform/text/wording.h"
#include "traces/split_writer.h"

namespace snf {
namespace {

// A state with a queue on its way comes so much later than one without.
constexpr Nanos kPushMargin = Microseconds(180);

absl::Status Misuse(const std::string& message) {
  return absl::InvalidArgumentError(message);
}

// Returns true for stdin, a pipe and the like.
bool CanBeReadOnlyOnce(const std::string& file) {
  std::error_code ignored;
  const auto type = std::filesystem::status(file, ignored).type();
  return file == "-" || type == std::filesystem::file_type::fifo ||
         type == std::filesystem::file_type::character ||
         type == std::filesystem::file_type::socket;
}

// Returns true for a flag that says where output goes, so that proposals do not
// repeat it.
bool IsForOutput(std::string_view flag) {
  constexpr std::array<std::string_view, 12> kForOutput = {
      "out",   "annotate", "drops",   "json",  "csv",   "decisions",
      "usage", "explain",  "compare", "quiet", "watch", "metrics_port"};
  return std::ranges::find(kForOutput, flag) != kForOutput.end();
}

}  // namespace

absl::Status ReplayFlags::Settle() {
  SettlePolicies();
  SettleReal();
  NumberPorts(options_.ports);
  if (absl::Status s = CheckTogether(); !s.ok()) return s;
  if (has_captures() && options_.files.empty()) UseBundledCapture();
  SettleRun();
  if (absl::Status s = SettleChains(); !s.ok()) return s;
  if (absl::Status s = SettleController(); !s.ok()) return s;
  SettleFlags();
  // This makes more units than the flags say. Those of several controllers do
  // not fail.
  if (options_.run.faults.any() && options_.cluster.controllers == 1) {
    AddSpareUnits(options_.run.controller);
  }
  if (options_.run.faults.any()) PrepareForFailures(options_.run.controller);
  return absl::OkStatus();
}

std::string ReplayFlags::bundled_command() const {
  if (!is_bundled_) return "";
  const std::string flag =
      bundled_flag_.empty() ? "" : " " + flags_.Printed(bundled_flag_);
  return fmt::format("./snf replay {}{}", options_.files.front(), flag);
}

absl::Status ReplayFlags::AtOdds(const char* a, const char* b,
                                 const char* because) const {
  return Misuse(fmt::format("{} with {}: {}", flags_.Printed(a),
                            flags_.Printed(b), because));
}

absl::Status ReplayFlags::CheckTogether() const {
  if (!has_captures()) {
    if (absl::Status s = CheckPorts(options_.ports); !s.ok()) return s;
  }
  const ControllerOptions& c = options_.run.controller;
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
  if (absl::Status s = CheckStarts(); !s.ok()) return s;
  if (absl::Status s = CheckState(); !s.ok()) return s;
  if (absl::Status s = CheckPolicies(); !s.ok()) return s;
  if (absl::Status s = CheckReal(); !s.ok()) return s;
  if (absl::Status s = CheckLeases(); !s.ok()) return s;
  if (flags_.given("nf") && flags_.given("config")) {
    return AtOdds("nf", "config", "either says what to run");
  }
  if (absl::Status s = CheckWritten(); !s.ok()) return s;
  if (options_.json == "-" && options_.out == "-") {
    return AtOdds("json", "out", "both cannot be stdout");
  }
  return CheckReadOnce();
}

absl::Status ReplayFlags::CheckReadOnce() const {
  const bool has_a_pass = ExplainsAfterAPass(explain_);
  if (!has_a_pass && compare_.empty()) return absl::OkStatus();
  for (const std::string& file : options_.files) {
    if (!CanBeReadOnlyOnce(file)) continue;
    return Misuse(fmt::format(
        "{} with {}: it reads the capture more than once, which {} cannot",
        flags_.Printed(has_a_pass ? "explain" : "compare"), file,
        file == "-" ? "stdin" : "a pipe"));
  }
  return absl::OkStatus();
}

absl::Status ReplayFlags::CheckStarts() const {
  if (!flags_.given("start_timeout") || options_.real.unpaced) {
    return absl::OkStatus();
  }
  const Nanos timeout = options_.run.controller.start_timeout;
  if (options_.run.unit_start_delay >= timeout) {
    return AtOdds("start_timeout", "unit_start_delay",
                  "every start would fail");
  }
  if (options_.run.warm_start_delay >= timeout) {
    return AtOdds("start_timeout", "warm_start_delay",
                  "every start would fail");
  }
  return absl::OkStatus();
}

absl::Status ReplayFlags::CheckStore() const {
  const bool is_external = state_ == kExternal;
  for (const char* flag : {"redis", "store"}) {
    if (!flags_.given(flag) || is_external) continue;
    return AtOdds(flag, "state", "only external has a store");
  }
  if (is_external && flags_.given("controllers")) {
    return AtOdds("state", "controllers", "external is of a single controller");
  }
  if (is_external && isolation_ != 0) {
    return AtOdds("state", "isolation",
                  "external is of units in threads of one process");
  }
  if (is_external && loggers_ == 1 && clock_ == 1) {
    return AtOdds("loggers", "state",
                  "in real time, units with a store have no loggers");
  }
  if (is_external && flags_.given("faults")) {
    return AtOdds("faults", "state",
                  "what a unit had asked a store for is not taken back yet");
  }
  for (const char* flag : {"replicas", "replica_choice", "replica_chance",
                           "push_delay", "max_replicas"}) {
    if (!flags_.given(flag) || state_ == 0) continue;
    return AtOdds(flag, "state", "only proactive has replicas");
  }
  return absl::OkStatus();
}

absl::Status ReplayFlags::CheckState() const {
  if (absl::Status s = CheckStore(); !s.ok()) return s;
  const ControllerOptions& c = options_.run.controller;
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
      options_.run.hold_packets > c.unit_queue_packets) {
    return AtOdds("hold_queue", "unit_queue",
                  "what waits for state is a part of the queue");
  }
  return absl::OkStatus();
}

absl::Status ReplayFlags::CheckPolicies() const {
  const std::vector<std::string>& policies = options_.policies;
  const auto among = [&policies](const char* policy) {
    return std::ranges::find(policies, policy) != policies.end();
  };
  const bool has_loggers = loggers_ == 1;
  if (flags_.given("logger_delay") && !has_loggers) {
    return AtOdds("logger_delay", "loggers", "without loggers there is no way");
  }
  if (options_.run.chaos.meets_loggers() && !has_loggers) {
    return AtOdds("chaos", "loggers",
                  "without loggers there is no way to them");
  }
  if (options_.run.chaos.meets_leases() && options_.cluster.controllers == 1) {
    return AtOdds("chaos", "controllers", "a single controller leases nothing");
  }
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
  for (const char* flag :
       {"out", "drops", "csv", "decisions", "usage", "explain"}) {
    if (!flags_.given(flag)) continue;
    return AtOdds(flag, "compare", "it tells of one run alone");
  }
  return absl::OkStatus();
}

absl::Status ReplayFlags::CheckFaults() const {
  const FaultOptions& faults = options_.run.faults;
  if (loggers_ != 1 && faults.any()) {
    return AtOdds("faults", "loggers",
                  "without loggers what a unit has is lost with it");
  }
  if (absl::Status s = CheckMembers(); !s.ok()) return s;
  if (clock_ == 1 && isolation_ == 0 &&
      (faults.any_of_units() || faults.any_of_loggers())) {
    return AtOdds("faults", "isolation",
                  "in real time only processes of units and loggers can be "
                  "killed, no threads");
  }
  const bool any_manager =
      std::ranges::any_of(faults.kills, &Kill::is_of_manager);
  if (clock_ == 1 && any_manager && !options_.cluster.shared) {
    return AtOdds("faults", "leases",
                  "in real time controllers with units of their own have no "
                  "resource manager");
  }
  if (clock_ == 1 && !faults.changes.empty()) {
    return AtOdds("faults", "clock",
                  "in real time no controller joins or leaves so far");
  }
  if (flags_.given("recovery")) {
    return AtOdds("faults", "recovery",
                  "that thinks through deaths that do not happen");
  }
  const uint32_t units = options_.run.controller.max_units;
  for (const Kill& kill : faults.kills) {
    if (kill.unit == kNoUnit || value(kill.unit) < units) continue;
    return AtOdds("faults", "max_units",
                  fmt::format("there is no unit {}, the last one is {}",
                              value(kill.unit), units - 1)
                      .c_str());
  }
  return absl::OkStatus();
}

// Faults of controllers, where there are several.
absl::Status ReplayFlags::CheckMembers() const {
  const FaultOptions& faults = options_.run.faults;
  const uint32_t controllers = options_.cluster.controllers;
  const auto joins = static_cast<uint32_t>(
      std::ranges::count_if(faults.changes, &MemberChange::joins));
  const auto at_odds = [this](const char* why) {
    return AtOdds("faults", "controllers", why);
  };
  if (controllers == 1) {
    const bool has_number = std::ranges::any_of(
        faults.kills, [](const Kill& kill) { return kill.controller >= 0; });
    if (has_number || !faults.changes.empty()) {
      return at_odds("with a single one, no other joins, leaves or is named");
    }
    return std::ranges::any_of(faults.kills, &Kill::is_of_manager)
               ? at_odds("with a single one there is no resource manager")
               : absl::OkStatus();
  }
  if (faults.any_of_units() || faults.any_of_loggers()) {
    return at_odds("of several controllers, no units or loggers fail so far");
  }
  if (controllers + joins > ClusterOptions::kMostControllers) {
    return at_odds(fmt::format("{} and {} that join are more than the {} that "
                               "can be",
                               controllers, joins,
                               ClusterOptions::kMostControllers)
                       .c_str());
  }
  int most = -1;
  for (const Kill& kill : faults.kills) most = std::max(most, kill.controller);
  for (const MemberChange& change : faults.changes) {
    most = std::max(most, change.controller);
  }
  if (most >= static_cast<int>(controllers + joins)) {
    return at_odds(
        fmt::format("there is never a controller {}, the last one is "
                    "{}",
                    most, controllers + joins - 1)
            .c_str());
  }
  return absl::OkStatus();
}

absl::Status ReplayFlags::CheckLeases() const {
  if (options_.cluster.controllers == 1) {
    if (!flags_.given("leases")) return absl::OkStatus();
    return AtOdds("leases", "controllers",
                  "a single controller has its units to itself");
  }
  for (const char* flag :
       {"config", "compare", "explain", "decisions", "warm_up", "annotate",
        "recovery", "warm_units", "warm_start_delay", "start_timeout",
        "unit_idle_timeout"}) {
    if (!flags_.given(flag)) continue;
    return AtOdds(flag, "controllers", "several controllers do not have that");
  }
  constexpr uint32_t kControllersPerUnit = 7;
  const uint32_t most = options_.run.controller.max_units * kControllersPerUnit;
  if (leases_ == 0 && options_.cluster.controllers > most) {
    return AtOdds(
        "controllers", "max_units",
        fmt::format("at most {} can each have an eighth of a unit and "
                    "some headroom",
                    most)
            .c_str());
  }
  if (clock_ == 1) return CheckLeasesInRealTime();
  if (options_.run.chaos.start_failure_65536 > 0) {
    return AtOdds("chaos", "controllers",
                  "starts that fail are of a single controller");
  }
  constexpr Nanos kMostHop = Milliseconds(1);
  if (options_.run.hop_delay > kMostHop) {
    return AtOdds("hop_delay", "controllers",
                  "leases go by messages of 1 ms at the most");
  }
  if (leases_ != 0 && uint64_t{options_.cluster.controllers} *
                              options_.run.controller.max_units >
                          kMaxUnits) {
    return AtOdds("leases", "max_units",
                  fmt::format("independent controllers have more than {} units "
                              "in all",
                              kMaxUnits)
                      .c_str());
  }
  return absl::OkStatus();
}

bool ReplayFlags::has_warm_pool() const {
  return isolation_ != 0 && !options_.real.pin && !flags_.given("threads") &&
         !options_.run.faults.any_controller();
}

absl::Status ReplayFlags::CheckWarmPool() const {
  for (const char* flag : {"unit_start_delay", "warm_start_delay"}) {
    if (!has_warm_pool() || !flags_.given(flag)) continue;
    return AtOdds(flag, "isolation",
                  "processes take to start what they take; with --threads they "
                  "are there from the start");
  }
  if (!flags_.given("warm_pool")) return absl::OkStatus();
  if (isolation_ == 0) {
    return AtOdds("warm_pool", "isolation", "it is of processes");
  }
  if (options_.real.pin) {
    return AtOdds("warm_pool", "pin", "processes that come and go have no CPU");
  }
  if (options_.run.faults.any_controller()) {
    return AtOdds("warm_pool", "faults",
                  "where controllers fail, processes of units stay");
  }
  if (flags_.given("threads")) {
    return AtOdds("warm_pool", "threads", "as many processes as these stay");
  }
  return absl::OkStatus();
}

absl::Status ReplayFlags::CheckLeasesInRealTime() const {
  for (const char* flag : {"out", "drops", "isolation", "pin", "state", "redis",
                           "watch", "metrics_port"}) {
    if (!flags_.given(flag)) continue;
    return AtOdds(flag, "controllers",
                  "several controllers in real time do not have that yet");
  }
  return absl::OkStatus();
}

absl::Status ReplayFlags::CheckReal() const {
  if (clock_ == 1) {
    for (const char* flag :
         {"config", "compare", "explain", "decisions", "warm_up", "chaos",
          "recovery", "hop_delay", "state_delay", "state_bandwidth",
          "logger_delay"}) {
      if (!flags_.given(flag) || !has_captures()) continue;
      return AtOdds(flag, "clock", "only virtual time has that");
    }
    for (const char* flag : {"unit_start_delay", "warm_start_delay"}) {
      if (!options_.real.unpaced || !flags_.given(flag)) continue;
      return AtOdds(flag, "unit_capacity", "then units are ready at once");
    }
    if (options_.real.unpaced && flags_.given("unit_packets")) {
      return AtOdds("unit_packets", "unit_capacity",
                    "then units are as fast as they can be");
    }
    if (isolation_ != 0 && options_.real.threads == 1) {
      return AtOdds("isolation", "threads",
                    "a process of units is one of 2 or more");
    }
    if (absl::Status s = CheckWarmPool(); !s.ok()) return s;
    if (options_.watch && options_.quiet) {
      return AtOdds("watch", "quiet", "it is shown on stderr");
    }
    return absl::OkStatus();
  }
  for (const char* flag :
       {"redis", "speed", "overload", "threads", "isolation", "warm_pool",
        "pin", "preload", "loop", "watch", "metrics_port"}) {
    if (!flags_.given(flag)) continue;
    return AtOdds(flag, "clock", "only real time has that");
  }
  if (options_.real.unpaced) {
    return AtOdds("unit_capacity", "clock",
                  "in virtual time a packet would take no time");
  }
  return absl::OkStatus();
}

absl::Status ReplayFlags::CheckWritten() const {
  const std::array<WrittenFile, 5> written = {
      {{"--out", options_.out},
       {"--drops", options_.drops},
       {"--json", options_.json},
       {"--decisions", options_.decisions},
       {"--usage", options_.usage}}};
  if (absl::Status s = CheckCaptureName(written[0]); !s.ok()) return s;
  // Only pcapng can hold comments.
  if (options_.annotate && options_.out != "-" && !NamesPcapng(options_.out)) {
    return Misuse(
        "--annotate: wants --out=FILE.pcapng (or with .gz or .zst behind, or "
        "-): other formats hold no comments");
  }
  if (!options_.drops.empty() && !NamesPcapng(options_.drops)) {
    return Misuse(fmt::format(
        "--drops={}: its name has to end in .pcapng, or in that and .gz or "
        ".zst: other formats hold no comments",
        options_.drops));
  }
  if (!options_.decisions.empty() && !DecisionLog::Names(options_.decisions)) {
    return Misuse(
        fmt::format("--decisions={}: its name has to end in .csv or .jsonl, or "
                    "in one of these and .gz or .zst",
                    options_.decisions));
  }
  if (options_.usage == "-" && (options_.json == "-" || options_.out == "-")) {
    return Misuse("--usage=-: --json or --out is stdout already");
  }
  std::vector<std::string> read = options_.files;
  read.push_back(options_.config_file);
  if (absl::Status s = CheckFiles(read, written); !s.ok()) return s;
  for (const std::string& name : {options_.out, options_.drops}) {
    absl::Status s = SplitWriter::CheckAbsent(name, force_);
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

void ReplayFlags::UseBundledCapture() {
  is_bundled_ = true;
  std::error_code error;
  const std::filesystem::path near =
      std::filesystem::proximate(kBundledCapture, error);
  options_.files = {error ? kBundledCapture : near.string()};
  if (flags_.given("unit_capacity")) return;
  options_.run.controller.unit_capacity_bps = kBundledCaptureUnitBps;
  bundled_flag_ = "unit_capacity";
}

void ReplayFlags::SettlePolicies() {
  options_.policies = {std::string(PlacementPolicies()[policy_]->name())};
  for (const std::string& policy : compare_) {
    if (policy == options_.policies.front()) continue;
    options_.policies.push_back(policy);
  }
}

void ReplayFlags::SettleReal() {
  options_.is_real_time = clock_ == 1;
  options_.metrics_port = static_cast<uint16_t>(metrics_port_);
  RealOptions& real = options_.real;
  real.isolation = Isolation{static_cast<uint8_t>(isolation_)};
  if (has_warm_pool()) {
    real.warm_pool = std::min(warm_pool_, options_.run.controller.max_units);
  }
  real.wait_for_room = overload_ == 1 ||
                       (overload_ == 0 && real.speed.kind == Speed::Kind::kMax);
}

void ReplayFlags::SettleRun() {
  options_.run.flow.kind = flow_key_.kind();
  options_.run.flow.vlan = flow_key_.vlan();
  options_.run.loggers = loggers_ == 1;
  options_.cluster.shared = leases_ == 0;
  ControllerOptions& c = options_.run.controller;
  c.load_signal = LoadSignal{static_cast<uint8_t>(load_signal_)};
  c.demand_rule = DemandRule{static_cast<uint8_t>(demand_)};
  options_.run.state = StateMode{static_cast<uint8_t>(state_)};
  if (options_.run.state != StateMode::kProactive) {
    replica_choice_ = kNoReplicas;
  }
  c.replica_choice = ReplicaChoice{static_cast<uint8_t>(replica_choice_)};
  // What the real world sends must not be aimed at tables.
  c.hash_seed =
      options_.is_real_time && !flags_.given("seed") ? SecretSeed() : c.seed;
  options_.run.flow.fragments.hash_seed = c.hash_seed;
  c.replica_chance_65536 = std::max(c.replica_chance_65536, 1u);
  if (options_.real.unpaced) c.unit_capacity_bps = kMaxCapacityBps;
  // A buffer for every place in the queues, up to 2 GiB of them; pages that no
  // packet touches cost nothing.
  constexpr uint64_t kMaxBuffers = 1 << 20;
  options_.run.buffers.small = static_cast<uint32_t>(
      std::clamp<uint64_t>(uint64_t{c.max_units} * c.unit_queue_packets,
                           options_.run.buffers.small, kMaxBuffers));
  // Defaults give way to what was given.
  if (!flags_.given("start_timeout")) {
    const Nanos longest =
        std::max(options_.run.unit_start_delay, options_.run.warm_start_delay);
    c.start_timeout = std::max(c.start_timeout, Nanos{2 * longest.ns});
  }
  c.replicas = replica_choice_ == kNoReplicas
                   ? 0
                   : std::min(c.replicas, c.max_units - 1);
  if (!flags_.given("unit_idle_timeout")) {
    c.unit_idle_timeout =
        std::max(c.unit_idle_timeout, Nanos{2 * c.flowlet_timeout.ns});
  }
  if (!flags_.given("push_delay")) {
    c.push_delay = std::min(Nanos{options_.run.state_delay.ns + kPushMargin.ns},
                            kMaxPushDelay);
  }
  options_.run.hold_packets =
      std::min(options_.run.hold_packets, c.unit_queue_packets);
  c.warm_units = std::min(c.warm_units, c.max_units);
  c.start_buffer_packets =
      std::min(c.start_buffer_packets, c.unit_queue_packets);
}

absl::Status ReplayFlags::SettleChains() {
  Config& config = options_.config;
  const bool is_from_file = !options_.config_file.empty();
  if (is_from_file) {
    auto loaded = LoadConfig(options_.config_file, replaced_);
    if (!loaded.ok()) return loaded.status();
    config = *std::move(loaded);
    if (absl::Status s = SettleLiveChain(); !s.ok()) return s;
  } else {
    for (const auto& [name, text] : replaced_) {
      if (name.empty()) {
        options_.nf = text;
        continue;
      }
      return Misuse(
          fmt::format("there is no chain \"{}\": without --config, the only "
                      "one has no name",
                      Printable(name)));
    }
    absl::StatusOr<NfSpec> nf = NfSpec::Parse(options_.nf);
    const absl::Status status = nf.ok() ? nf->check() : nf.status();
    if (!status.ok()) {
      return Misuse(fmt::format("{}: {}", replaced_.empty() ? "--nf" : "chain",
                                std::string(status.message())));
    }
    config.chains.push_back({.name = options_.nf, .nf = *std::move(nf)});
    config.default_chain = 0;
  }
  bool has_sides = false;
  for (const Config::Chain& chain : config.chains) {
    has_sides |= chain.nf.create()->flow_scope() == FlowScope::kInsideEndpoint;
  }
  const char* const flag = is_from_file ? "config" : "nf";
  if (!has_sides && !options_.run.inside.empty()) {
    return AtOdds("inside", flag, "no NF tells inside from outside");
  }
  if (has_sides && options_.run.flow.kind != FlowKeyKind::kConnection) {
    return AtOdds("flow_key", flag, "flows are inside ends of connections");
  }
  if (options_.has_one_chain()) {
    options_.run = OptionsOf(config.chains.front(), options_.run);
  } else {
    for (const char* of_one : {"explain", "compare", "decisions", "usage",
                               "warm_up", "faults", "recovery"}) {
      if (!flags_.given(of_one)) continue;
      return AtOdds(of_one, "config", "it tells of one chain alone");
    }
  }
  const FaultOptions& faults = options_.run.faults;
  if (!faults.kills.empty() || !faults.changes.empty()) {
    // In real time tables lack what it had not sent (proto/protocol.md U12).
    const auto nf = config.chains.front().nf.create();
    for (const NetworkFunction::Part& part : nf->parts()) {
      if (part.nf->tables().empty() || clock_ == 1) continue;
      return AtOdds("faults", flag,
                    "what failed units wrote into shared tables is not "
                    "recovered");
    }
    if (absl::Status s = CheckFaults(); !s.ok()) return s;
  }
  auto explain = ParseExplain(explain_, {.kind = options_.run.flow.kind,
                                         .is_inside_end = has_sides,
                                         .nf_flag = flags_.Printed("nf")});
  if (!explain.ok()) return explain.status();
  options_.explain = *std::move(explain);
  return absl::OkStatus();
}

absl::Status ReplayFlags::SettleLiveChain() {
  if (has_captures()) return absl::OkStatus();
  if (!options_.has_one_chain()) {
    return Misuse(fmt::format(
        "--config={}: live traffic takes a single chain, without rules",
        options_.config_file));
  }
  const Config::Chain& chain = options_.config.chains.front();
  if (chain.max_units.has_value() && flags_.given("max_units")) {
    return AtOdds("max_units", "config", "either says how many");
  }
  if (chain.unit_capacity_bps.has_value()) options_.real.unpaced = false;
  options_.nf = chain.nf.text();
  return absl::OkStatus();
}

absl::Status ReplayFlags::SettleController() {
  const ControllerOf& controller = options_.controller;
  if (controller.count == 1) return absl::OkStatus();
  if (options_.run.state == StateMode::kExternal) {
    return AtOdds("controller", "state", "external is of a single controller");
  }
  for (const PortSpec& port : options_.ports) {
    if (port.kind == PortSpec::Kind::kPacket ||
        port.kind == PortSpec::Kind::kCapture) {
      continue;
    }
    return Misuse(fmt::format(
        "{} with --port {}: only packet sockets, and captures, can be shared",
        flags_.Printed("controller"), port.text()));
  }
  const auto example = options_.config.chains.front().nf.create();
  auto steering = Steering::Of(*example, controller);
  if (!steering.ok()) {
    return Misuse(fmt::format("{}: {}", flags_.Printed("controller"),
                              std::string(steering.status().message())));
  }
  for (PortSpec& port : options_.ports) port.steering = *steering;
  options_.run.controller.controller_id = static_cast<uint8_t>(controller.id);
  options_.real.controllers = controller.count;
  return absl::OkStatus();
}

void ReplayFlags::SettleFlags() {
  for (auto& [name, value] : flags_.values()) {
    const bool repeat =
        !IsForOutput(name) && (flags_.given(name) || name == bundled_flag_);
    options_.flags.push_back({.name = name, .value = value, .repeat = repeat});
  }
}

}  // namespace snf
