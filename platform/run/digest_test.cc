// SPDX-License-Identifier: Apache-2.0
#include "platform/run/digest.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace snf {
namespace {

struct Release {
  FlowId flow;
  std::string_view bytes;
};

uint64_t DigestOf(const std::vector<Release>& releases) {
  ReleaseDigest digest;
  for (const Release& release : releases) {
    digest.Add(release.flow, std::as_bytes(std::span(release.bytes.data(),
                                                     release.bytes.size())));
  }
  return digest.value();
}

constexpr FlowId kA = MakeFlowId(0, 1, 0);
constexpr FlowId kB = MakeFlowId(0, 2, 0);
constexpr FlowId kNextInSlotOfA = MakeFlowId(0, 1, 1);

TEST(ReleaseDigest, IsZeroForNothing) { EXPECT_EQ(DigestOf({}), 0u); }

TEST(ReleaseDigest, DoesNotDependOnTheOrderBetweenFlows) {
  EXPECT_EQ(DigestOf({{kA, "1"}, {kA, "2"}, {kB, "3"}, {kNoFlow, "4"}}),
            DigestOf({{kNoFlow, "4"}, {kA, "1"}, {kB, "3"}, {kA, "2"}}));
}

TEST(ReleaseDigest, DependsOnTheOrderWithinAFlow) {
  EXPECT_NE(DigestOf({{kA, "1"}, {kA, "2"}}), DigestOf({{kA, "2"}, {kA, "1"}}));
  EXPECT_NE(DigestOf({{kNoFlow, "1"}, {kNoFlow, "2"}}),
            DigestOf({{kNoFlow, "2"}, {kNoFlow, "1"}}));
}

TEST(ReleaseDigest, DependsOnEveryByteAndOnWhichFlowItIsOf) {
  const uint64_t digest = DigestOf({{kA, "12"}, {kA, "3"}, {kB, "4"}});
  EXPECT_NE(digest, DigestOf({{kA, "13"}, {kA, "3"}, {kB, "4"}}));
  EXPECT_NE(digest, DigestOf({{kA, "1"}, {kA, "23"}, {kB, "4"}}));
  EXPECT_NE(digest, DigestOf({{kA, "12"}, {kB, "3"}, {kB, "4"}}));
  EXPECT_NE(digest, DigestOf({{kA, "12"}, {kA, "3"}}));
  EXPECT_NE(digest, DigestOf({{kA, "12"}, {kA, "3"}, {kB, "4"}, {kB, "4"}}));
}

// The packets of a flow that is over, but still queued, come between those of
// the flow that has its slot now.
TEST(ReleaseDigest, KeepsFlowsThatSharedASlotApart) {
  EXPECT_EQ(
      DigestOf(
          {{kA, "1"}, {kNextInSlotOfA, "3"}, {kA, "2"}, {kNextInSlotOfA, "4"}}),
      DigestOf({{kA, "1"},
                {kA, "2"},
                {kNextInSlotOfA, "3"},
                {kNextInSlotOfA, "4"}}));
}

TEST(ReleaseDigest, RemembersALimitedNumberOfFlowsThatLostTheirSlots) {
  const auto flow = [](uint32_t generation) {
    return MakeFlowId(0, 1, generation);
  };
  const auto digest_after = [&](uint32_t others) {
    std::vector<Release> releases;
    for (uint32_t i = 0; i <= others; ++i) releases.push_back({flow(i), "1"});
    const uint64_t before = DigestOf(releases);
    releases.push_back({flow(0), "2"});
    return DigestOf(releases) - before;
  };
  const uint64_t in_one_flow =
      DigestOf({{kA, "1"}, {kA, "2"}}) - DigestOf({{kA, "1"}});
  const uint32_t limit = ReleaseDigest::kMaxEarlier;
  EXPECT_EQ(digest_after(1), in_one_flow);
  EXPECT_EQ(digest_after(limit), in_one_flow);
  EXPECT_NE(digest_after(limit + 1), in_one_flow);
}

}  // namespace
}  // namespace snf
