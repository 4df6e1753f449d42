// SPDX-License-Identifier: Apache-2.0
#include "platform/options/flow_flags.h"

#include <algorithm>

#include "base/keyed_hash.h"
#include "controller/core/placement.h"
#include "controller/policies/policy_module.h"
#include "platform/run/early_fragments.h"

namespace snf {

FlowFlags::FlowFlags(RunFlagSet& set) : set_(set) {
  FlagSet& flags = set_.flags;
  ControllerOptions& c = set_.request.run.controller;
  flags.Heading("Flows, flowlets and where they go");
  flow_key_.Add(flags, "packets of one flow have in common:");
  flags
      .Duration("flowlet_timeout", c.flowlet_timeout, Nanos{1}, Seconds(10),
                "a longer gap between packets of a flow begins a new flowlet")
      .may_change = true;
  flags
      .Bytes("flowlet_bytes", c.flowlet_bytes, 1, 1'000'000'000,
             "a packet that would make a flowlet longer begins a new one")
      .may_change = true;
  flags
      .DurationOrInfinity("flow_timeout", c.flow_timeout, Microseconds(1),
                          "a flow without packets for so long is forgotten")
      .may_change = true;
  flags.Count("max_flows", c.max_flows, 1, 1u << 28,
              "flows at one time; packets of further flows are dropped");
  flags.Count(
      "early_fragments", set_.request.run.early_fragments, 0,
      kMaxEarlyFragments,
      "before an NF that needs a packet's first fragment, later ones that are "
      "kept until it comes, for 1 s at most; more are treated as if it never "
      "came (not with several controllers)");
  flags
      .DurationOrInfinity("evict_after", c.evict_after, Nanos{0},
                          "when the flow table is full, evict a flow that has "
                          "been idle for so long")
      .may_change = true;
  AddPlacement();
  AddDemand();
  AddLoad();
}

void FlowFlags::AddPlacement() {
  FlagSet& flags = set_.flags;
  ControllerOptions& c = set_.request.run.controller;
  std::vector<FlagSet::Meaning> policies;
  for (const PlacementPolicy* policy : PlacementPolicies()) {
    policies.push_back({.choice = std::string(policy->name()),
                        .what = std::string(policy->help())});
  }
  flags.Custom(
      "policy", "NAME|FILE.so",
      "how flowlets are placed on units; a policy of your own is the file of a "
      "module, which snf policy new begins:",
      [this](const std::string& text) {
        const auto policy = ChoosePolicy(text);
        if (!policy.ok()) return policy.status();
        placement_ = *policy;
        policy_ = text;
        return absl::OkStatus();
      },
      [this] { return policy_; }, policies);
  flags
      .Duration("reassign_period", c.reassign_period, Microseconds(1),
                Seconds(86'400), "period of the policy smart_flow")
      .may_change = true;
  flags
      .Fraction("alpha", c.alpha_1024, 1024,
                "weight of a unit's having the flow's state against its "
                "utilisation")
      .may_change = true;
}

void FlowFlags::AddDemand() {
  FlagSet& flags = set_.flags;
  ControllerOptions& c = set_.request.run.controller;
  flags
      .Fraction("ewma_delta", c.ewma_delta_65536, 65'536,
                "weight of the last flowlet's measured rate in the estimate "
                "of the next")
      .may_change = true;
  flags.Choice("demand", c.demand_rule,
               {{"floor", "over its duration, but at least demand_floor"},
                {"burst", "over its duration, however short"}},
               "a flowlet's rate is that of its bytes:");
  flags
      .Duration("demand_floor", c.demand_floor, Nanos{1}, Seconds(10),
                "the shortest time over which a rate is measured")
      .may_change = true;
  flags.BitRate("first_demand", c.first_demand_bps, 1'000, 1'000'000'000'000,
                "demand of a flow's first flowlet before any was measured; "
                "it counts as much as 100 measured ones",
                "1% of unit_capacity");
}

void FlowFlags::AddLoad() {
  FlagSet& flags = set_.flags;
  ControllerOptions& c = set_.request.run.controller;
  flags.Choice("load_signal", c.load_signal,
               {{"wait",
                 "the time that a packet would wait there; units are filled "
                 "as latency_target allows"},
                {"demand",
                 "the larger of its drained rate over the window and the "
                 "demand of its open flowlets, plus the packets that wait "
                 "there"},
                {"drained", "its drained rate over the window, alone"}},
               "a unit's load is:");
  flags.Duration("latency_target", c.latency_target, Microseconds(1),
                 Seconds(10),
                 "with load_signal=wait: 99 % of the packets are to wait no "
                 "longer at their unit");
  flags.Duration("load_bucket", c.load_bucket, Microseconds(1), Seconds(1),
                 "a unit's load is measured over a sliding window of buckets, "
                 "each of this width");
  flags.Count("load_buckets", c.load_buckets, 1, 10'000,
              "buckets in the window of --load_bucket: the window is that many "
              "times as wide");
}

void FlowFlags::SettlePolicies(const std::vector<std::string>& compared) {
  std::vector<std::string>& policies = set_.request.policies;
  policies = {std::string(placement_->name())};
  for (const std::string& policy : compared) {
    if (policy != policies.front()) policies.push_back(policy);
  }
}

absl::Status FlowFlags::Check() const {
  const ControllerOptions& c = set_.request.run.controller;
  if (c.flow_timeout <= c.flowlet_timeout) {
    return set_.AtOdds("flow_timeout", "flowlet_timeout",
                       "a flow must outlive its flowlets");
  }
  const std::vector<std::string>& policies = set_.request.policies;
  const bool any_smart = std::ranges::count(policies, "smart_flow") > 0;
  const bool is_per_packet =
      policies.size() == 1 &&
      FindPlacementPolicy(policies.front())->per_packet();
  return set_.Check({{.flags = {"reassign_period"},
                      .with = "policy",
                      .when = !any_smart,
                      .because = "only smart_flow has a period"},
                     {.flags = {"flowlet_bytes"},
                      .with = "policy",
                      .when = is_per_packet,
                      .because = "each packet is a flowlet of its own"}});
}

void FlowFlags::Settle() {
  RunOptions& run = set_.request.run;
  run.flow.kind = flow_key_.kind();
  run.flow.vlan = flow_key_.vlan();
  // A sender in the real world must not be able to aim at the tables.
  ControllerOptions& c = run.controller;
  c.hash_seed =
      set_.request.is_real_time && !set_.given("seed") ? SecretSeed() : c.seed;
  run.flow.fragments.hash_seed = c.hash_seed;
}

}  // namespace snf
