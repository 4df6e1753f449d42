// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/core/lease_book.h"

#include <vector>

#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr uint64_t kEpoch = 3;
constexpr Instant kStart{Seconds(1).ns};
constexpr ControllerLife kHolder{ControllerId{5}, uint64_t{2} << 32};

class LeaseBookTest : public testing::Test {
 protected:
  LeaseBookTest() : units_(Options()), book_(Options(), kEpoch) {
    for (uint32_t u = 0; u < 2; ++u) {
      units_[u].free = kWholeUnit;
      units_.SetState(kStart, u, UnitStock::State::kActive);
    }
  }

  static ManagerOptions Options() { return {.max_units = 2}; }

  uint32_t Give(uint64_t id, uint32_t unit, int64_t share) {
    const uint32_t slot = book_.Add(LeaseId{id}, kHolder, unit, units_);
    book_.SetTo(slot, share, units_, out_);
    return slot;
  }
  template <typename Message>
  std::vector<Message> Said() {
    std::vector<Message> said;
    for (const ManagerCommand& command : out_) {
      if (const auto* one = std::get_if<Message>(&command)) {
        said.push_back(*one);
      }
    }
    out_.clear();
    return said;
  }
  int64_t held() const { return book_.held(value(kHolder.controller)); }

  UnitStock units_;
  LeaseBook book_;
  ManagerOut out_;
};

TEST_F(LeaseBookTest, ReservesAShareBeforeTheUnitIsToldOfIt) {
  const uint32_t slot = Give(7, 0, 600);
  EXPECT_EQ(units_[0].free, kWholeUnit - 600);
  EXPECT_EQ(units_[0].leases, 1u);
  EXPECT_EQ(held(), 600);
  const auto sets = Said<SetShare>();
  ASSERT_EQ(sets.size(), 1u);
  EXPECT_EQ(sets[0].lease, LeaseId{7});
  EXPECT_EQ(sets[0].share, 600);
  EXPECT_EQ(sets[0].sequence, 1u);
  EXPECT_EQ(sets[0].manager_epoch, kEpoch);
  EXPECT_EQ(book_.Find(LeaseId{7}), slot);
}

TEST_F(LeaseBookTest, KeepsAReservationUntilTheUnitConfirmsALesserShare) {
  const uint32_t slot = Give(7, 0, 600);
  book_.Confirm(slot, units_, out_);
  EXPECT_EQ(Said<Grant>().size(), 1u);
  book_.SetTo(slot, 200, units_, out_);
  EXPECT_EQ(held(), 200);
  EXPECT_EQ(units_[0].free, kWholeUnit - 600);
  book_.Confirm(slot, units_, out_);
  EXPECT_EQ(units_[0].free, kWholeUnit - 200);
  book_.End(slot, true, units_, out_);
  EXPECT_EQ(Said<Gone>().size(), 1u);
  EXPECT_EQ(held(), 0);
  EXPECT_EQ(units_[0].free, kWholeUnit - 200);
  book_.Erase(slot, units_);
  EXPECT_EQ(units_[0].free, kWholeUnit);
  EXPECT_EQ(units_[0].leases, 0u);
  EXPECT_EQ(book_.Find(LeaseId{7}), LeaseBook::kNone);
}

TEST_F(LeaseBookTest, SaysAShareAgainUntilItIsConfirmed) {
  const uint32_t slot = Give(7, 0, 600);
  out_.clear();
  book_.Tick();
  book_.Repeat(units_, out_);
  EXPECT_TRUE(out_.empty());
  book_.Tick();
  book_.Repeat(units_, out_);
  const auto sets = Said<SetShare>();
  ASSERT_EQ(sets.size(), 1u);
  EXPECT_EQ(sets[0].sequence, 1u);
  book_.Confirm(slot, units_, out_);
  out_.clear();
  book_.Tick();
  book_.Tick();
  book_.Repeat(units_, out_);
  EXPECT_TRUE(out_.empty());
}

TEST_F(LeaseBookTest, ListsPartsOfUnitsBeforeWholeOnes) {
  const uint32_t whole = Give(7, 0, kWholeUnit);
  const uint32_t part = Give(8, 1, 100);
  EXPECT_EQ(book_.FirstOf(5), part);
  EXPECT_EQ(book_.NextOf(part), whole);
  EXPECT_EQ(book_.NextOf(whole), LeaseBook::kNone);
  book_.EndAll(kHolder.controller, units_, out_);
  EXPECT_EQ(book_.FirstOf(5), LeaseBook::kNone);
  EXPECT_EQ(book_.FirstOfUnit(0), whole);
}

TEST_F(LeaseBookTest, ALeaseIsDueByItsTermOrByTheGraceOfARevoke) {
  const uint32_t slot = Give(7, 0, 600);
  book_.StartTerm(kStart, slot);
  EXPECT_TRUE(book_.is_due_by(slot, LeaseBook::kByTerm));
  EXPECT_EQ(book_.FirstDue(LeaseBook::kByTerm, kStart + Milliseconds(999)),
            LeaseBook::kNone);
  EXPECT_EQ(book_.FirstDue(LeaseBook::kByTerm, kStart + Seconds(1)), slot);
  out_.clear();
  book_.RevokeTo(kStart, slot, 100, out_);
  const auto revokes = Said<Revoke>();
  ASSERT_EQ(revokes.size(), 1u);
  EXPECT_EQ(revokes[0].keep, 100);
  EXPECT_EQ(book_.FirstDue(LeaseBook::kByTerm), LeaseBook::kNone);
  EXPECT_EQ(book_.FirstDue(LeaseBook::kByRevoke, kStart + Milliseconds(100)),
            slot);
}

TEST_F(LeaseBookTest, GrantsAgainWhatTheNextLifeOfAHolderHasNotHeard) {
  const uint32_t slot = Give(7, 0, 600);
  book_.Confirm(slot, units_, out_);
  book_.on_heard(slot);
  out_.clear();
  book_.SayUnheard(5, units_, out_);
  EXPECT_TRUE(out_.empty());
  const ControllerLife next{kHolder.controller, kHolder.epoch + 1};
  book_.GiveTo(slot, next, units_, out_);
  EXPECT_EQ(Said<SetShare>()[0].holder, next);
  book_.Confirm(slot, units_, out_);
  out_.clear();
  book_.SayUnheard(5, units_, out_);
  const auto grants = Said<Grant>();
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].to, next);
}

TEST_F(LeaseBookTest, RefusesReportsThatDoNotFit) {
  const auto told = [](uint64_t id, int64_t share, int64_t target) {
    return ReportedLease{.lease = LeaseId{id},
                         .holder = kHolder,
                         .share = share,
                         .target = target};
  };
  Give(7, 0, 100);
  using Leases = std::vector<ReportedLease>;
  EXPECT_EQ(book_.Check(Leases{told(1, 1'000, 10), told(2, 0, 24)}),
            LeaseRefusal::kNone);
  EXPECT_EQ(book_.Check(Leases{told(1, 1'000, 10), told(2, 0, 25)}),
            LeaseRefusal::kBadReport);
  EXPECT_EQ(book_.Check(Leases{told(1, 1, 1), told(1, 1, 1)}),
            LeaseRefusal::kBadReport);
  EXPECT_EQ(book_.Check(Leases{told(7, 1, 1)}), LeaseRefusal::kBadReport);
  EXPECT_EQ(book_.Check(Leases{told(1, -1, 1)}), LeaseRefusal::kBadReport);
  EXPECT_EQ(book_.Check(Leases{told(kEpoch << 32, 1, 1)}),
            LeaseRefusal::kBadReport);
  EXPECT_EQ(book_.Check(Leases(32, told(1, 0, 0))), LeaseRefusal::kTooMuch);
}

TEST_F(LeaseBookTest, AdoptsTheGreaterOfAShareAndItsTarget) {
  const uint32_t slot = book_.Adopt(
      0, {.lease = LeaseId{1}, .holder = kHolder, .sequence = 4, .share = 300},
      units_);
  EXPECT_EQ(units_[0].free, kWholeUnit - 300);
  book_.SetTo(slot, 0, units_, out_);
  EXPECT_EQ(Said<SetShare>()[0].sequence, 5u);
  EXPECT_EQ(units_[0].free, kWholeUnit - 300);
}

TEST_F(LeaseBookTest, HasRoomForEightSharesAUnit) {
  for (uint64_t id = 0; id < 16; ++id) {
    EXPECT_TRUE(book_.has_room());
    Give(id, id % 2, 1);
  }
  EXPECT_FALSE(book_.has_room());
  book_.End(book_.Find(LeaseId{3}), false, units_, out_);
  EXPECT_TRUE(book_.has_room());
}

}  // namespace
}  // namespace snf
