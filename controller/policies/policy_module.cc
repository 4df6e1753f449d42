// SPDX-License-Identifier: Apache-2.0
#include "controller/policies/policy_module.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/sdk/policy.h"
#include "runtime/sdk/nf_module.h"
#include "runtime/sdk/nf_module_file.h"
#include "runtime/sdk/nf_registry.h"

namespace snf {
namespace {

using Policies = std::vector<const PlacementPolicy*>;

absl::Status Bad(const std::string& what) {
  return absl::InvalidArgumentError(what);
}

// The placeable units of a pool.
class UnitsOfPool final : public PolicyUnits {
 public:
  explicit UnitsOfPool(const UnitPool& pool) : pool_(pool) {}

  uint32_t size() const override { return pool_.placeable_units(); }
  UnitId at(uint32_t place) const override { return pool_.Ranked(place); }
  bool Has(UnitId unit) const override {
    return value(unit) < pool_.max_units() && pool_.placeable(unit);
  }
  uint32_t load(UnitId unit) const override { return pool_.load(unit); }
  uint32_t open_flowlets(UnitId unit) const override {
    return pool_.open_flowlets(unit);
  }
  bool HasRoom(UnitId unit, const PolicyRequest& request) const override {
    return pool_.load(unit) + pool_.QuantaAt(unit, request.demand) <=
           pool_.limit();
  }
  UnitId FullestWithRoom(const PolicyRequest& request) const override {
    UnitId best = request.demand <= pool_.limit()
                      ? pool_.FullestAtMost(pool_.limit() - request.demand)
                      : kNoUnit;
    pool_.ForEachPart([&](UnitId part) {
      if (!HasRoom(part, request)) return;
      if (best == kNoUnit || load(part) > load(best) ||
          (load(part) == load(best) && value(part) < value(best))) {
        best = part;
      }
    });
    return best;
  }
  UnitId LeastLoaded() const override {
    return pool_.placeable_units() == 0 ? kNoUnit : pool_.LeastLoaded();
  }

 private:
  const UnitPool& pool_;
};

// A policy of a module.
class ModulePolicy final : public PlacementPolicy {
 public:
  explicit ModulePolicy(const PolicyRegistration& of)
      : of_(of), policy_(of.factory()) {}

  std::string_view name() const override { return of_.name; }
  std::string_view help() const override { return of_.help; }
  bool per_packet() const override { return policy_->per_packet(); }
  bool moves_flows() const override { return policy_->moves_flows(); }
  Placement Place(Instant now, const PlacementRequest& request, UnitPool& units,
                  ControllerOut& out) const override {
    const UnitsOfPool seen(units);
    const UnitId owner = request.owner;
    const UnitId unit = policy_->Choose(
        {.now = now,
         .demand = request.demand,
         .owner = owner,
         .replicas = request.replicas.span(),
         .alpha = request.alpha,
         .waits_at_owner = owner != kNoUnit && seen.Has(owner) &&
                           request.gap < units.WaitOf(units.load(owner)),
         .key_hash = request.key_hash},
        seen);
    return seen.Has(unit) ? PlaceAtChoice(now, request, unit, units)
                          : PlaceBeyond(now, request, units, out);
  }

 private:
  const PolicyRegistration& of_;
  const std::unique_ptr<const Policy> policy_;
};

// Makes the module's policies known.
absl::StatusOr<Policies> Load(const std::string& path) {
  absl::StatusOr<NfModuleFile> file = NfModuleFile::Open(path);
  if (!file.ok()) return file.status();
  const auto bytes = file->Read();
  if (!bytes.ok()) return bytes.status();
  const absl::StatusOr<NfAbi> abi = ReadNfAbi(*bytes);
  if (!abi.ok()) return abi.status();
  if (absl::Status s = CheckNfAbi(*abi, MakeNfAbi()); !s.ok()) return s;

  const size_t before = RegisteredPolicies().size();
  const CaughtNfs nfs;  // which are not wanted here
  if (absl::Status s = file->Load(); !s.ok()) return s;
  Policies added;
  for (size_t i = before; i < RegisteredPolicies().size(); ++i) {
    const PolicyRegistration& one = *RegisteredPolicies()[i];
    if (FindPlacementPolicy(one.name) != nullptr) {
      return Bad(absl::StrCat("has a policy \"", std::string(one.name),
                              "\", and there is one of that name"));
    }
    added.push_back(AddPlacementPolicy(std::make_unique<ModulePolicy>(one)));
  }
  if (added.empty()) return Bad("registers no policy");
  return added;
}

absl::StatusOr<const PlacementPolicy*> LoadPolicyModule(
    const std::string& file) {
  // By the file's path without symbolic links.
  static std::map<std::string, Policies> loaded;
  const auto named = [&file](const absl::Status& status) {
    return Bad(absl::StrCat(file, ": ", std::string(status.message())));
  };
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(file, error);
  if (error) return named(Bad(error.message()));
  auto found = loaded.find(path);
  if (found == loaded.end()) {
    absl::StatusOr<Policies> policies = Load(path);
    if (!policies.ok()) return named(policies.status());
    found = loaded.emplace(path, *std::move(policies)).first;
  }
  const Policies& policies = found->second;
  if (policies.size() == 1) return policies.front();
  std::string names;
  for (const PlacementPolicy* policy : policies) {
    if (policy->name() == std::filesystem::path(file).stem().string()) {
      return policy;
    }
    absl::StrAppend(&names, names.empty() ? "" : ", ",
                    std::string(policy->name()));
  }
  return named(Bad(absl::StrCat(
      "has several policies, none of them of the file's name: ", names)));
}

}  // namespace

absl::StatusOr<const PlacementPolicy*> ChoosePolicy(const std::string& text) {
  if (NamesNfModule(text)) return LoadPolicyModule(text);
  const PlacementPolicy* const policy = FindPlacementPolicy(text);
  if (policy != nullptr) return policy;
  std::string names;
  for (const PlacementPolicy* one : PlacementPolicies()) {
    absl::StrAppend(&names, names.empty() ? "" : ", ",
                    std::string(one->name()));
  }
  return Bad(absl::StrCat("\"", text, "\" is none of ", names,
                          ", and not the file of a module, as in ./mine.so"));
}

}  // namespace snf
