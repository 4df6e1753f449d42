// SPDX-License-Identifier: Apache-2.0
#include "controller/policies/policy_module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "controller/units/unit_pool.h"

namespace snf {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Module(const std::string& kind) {
  return absl::StrCat(SNF_TEST_MODULES, "/policy_", kind, ".so");
}

const PlacementPolicy& Loaded(const std::string& file) {
  const auto policy = ChoosePolicy(file);
  EXPECT_TRUE(policy.ok()) << policy.status();
  return policy.ok() ? **policy : *FindPlacementPolicy("hash");
}

std::string ErrorOf(const std::string& text) {
  const auto policy = ChoosePolicy(text);
  EXPECT_FALSE(policy.ok());
  EXPECT_EQ(policy.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(policy.status().message());
}

// Units 0, 1, 2 of 8 are active; a policy is asked about them.
class PolicyModule : public ::testing::Test {
 protected:
  PolicyModule() : pool_(Options()) {
    for (uint16_t unit = 0; unit < 3; ++unit) {
      pool_.Use(kNow, UnitId{unit}, out_);
      pool_.on_ready(kNow, UnitId{unit});
    }
    out_.clear();
  }
  static ControllerOptions Options() {
    ControllerOptions options;
    options.max_units = 8;
    options.warm_units = 0;
    options.load_signal = LoadSignal::kDemand;
    return options;
  }
  // A flowlet of that many quanta is open at the unit.
  void Load(uint16_t unit, uint32_t quanta) {
    pool_.OpenFlowlet(UnitId{unit},
                      Options().unit_capacity_bps * quanta / kFullLoad);
    pool_.Refresh(kNow);
  }
  Placement Place(const PlacementPolicy& policy, uint32_t demand) {
    return policy.Place(kNow, {.demand = demand}, pool_, out_);
  }

  static constexpr Instant kNow{1'000'000'000};
  UnitPool pool_;
  ControllerOut out_;
};

TEST_F(PolicyModule, IsKnownByNameOnceItsFileWasLoaded) {
  const PlacementPolicy& policy = Loaded(Module("plain"));
  EXPECT_EQ(policy.name(), "worst_fit");
  EXPECT_EQ(policy.help(), "the unit of the lowest load");
  EXPECT_FALSE(policy.per_packet());
  EXPECT_TRUE(policy.moves_flows());
  EXPECT_EQ(FindPlacementPolicy("worst_fit"), &policy);
  EXPECT_EQ(&Loaded("worst_fit"), &policy);
  // The same file by another path is loaded once.
  const std::string other =
      absl::StrCat(SNF_TEST_MODULES, "/./policy_plain.so");
  EXPECT_EQ(&Loaded(other), &policy);
}

TEST_F(PolicyModule, SeesLoadsAndRoom) {
  const PlacementPolicy& worst = Loaded(Module("plain"));
  const PlacementPolicy& best = Loaded(Module("several"));
  Load(0, 700);
  Load(1, 300);
  Load(2, 500);
  EXPECT_EQ(Place(worst, 200).unit, UnitId{1});
  EXPECT_EQ(Place(best, 200).unit, UnitId{0});
  EXPECT_EQ(Place(best, 400).unit, UnitId{2});
  EXPECT_FALSE(Place(best, 400).overcommitted);
  EXPECT_TRUE(out_.empty());
}

TEST_F(PolicyModule, GetsAnotherUnitWhereItChoosesNone) {
  const PlacementPolicy& worst = Loaded(Module("plain"));
  for (uint16_t unit = 0; unit < 3; ++unit) Load(unit, 1'000);
  const Placement placement = Place(worst, 200);
  EXPECT_EQ(placement.unit, UnitId{0});
  EXPECT_TRUE(placement.overcommitted);
  ASSERT_EQ(out_.commands().size(), 1u);  // a unit is started
}

TEST_F(PolicyModule, IsAskedForAUnitThatIsThere) {
  Loaded(Module("several"));
  const PlacementPolicy& nowhere = Loaded("no_where");
  EXPECT_TRUE(nowhere.per_packet());
  EXPECT_FALSE(nowhere.moves_flows());
  EXPECT_EQ(Place(nowhere, 100).unit, UnitId{0});
}

TEST_F(PolicyModule, IsRefusedWithItsFileAndTheReason) {
  EXPECT_THAT(ErrorOf(Module("none")),
              AllOf(StartsWith(Module("none")), HasSubstr("no policy")));
  EXPECT_THAT(ErrorOf(Module("taken")), HasSubstr("policy \"snf\""));
  EXPECT_THAT(ErrorOf("./absent.so"), HasSubstr("No such file"));
  EXPECT_THAT(ErrorOf("best"), AllOf(HasSubstr("none of snf, vanilla_flow"),
                                     HasSubstr("./mine.so")));
  const std::string text =
      absl::StrCat(::testing::TempDir(), "/policy_text.so");
  std::ofstream(text) << "text";
  EXPECT_THAT(ErrorOf(text), HasSubstr("is not an ELF file"));
  std::filesystem::remove(text);
}

}  // namespace
}  // namespace snf
