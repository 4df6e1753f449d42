// SPDX-License-Identifier: Apache-2.0
#include "base/counters.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace snf {
namespace {

struct Inner {
  uint64_t a = 0;
  std::array<uint64_t, 2> b{};
};
struct Outer {
  uint64_t c = 0;
  Inner inner;
};
struct Signed {
  uint64_t a = 0;
  int64_t b = 0;
};
struct Fraction {
  double a = 0;
};
struct Halves {
  uint32_t a = 0;
  uint32_t b = 0;
};

static_assert(Counters<Inner> && Counters<Outer>);
static_assert(!Counters<Signed> && !Counters<Fraction> && !Counters<Halves>);

TEST(AddCounters, AddsEveryMember) {
  Outer sum = {.c = 1, .inner = {.a = 2, .b = {3, 4}}};
  AddCounters(sum, Outer{.c = 10, .inner = {.a = 20, .b = {30, 40}}});
  EXPECT_EQ(sum.c, 11u);
  EXPECT_EQ(sum.inner.a, 22u);
  EXPECT_EQ(sum.inner.b[0], 33u);
  EXPECT_EQ(sum.inner.b[1], 44u);
}

}  // namespace
}  // namespace snf
