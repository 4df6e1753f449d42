// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_SDK_POLICY_H_
#define SNF_CONTROLLER_SDK_POLICY_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "runtime/sdk/nf_abi.h"

namespace snf {

// A flowlet that needs a unit. Demands are in 1/1024 of a unit's capacity.
struct PolicyRequest {
  Instant now;
  uint32_t demand = 0;     // estimated (SNF §4.1)
  UnitId owner = kNoUnit;  // of the flow's last packet; kNoUnit: a new flow
  // The other units at which a replica of the flow's state has landed.
  std::span<const UnitId> replicas;
  // The weight of state that is at a unit already (--alpha), as a load.
  uint32_t alpha = 0;
  // True if the flow's last packet probably still waits at the owner. At
  // another unit the flowlet would be held until that packet is done.
  bool waits_at_owner = false;
  uint64_t key_hash = 0;  // of the flow's key; the same in every run
};

// The units that can be given a flowlet now, in the order of their ids. Loads
// are in 1/1024 of a unit's capacity, and may exceed it.
class PolicyUnits {
 public:
  virtual uint32_t size() const = 0;
  virtual UnitId at(uint32_t place) const = 0;  // place < size()
  // Returns true if the unit is one of these. Functions below want such a unit.
  virtual bool Has(UnitId unit) const = 0;
  virtual uint32_t load(UnitId unit) const = 0;
  virtual uint32_t open_flowlets(UnitId unit) const = 0;
  // Returns true if the demand would not load the unit beyond the limit to
  // which units are filled (--latency_target).
  virtual bool HasRoom(UnitId unit, const PolicyRequest& request) const = 0;
  // Returns the unit of the highest load that has room, of equals the lowest
  // id; kNoUnit if none has. Costs the same for any number of units.
  virtual UnitId FullestWithRoom(const PolicyRequest& request) const = 0;
  // Returns the unit of the lowest load; kNoUnit if there is no unit. Costs the
  // same for any number of units.
  virtual UnitId LeastLoaded() const = 0;

 protected:
  ~PolicyUnits() = default;
};

// Base class of placement policies that are modules:
//
//     class WorstFit final : public Policy {
//      public:
//       UnitId Choose(const PolicyRequest& request,
//                     const PolicyUnits& units) const override {
//         const UnitId least = units.LeastLoaded();
//         if (least == kNoUnit) return kNoUnit;
//         return units.HasRoom(least, request) ? least : kNoUnit;
//       }
//     };
//     SNF_REGISTER_POLICY(WorstFit, "worst_fit", "the unit of the lowest
//     load");
//
// snf_add_policy(worst_fit worst_fit.cc) of CMake makes a module of it, for
// `snf replay --policy=./worst_fit.so`; `snf policy new` writes both.
//
// A policy is a stateless function of the request and the units: the same
// request at the same units has the same answer. One object serves all
// controllers, each of which may call it from a thread of its own.
class Policy {
 public:
  virtual ~Policy() = default;

  // Returns the unit that the flowlet goes to: one of `units`, which need not
  // have room. kNoUnit, or a unit that is not there, asks for another unit: a
  // warm one is taken, or one is started, and until it is ready the flowlet
  // goes to the unit of the lowest load.
  virtual UnitId Choose(const PolicyRequest& request,
                        const PolicyUnits& units) const = 0;
  // Returns true if every packet is to be a flowlet of its own.
  virtual bool per_packet() const { return false; }
  // Returns false if a flow never leaves its unit, unless that unit stops. No
  // replicas of state are made then.
  virtual bool moves_flows() const { return true; }
};

// Makes a policy known to the program that loads the module. Names and help
// must have static lifetime.
struct PolicyRegistration {
  using Factory = std::unique_ptr<Policy> (*)();
  PolicyRegistration(std::string_view name, std::string_view help,
                     Factory factory);

  const std::string_view name;
  const std::string_view help;  // what the policy does, in a line
  const Factory factory;
};
#define SNF_REGISTER_POLICY(Class, name, help)                        \
  static const ::snf::PolicyRegistration policy_registration_##Class( \
      name, help, [] { return std::unique_ptr<::snf::Policy>(new Class()); })

// Returns all registrations so far, in their order. For the loading of modules.
const std::vector<const PolicyRegistration*>& RegisteredPolicies();

}  // namespace snf

#endif  // SNF_CONTROLLER_SDK_POLICY_H_
