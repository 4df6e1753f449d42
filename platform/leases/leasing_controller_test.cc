// SPDX-License-Identifier: Apache-2.0
#include "platform/leases/leasing_controller.h"

#include <vector>

#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr int64_t kMbps = 1'000'000;
constexpr ControllerLife kLife = {ControllerId{3}, 7};

// Units of 1,024 Mbit/s: a share is 1 Mbit/s.
LeaseOptions OptionsWith(bool shared) {
  LeaseOptions options;
  options.shared = shared;
  options.unit_capacity_bps = 1'024 * kMbps;
  options.headroom = LeaseOptions::kOne / 4;
  options.manager.max_units = 4;
  return options;
}

struct Asker {
  explicit Asker(bool shared)
      : options(OptionsWith(shared)), controller(options, kLife) {}

  // The capacity of the one ask that came; -1 if none did.
  int64_t Asked() {
    int64_t asked = -1;
    for (const LeaseRequest& request : out) {
      const auto* ask = std::get_if<Ask>(&request);
      if (ask == nullptr) continue;
      EXPECT_EQ(ask->number, ++asks);
      EXPECT_EQ(ask->from, kLife);
      asked = ask->capacity;
    }
    return asked;
  }
  // Shares that were given back or are kept, by lease.
  std::vector<std::pair<uint64_t, int64_t>> Kept() {
    std::vector<std::pair<uint64_t, int64_t>> kept;
    for (const LeaseRequest& request : out) {
      if (const auto* back = std::get_if<GiveBack>(&request)) {
        kept.emplace_back(value(back->lease), back->keep);
      }
    }
    return kept;
  }
  int64_t Load(int64_t change_mbps) {
    out.clear();
    controller.on_load(now, change_mbps * kMbps, out);
    return Asked();
  }
  int64_t EndEpoch() {
    out.clear();
    now = now + options.epoch;
    controller.on_epoch(now, out);
    return Asked();
  }
  void GrantOf(uint64_t lease, int64_t share) {
    controller.on_grant(now, {kLife, LeaseId{lease}, {}, share});
  }

  LeaseOptions options;
  LeasingController controller;
  Instant now{};
  uint64_t asks = 0;
  LeaseRequests out;
};

TEST(LeasingController, AsksAtOnceWhenHalfOfTheHeadroomIsUsedUp) {
  Asker a(true);
  EXPECT_EQ(a.Load(400), 500);
  EXPECT_EQ(a.Load(44), -1);
  EXPECT_EQ(a.Load(1), 557);  // 445 and an eighth are above 500
  EXPECT_EQ(a.Load(-445), -1);
}

TEST(LeasingController, AsksEachEpochForTheGreaterOfMeanAndPresentLoad) {
  Asker a(true);
  a.Load(800);
  a.now = a.now + Nanos{a.options.epoch.ns / 2};
  a.Load(-400);
  a.now = a.now + Nanos{-a.options.epoch.ns / 2};
  EXPECT_EQ(a.EndEpoch(), 750);  // the mean is 600
  EXPECT_EQ(a.EndEpoch(), 500);
  a.Load(-400);
  a.now = a.now + Nanos{a.options.epoch.ns / 2};
  EXPECT_EQ(a.Load(400), -1);
  a.now = a.now + Nanos{-a.options.epoch.ns / 2};
  EXPECT_EQ(a.EndEpoch(), 500);  // the mean is 200
}

TEST(LeasingController, AsksForWholeUnitsOfItsOwnAndNoMoreThanThereAre) {
  Asker own(false);
  EXPECT_EQ(own.Load(400), 1'024);
  EXPECT_EQ(own.Load(450), -1);
  EXPECT_EQ(own.Load(100), 2'048);
  EXPECT_EQ(own.Load(5'000), 4'096);
  Asker shared(true);
  EXPECT_EQ(shared.Load(5'000), 4'096);
}

TEST(LeasingController, GivesBackTheSmallestLeasesFirst) {
  Asker a(true);
  a.Load(1'400);
  a.GrantOf(1, 1'024);
  a.GrantOf(2, 500);
  a.GrantOf(3, 226);
  a.Load(-600);
  a.EndEpoch();
  EXPECT_EQ(a.Kept(), (std::vector<std::pair<uint64_t, int64_t>>{
                          {3, 0}, {2, 0}, {1, 1'000}}));
  EXPECT_EQ(a.controller.held(), 1'000);
}

TEST(LeasingController, TakesNoLateGrantOfALeaseThatItGaveBack) {
  Asker a(true);
  a.Load(400);
  a.GrantOf(1, 500);
  a.Load(-400);
  a.EndEpoch();
  EXPECT_EQ(a.controller.held(), 0);
  a.GrantOf(1, 600);
  EXPECT_EQ(a.controller.held(), 0);
  a.GrantOf(2, 100);
  EXPECT_EQ(a.controller.held(), 100);
}

TEST(LeasingController, GivesBackAtOnceWhatIsRevoked) {
  Asker a(true);
  a.Load(400);
  a.GrantOf(1, 500);
  a.out.clear();
  a.controller.on_revoke(a.now, {kLife, LeaseId{1}, 200, {}}, a.out);
  EXPECT_EQ(a.Kept(), (std::vector<std::pair<uint64_t, int64_t>>{{1, 200}}));
  EXPECT_EQ(a.controller.held(), 200);
  // What is gone already is not given back once more.
  a.controller.on_gone(a.now, {kLife, LeaseId{1}});
  EXPECT_EQ(a.controller.held(), 0);
  a.out.clear();
  a.controller.on_revoke(a.now, {kLife, LeaseId{1}, 100, {}}, a.out);
  EXPECT_TRUE(a.out.empty());
}

TEST(LeasingController, RenewsWhatItHoldsTwiceATerm) {
  Asker a(true);
  a.Load(400);
  a.GrantOf(1, 500);
  int renewals = 0;
  for (int epoch = 0; epoch < 20; ++epoch) {
    a.EndEpoch();
    for (const LeaseRequest& request : a.out) {
      const auto* renew = std::get_if<Renew>(&request);
      if (renew == nullptr) continue;
      EXPECT_EQ(renew->lease, LeaseId{1});
      ++renewals;
    }
  }
  EXPECT_EQ(renewals, 4);  // in 2 s
}

TEST(LeasingController, MeasuresWhatIsAboveItsSharesAsShort) {
  Asker a(true);
  a.Load(400);
  a.GrantOf(1, 300);
  a.now = a.now + Seconds(1);
  a.controller.Advance(a.now);
  a.Load(-200);
  a.now = a.now + Seconds(1);
  a.controller.Advance(a.now);
  EXPECT_DOUBLE_EQ(a.controller.figures().offered_bits, 600e6);
  EXPECT_DOUBLE_EQ(a.controller.figures().leased_bits, 600e6);
  EXPECT_DOUBLE_EQ(a.controller.figures().short_bits, 100e6);
}

}  // namespace
}  // namespace snf
