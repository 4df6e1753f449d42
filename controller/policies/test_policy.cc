// SPDX-License-Identifier: Apache-2.0
//
// Policies that tests load as modules.
#include "controller/sdk/policy.h"

namespace snf {
namespace {

#if defined(TEST_POLICY_NONE)

// A module of SNF that registers nothing.
[[maybe_unused]] const NfAbi* const kAbi = &snf_nf_abi;

#else

// Worst fit: the unit of the lowest load, if it has room.
class WorstFit : public Policy {
 public:
  UnitId Choose(const PolicyRequest& request,
                const PolicyUnits& units) const override {
    const UnitId least = units.LeastLoaded();
    if (least == kNoUnit) return kNoUnit;
    return units.HasRoom(least, request) ? least : kNoUnit;
  }
};

#if defined(TEST_POLICY_PLAIN)
SNF_REGISTER_POLICY(WorstFit, "worst_fit", "the unit of the lowest load");
#elif defined(TEST_POLICY_TAKEN)
SNF_REGISTER_POLICY(WorstFit, "snf", "has the name of another");
#else  // TEST_POLICY_SEVERAL

// By the fullest, as bin packing does, without regard to state.
class BestFit final : public Policy {
 public:
  UnitId Choose(const PolicyRequest& request,
                const PolicyUnits& units) const override {
    return units.FullestWithRoom(request);
  }
};
// Names units that are not there.
class NoWhere final : public Policy {
 public:
  UnitId Choose(const PolicyRequest&, const PolicyUnits&) const override {
    return UnitId{999};
  }
  bool per_packet() const override { return true; }
  bool moves_flows() const override { return false; }
};
SNF_REGISTER_POLICY(BestFit, "policy_several", "the fullest with room");
SNF_REGISTER_POLICY(NoWhere, "no_where", "no unit that there is");

#endif
#endif

}  // namespace
}  // namespace snf
