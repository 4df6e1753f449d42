// SPDX-License-Identifier: Apache-2.0
#include "platform/options/state_flags.h"

#include <algorithm>
#include <string>

#include "platform/options/store_flag.h"

namespace snf {
namespace {

constexpr Nanos kMaxPushDelay = Seconds(10);
// A state with a queue on its way comes so much later than one without.
constexpr Nanos kPushMargin = Microseconds(180);
// Drivers that are used without flags push whole states.
constexpr uint32_t kPushBases = 65'536;

}  // namespace

StateFlags::StateFlags(RunFlagSet& set) : set_(set) {
  set_.flags.Heading("State, which follows flowlets from unit to unit");
  AddMode();
  AddStore();
  AddReplicas();
  if (set_.has_captures) AddModel();
  AddQueues();
}

void StateFlags::AddMode() {
  set_.flags.Choice(
      "state", set_.request.run.state,
      {{"proactive", "it is pushed there ahead, or else pulled"},
       {"reactive", "it is pulled from the flow's previous unit"},
       {"external",
        "it is read from a store outside of units, and written there once the "
        "flow has been idle for half of flowlet_timeout"}},
      "how the state of a flow gets to the unit of its next flowlet:");
}

void StateFlags::AddStore() {
  FlagSet& flags = set_.flags;
  flags.Text("redis", set_.request.real.redis, "ADDRESS",
             "the store of --state=external in real time: unix:/PATH or "
             "HOST:PORT of a Redis. Without it, the run starts a redis-server "
             "of its own, and ends it");
  StoreOptions& store = set_.request.run.store;
  flags.Custom(
      "store", "'KEY=VALUE …'",
      "of --state=external: poll=50us is the time until a state that is not in "
      "the store yet is asked for again; timeout=10ms is the time until a "
      "request is repeated; patience=1s is the time without any answer after "
      "which packets are dropped. In virtual time also the model of the "
      "server: round_trips (five: the least, p50, p90, p99, p99.9), operation "
      "and threads, as snf bench --rows=14 measures them",
      [&store](const std::string& text) {
        const absl::StatusOr<StoreOptions> parsed = ParseStore(text);
        if (parsed.ok()) store = *parsed;
        return parsed.status();
      },
      [&store] { return FormatStore(store); });
}

void StateFlags::AddReplicas() {
  FlagSet& flags = set_.flags;
  ControllerOptions& c = set_.request.run.controller;
  flags
      .Count("replicas", c.replicas, 0, kMaxReplicas,
             "units that a flow's state is pushed to ahead of its next "
             "flowlet, when it has been idle for half of flowlet_timeout")
      .may_change = true;
  flags.Choice(
      "replica_choice", c.replica_choice,
      {{"likely",
        "as many as the chance that the flow moves is worth, at the other end "
        "of the units"},
       {"weighted", "at random, preferably those of low ids"},
       {"deterministic", "those of the lowest ids"},
       {"none", "none: state is pulled when it is missed"}},
      "which units a flow's state is pushed to:");
  flags.Fraction("replica_chance", c.replica_chance_65536, 65'536,
                 "with replica_choice=likely: the least chance of use that is "
                 "worth a push");
  flags
      .Duration("push_delay", c.push_delay, Nanos{0}, kMaxPushDelay,
                "time after a push at which placement counts on the replica; "
                "no packet is delayed. If not given, it is state_delay + "
                "180us")
      .may_change = true;
}

void StateFlags::AddModel() {
  FlagSet& flags = set_.flags;
  RunOptions& run = set_.request.run;
  flags.Duration("state_delay", run.state_delay, Nanos{0}, Seconds(10),
                 "time that a state takes from unit to unit, besides that for "
                 "its bytes");
  flags.BitRate("state_bandwidth", run.state_bandwidth_bps, 1'000,
                1'000'000'000'000,
                "rate at which the bytes of a state go from unit to unit");
}

void StateFlags::AddQueues() {
  FlagSet& flags = set_.flags;
  RunOptions& run = set_.request.run;
  flags.Duration("state_retry", run.state_retry, Microseconds(1),
                 UnitOptions::kMaxRetryDelay,
                 "a message about state without an answer is repeated after so "
                 "long, then after twice as long, and so on");
  flags.Count("hold_queue", run.hold_packets, 1, 1u << 20,
              "packets that may wait for state at a unit; further ones are "
              "dropped");
  flags.Count("max_replicas", run.max_replicas, 1, 1u << 24,
              "replicas kept at a unit; the oldest is evicted for a new one");
  run.push_bases = kPushBases;
  flags.Count("push_bases", run.push_bases, 0, 1u << 20,
              "flows whose last pushed state a unit keeps, in 4 MiB at most: "
              "the next push to the same unit has only what changed since. 0: "
              "each push is whole");
  flags.Duration(
      "table_period", run.table_period, Microseconds(100), Seconds(3'600),
      "period at most once in which a unit sends its writes into shared "
      "tables, and receives those of others. A reader sees an update after "
      "two periods and the time on the way. A unit that does not read them "
      "receives updates once in 100 periods");
}

absl::Status StateFlags::CheckStore() const {
  const RunRequest& request = set_.request;
  const StateMode state = request.run.state;
  const bool is_external = state == StateMode::kExternal;
  return set_.Check(
      {{.flags = {"redis", "store"},
        .with = "state",
        .when = !is_external,
        .because = "only external has a store"},
       {.flags = {"state"},
        .with = "controllers",
        .when = is_external && set_.given("controllers"),
        .because = "a store has a single controller"},
       {.flags = {"state"},
        .with = "isolation",
        .when = is_external && request.real.isolation != Isolation::kThread,
        .because = "only units in threads of one process have a store"},
       {.flags = {"loggers"},
        .with = "state",
        .when = is_external && request.run.loggers && request.is_real_time,
        .because = "in real time, units with a store have no loggers"},
       {.flags = {"faults"},
        .with = "state",
        .when = is_external,
        .because = "the requests of a failed unit to its store are not undone "
                   "yet"},
       {.flags = {"replicas", "replica_choice", "replica_chance", "push_delay",
                  "max_replicas", "push_bases"},
        .with = "state",
        .when = state != StateMode::kProactive,
        .because = "only proactive has replicas"}});
}

absl::Status StateFlags::Check() const {
  if (absl::Status s = CheckStore(); !s.ok()) return s;
  const RunOptions& run = set_.request.run;
  const ControllerOptions& c = run.controller;
  const bool has_no_choice = c.replica_choice == ReplicaChoice::kNone;
  const bool has_none = c.replicas == 0;
  return set_.Check(
      {{.flags = {"replicas"},
        .with = "max_units",
        .when = c.replicas >= c.max_units,
        .because = "a flow has at most one replica at each other unit"},
       {.flags = {"replicas"},
        .with = "replica_choice",
        .when = set_.given("replica_choice") && has_none != has_no_choice,
        .because = has_none ? "there are no replicas to choose units for"
                            : "without a choice there are no replicas"},
       {.flags = {"push_delay", "max_replicas", "push_bases"},
        .with = has_no_choice ? "replica_choice" : "replicas",
        .when = has_none || has_no_choice,
        .because = "there are no replicas"},
       {.flags = {"hold_queue"},
        .with = "unit_queue",
        .when = run.hold_packets > c.unit_queue_packets,
        .because = "packets that wait for state are a part of the queue"}});
}

void StateFlags::Settle() {
  RunOptions& run = set_.request.run;
  ControllerOptions& c = run.controller;
  if (run.state != StateMode::kProactive) {
    c.replica_choice = ReplicaChoice::kNone;
  }
  c.replica_chance_65536 = std::max(c.replica_chance_65536, 1u);
  c.replicas = c.replica_choice == ReplicaChoice::kNone
                   ? 0
                   : std::min(c.replicas, c.max_units - 1);
  if (!set_.given("push_delay")) {
    c.push_delay =
        std::min(Nanos{run.state_delay.ns + kPushMargin.ns}, kMaxPushDelay);
  }
  run.hold_packets = std::min(run.hold_packets, c.unit_queue_packets);
}

}  // namespace snf
