// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/core/usage_ledger.h"

#include <array>
#include <cstdint>

#include "base/rng.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

TEST(UsageLedger, SumsEveryFieldByTenantChainNfAndEpoch) {
  Rng rng(1);
  UsageLedger ledger(10'000);
  std::array<unsigned __int128, 4> bytes_of{};
  for (int i = 0; i < 5'000; ++i) {
    const UsageLedger::Key key{static_cast<uint32_t>(rng.Below(4)),
                               static_cast<uint16_t>(rng.Below(3)),
                               static_cast<uint16_t>(rng.Below(3)),
                               rng.Below(20)};
    const Usage usage{1, rng.Below(uint64_t{1} << 48), rng.Below(1'000),
                      rng.Below(1'000)};
    const auto at = ledger.rows().find(key);
    const Usage before = at == ledger.rows().end() ? Usage{} : at->second;
    ASSERT_TRUE(ledger.Add(key, usage));
    const Usage sum{before.packets + usage.packets, before.bytes + usage.bytes,
                    before.processing_ns + usage.processing_ns,
                    before.state_byte_seconds + usage.state_byte_seconds};
    EXPECT_EQ(ledger.rows().at(key), sum);
    bytes_of[key.tenant] += usage.bytes;
  }
  uint64_t packets = 0;
  for (uint32_t tenant = 0; tenant < 4; ++tenant) {
    const auto sum = ledger.OfTenant(tenant);
    ASSERT_TRUE(sum);
    EXPECT_TRUE(sum->bytes == bytes_of[tenant]) << tenant;
    packets += sum->packets;
  }
  EXPECT_EQ(packets, 5'000u);
}

TEST(UsageLedger, RefusesWholeWhatWouldOverflowAnyField) {
  for (int field = 0; field < 4; ++field) {
    UsageLedger ledger(4);
    Usage much;
    Usage more{1, 1, 1, 1};
    uint64_t* const fields[] = {&much.packets, &much.bytes, &much.processing_ns,
                                &much.state_byte_seconds};
    *fields[field] = ~uint64_t{0};
    ASSERT_TRUE(ledger.Add({}, much));
    EXPECT_FALSE(ledger.Add({}, more)) << field;
    EXPECT_EQ(ledger.rows().at({}), much) << field;
    EXPECT_EQ(ledger.refused_overflow(), 1u);
    EXPECT_TRUE(ledger.Add({.epoch = 1}, more));
    EXPECT_EQ(ledger.OfTenant(0), std::nullopt);
  }
}

TEST(UsageLedger, RefusesRowsBeyondItsLimitAndGoesOnWithTheOthers) {
  UsageLedger ledger(2);
  EXPECT_TRUE(ledger.Add({.tenant = 1}, {.packets = 1}));
  EXPECT_TRUE(ledger.Add({.tenant = 2}, {.packets = 1}));
  EXPECT_FALSE(ledger.Add({.tenant = 3}, {.packets = 1}));
  EXPECT_TRUE(ledger.Add({.tenant = 2}, {.packets = 1}));
  EXPECT_EQ(ledger.refused_rows(), 1u);
  EXPECT_EQ(ledger.OfTenant(2), (Usage{.packets = 2}));
}

}  // namespace
}  // namespace snf
