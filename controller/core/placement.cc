// SPDX-License-Identifier: Apache-2.0
#include "controller/core/placement.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace snf {
namespace {

__extension__ using Wide = unsigned __int128;

// Returns the fullest unit that has room for the demand, or kNoUnit.
UnitId FullestWithRoom(const PlacementRequest& request, const UnitPool& units) {
  return request.demand <= units.limit()
             ? units.FullestAtMost(units.limit() - request.demand)
             : kNoUnit;
}

// Returns the unit of the highest score, of equals the lowest id, or kNoUnit if
// none has room. Of the units without the flow's state only the fullest with
// room can win. On each host that has the state, only the owner and the fullest
// with room can. So at most 2K + 3 scores are compared, however many units
// there are.
UnitId BestWithRoom(const PlacementRequest& request, UnitId fullest,
                    const UnitPool& units) {
  UnitId best = fullest;
  int64_t best_score =
      best == kNoUnit ? -1 : PlacementScore(request, best, units);
  const auto compare = [&](UnitId unit) {
    if (unit == fullest || !units.placeable(unit)) return;
    const int64_t score = PlacementScore(request, unit, units);
    if (score > best_score ||
        (score >= 0 && score == best_score && value(unit) < value(best))) {
      best = unit;
      best_score = score;
    }
  };
  const bool has_hosts =
      units.hosts().units_per_host() > 1 && request.demand <= units.limit();
  const auto compare_host_of = [&](UnitId unit) {
    compare(unit);
    if (!has_hosts) return;
    const UnitId other =
        units.FullestOnHostOf(unit, units.limit() - request.demand);
    if (other != kNoUnit) compare(other);
  };
  if (request.owner != kNoUnit) compare_host_of(request.owner);
  for (const UnitId unit : request.replicas.span()) compare_host_of(unit);
  units.ForEachPart(compare);
  return best;
}

// Returns true if the flowlet is better off behind its flow's last packet than
// at another unit, where it would be held until that packet is done
// (proto/decisions.md 33). The last
// packet probably still waits at the owner if it came less than the owner's
// present wait ago. An owner that is far behind is left all the same, so that
// the flow shares the next unit with fewer others, unless it asks for more than
// all flowlets that are open there: then the others leave. A flow that asks for
// more than a unit is fastest where it is.
bool StaysInLine(const PlacementRequest& request, const UnitPool& units) {
  const UnitId owner = request.owner;
  if (request.gap == Nanos::max() || owner == kNoUnit ||
      !units.placeable(owner)) {
    return false;
  }
  const uint32_t load = units.load(owner);
  return units.WaitOf(load) > request.gap &&
         (load <= 2 * kFullLoad || units.open_flowlets(owner) == 0 ||
          units.open_demand_bps(owner) < request.demand_bps);
}

// Records that the unit is needed, if no other has room for the demand.
void MarkIfNeeded(Instant now, UnitId unit, UnitId fullest, UnitPool& units) {
  if (!units.HasOther(fullest, unit)) units.MarkNeeded(now, unit);
}

// Places by the paper's weighted greedy bin packing (SNF §4.2, Pseudocode 1;
// proto/protocol.md §2.2-2.4).
Placement Pack(Instant now, const PlacementRequest& request, UnitPool& units,
               ControllerOut& out) {
  if (StaysInLine(request, units)) {
    return {.unit = request.owner,
            .overcommitted = PlacementScore(request, request.owner, units) < 0};
  }
  // One search serves all: two more took 140 instructions a flowlet.
  const UnitId fullest = FullestWithRoom(request, units);
  const UnitId best = BestWithRoom(request, fullest, units);
  if (best == kNoUnit) return PlaceBeyond(now, request, units, out);
  MarkIfNeeded(now, best, fullest, units);
  return {.unit = best};
}

// Places the flowlet at `unit`, whatever its load, or at kNoUnit if it is
// stopping. A flow that stays at its owner counts as kept, not as a decision.
Placement PlaceAt(Instant now, const PlacementRequest& request, UnitId unit,
                  UnitPool& units, ControllerOut& out) {
  if (!units.Use(now, unit, out)) return {};
  units.MarkNeeded(now, unit);
  return {.unit = unit,
          .overcommitted = PlacementScore(request, unit, units) < 0,
          .kept = unit == request.owner};
}

// Places the flowlet where the flow's last packet ran. A flow that is new, or
// whose unit is stopping, is packed.
Placement Stay(Instant now, const PlacementRequest& request, UnitPool& units,
               ControllerOut& out) {
  if (request.owner != kNoUnit) {
    const Placement placement =
        PlaceAt(now, request, request.owner, units, out);
    if (placement.unit != kNoUnit) return placement;
  }
  return Pack(now, {.demand = request.demand}, units, out);
}

uint32_t UnitByHash(const PlacementRequest& request, const UnitPool& units) {
  return static_cast<uint32_t>(Wide{request.key_hash} * units.first_spare() >>
                               64);
}

// Places the flowlet at `unit` or, if that is stopping, at the first one after
// it that is not.
Placement PlaceInTurn(Instant now, const PlacementRequest& request,
                      uint32_t unit, UnitPool& units, ControllerOut& out) {
  for (uint32_t tried = 0; tried < units.first_spare(); ++tried) {
    const Placement placement =
        PlaceAt(now, request, UnitId{static_cast<uint16_t>(unit)}, units, out);
    if (placement.unit != kNoUnit) return placement;
    unit = unit + 1 < units.first_spare() ? unit + 1 : 0;
  }
  return {};
}

// SNF §4.2.
class SnfPolicy final : public PlacementPolicy {
 public:
  std::string_view name() const override { return "snf"; }
  std::string_view help() const override {
    return "weighted greedy bin-packing of flowlets";
  }
  bool by_score() const override { return true; }
  Placement Place(Instant now, const PlacementRequest& request, UnitPool& units,
                  ControllerOut& out) const override {
    return Pack(now, request, units, out);
  }
};

// One decision for a flow's life.
class VanillaFlowPolicy final : public PlacementPolicy {
 public:
  std::string_view name() const override { return "vanilla_flow"; }
  std::string_view help() const override {
    return "bin-packing of flows: each flow stays on its first unit";
  }
  bool moves_flows() const override { return false; }
  Placement Place(Instant now, const PlacementRequest& request, UnitPool& units,
                  ControllerOut& out) const override {
    return Stay(now, request, units, out);
  }
};

// Decides at a flow's first flowlet in each reassign_period (SNF §9.1).
class SmartFlowPolicy final : public PlacementPolicy {
 public:
  std::string_view name() const override { return "smart_flow"; }
  std::string_view help() const override {
    return "bin-packing of flows; each flow is placed again every "
           "reassign_period";
  }
  Placement Place(Instant now, const PlacementRequest& request, UnitPool& units,
                  ControllerOut& out) const override {
    if (!request.new_period) return Stay(now, request, units, out);
    PlacementRequest owner_only = request;
    owner_only.replicas.count = 0;
    return Pack(now, owner_only, units, out);
  }
};

// As snf, with flowlets of one packet (NFOS).
class PerPacketPolicy final : public PlacementPolicy {
 public:
  std::string_view name() const override { return "per_packet"; }
  std::string_view help() const override {
    return "bin-packing of single packets";
  }
  bool per_packet() const override { return true; }
  bool by_score() const override { return true; }
  Placement Place(Instant now, const PlacementRequest& request, UnitPool& units,
                  ControllerOut& out) const override {
    return Pack(now, request, units, out);
  }
};

// As RSS does.
class HashPolicy final : public PlacementPolicy {
 public:
  std::string_view name() const override { return "hash"; }
  std::string_view help() const override {
    return "by the hash of the flow, over all max_units units";
  }
  bool moves_flows() const override { return false; }
  Placement Place(Instant now, const PlacementRequest& request, UnitPool& units,
                  ControllerOut& out) const override {
    return PlaceInTurn(now, request, UnitByHash(request, units), units, out);
  }
};

// Never runs two packets of a flow in a row at the same unit, which every NF
// must withstand.
class RotatePolicy final : public PlacementPolicy {
 public:
  std::string_view name() const override { return "rotate"; }
  std::string_view help() const override {
    return "each packet to the next unit, to stress-test an NF";
  }
  bool per_packet() const override { return true; }
  Placement Place(Instant now, const PlacementRequest& request, UnitPool& units,
                  ControllerOut& out) const override {
    const uint32_t count = units.first_spare();
    const uint32_t unit = request.owner == kNoUnit
                              ? UnitByHash(request, units)
                              : (value(request.owner) + 1u) % count;
    return PlaceInTurn(now, request, unit, units, out);
  }
};

// All policies; none is ever removed.
std::vector<const PlacementPolicy*>& AllPolicies() {
  static const SnfPolicy kSnf;
  static const VanillaFlowPolicy kVanillaFlow;
  static const SmartFlowPolicy kSmartFlow;
  static const PerPacketPolicy kPerPacket;
  static const HashPolicy kHash;
  static const RotatePolicy kRotate;
  // Never destroyed, as policies of modules are not.
  static auto& known = *new std::vector<const PlacementPolicy*>{
      &kSnf, &kVanillaFlow, &kSmartFlow, &kPerPacket, &kHash, &kRotate};
  return known;
}

}  // namespace

bool HasState(const PlacementRequest& request, UnitId unit,
              const UnitPool& units) {
  const auto shares = [&](UnitId other) {
    return units.hosts().Share(unit, other);
  };
  return (request.owner != kNoUnit && shares(request.owner)) ||
         std::ranges::any_of(request.replicas.span(), shares);
}

int64_t PlacementScore(const PlacementRequest& request, UnitId unit,
                       const UnitPool& units) {
  const uint32_t load = units.load(unit);
  const uint32_t demand = units.QuantaAt(unit, request.demand);
  if (unit == request.owner) {
    const bool has_replicas = request.replicas.count > 0;
    if (load + demand > units.limit_of_owner(has_replicas)) return -1;
    return int64_t{load} + request.alpha + request.owner_alpha;
  }
  if (load + demand > units.limit()) return -1;
  return int64_t{load} + (HasState(request, unit, units) ? request.alpha : 0);
}

Placement PlaceBeyond(Instant now, const PlacementRequest& request,
                      UnitPool& units, ControllerOut& out) {
  if (const UnitId open = units.Reopen(now); open != kNoUnit) {
    return {.unit = open,
            .overcommitted = PlacementScore(request, open, units) < 0};
  }
  if (const UnitId warm = units.TakeWarm(now, out); warm != kNoUnit) {
    return {.unit = warm};
  }
  if (units.placeable_units() == 0) {
    // The flowlet waits in the channel of a unit that is not ready yet.
    UnitId unit = units.UseStarting(now);
    if (unit == kNoUnit) unit = units.StartStopped(now, out);
    return {.unit = unit != kNoUnit ? unit : units.UseFailed(now)};
  }
  // Start as many units as the load needs, not one for every flowlet that comes
  // while the first is starting.
  const uint64_t there =
      uint64_t{units.placeable_units() + units.starting_units()} * kFullLoad;
  if (units.starting_units() == 0 ||
      units.total_load() + request.demand > there) {
    units.StartStopped(now, out);
  }
  return {.unit = units.LeastLoaded(), .overcommitted = true};
}

Placement PlaceAtChoice(Instant now, const PlacementRequest& request,
                        UnitId unit, UnitPool& units) {
  MarkIfNeeded(now, unit, FullestWithRoom(request, units), units);
  return {.unit = unit,
          .overcommitted = PlacementScore(request, unit, units) < 0};
}

std::span<const PlacementPolicy* const> PlacementPolicies() {
  return AllPolicies();
}

const PlacementPolicy* AddPlacementPolicy(
    std::unique_ptr<const PlacementPolicy> policy) {
  AllPolicies().push_back(policy.release());
  return AllPolicies().back();
}

const PlacementPolicy* FindPlacementPolicy(std::string_view name) {
  for (const PlacementPolicy* policy : PlacementPolicies()) {
    if (policy->name() == name) return policy;
  }
  return nullptr;
}

}  // namespace snf
