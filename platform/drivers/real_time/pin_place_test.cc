// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_time/pin_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace snf {
namespace {

using testing::ElementsAre;

TEST(PinPlace, GivesASingleRunTheFirstCpus) {
  const std::vector<int> cpus = {2, 3, 5, 7};
  EXPECT_THAT(*PinPlace().CpusOf(cpus, 3), ElementsAre(2, 3, 5));
  EXPECT_THAT(*PinPlace().CpusOf(cpus, 1), ElementsAre(2));
  EXPECT_EQ(PinPlace().CpusOf(cpus, 5).status().message(),
            "5 threads cannot be pinned to 4 CPUs");
  EXPECT_EQ(PinPlace().ThreadsOn(4, 1), 4u);
}

TEST(PinPlace, GivesRunsSideBySideCpusOfTheirOwnButTheFirst) {
  const std::vector<int> cpus = {0, 1, 2, 3, 4, 5, 6, 7};
  for (uint32_t runs = 1; runs <= 4; ++runs) {
    const uint32_t threads = PinPlace{.runs = runs}.ThreadsOn(8, 1);
    std::set<int> given;
    for (uint32_t number = 0; number < runs; ++number) {
      const auto mine =
          PinPlace{.number = number, .runs = runs}.CpusOf(cpus, threads);
      ASSERT_TRUE(mine.ok());
      ASSERT_EQ(mine->size(), threads);
      EXPECT_EQ(mine->front(), 0);
      for (size_t i = 1; i < mine->size(); ++i) {
        EXPECT_TRUE(given.insert((*mine)[i]).second);
      }
    }
    EXPECT_LE(given.size(), 7u);
  }
  const PinPlace third = {.number = 2, .runs = 3};
  EXPECT_THAT(*third.CpusOf(cpus, 3), ElementsAre(0, 5, 6));
  EXPECT_EQ(third.CpusOf(cpus, 4).status().message(),
            "4 threads for each of 3 chains cannot be pinned to 8 CPUs: with "
            "the one that all share, they are 10");
  EXPECT_EQ(third.ThreadsOn(2, 2), 2u);
}

}  // namespace
}  // namespace snf
