// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/cluster/flow_dispatcher.h"

#include <array>
#include <cstdint>

#include "base/packet/endpoint.h"
#include "base/packet/test_packets.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

TEST(PartOf, DividesAPoolIntoWordsOfWhichNoneIsLost) {
  const NetworkFunction::Pool pool = {.name = "p", .first = 100, .last = 1'000};
  for (const uint32_t count : {1u, 2u, 3u, 7u, 15u}) {
    uint32_t next = pool.first;
    for (uint32_t i = 0; i < count; ++i) {
      const auto part = PartOf(pool, i, count);
      ASSERT_TRUE(part.has_value());
      EXPECT_EQ(part->first, next);
      EXPECT_TRUE(i == 0 || part->first % 64 == 0);
      next = part->last + 1;
    }
    EXPECT_EQ(next, pool.last + 1);
  }
  EXPECT_FALSE(PartOf(pool, 0, 16).has_value());
}

// Has two pools of the same ports.
class Translator final : public NetworkFunction {
 public:
  Translator() {
    declare_pool("tcp", 1'000, 1'999);
    declare_pool("udp", 1'000, 1'999);
  }
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
};

FlowKey External(uint16_t port) {
  return EndpointKey(V4(198, 51, 100, 1), be16(port), IpProtocol::kUdp,
                     FlowKeyForm::kIpv4Endpoint);
}

TEST(FlowDispatcher, FindsAnAliasByItsBlockAndOthersByTheirFlow) {
  const Translator nf;
  FlowDispatcher dispatcher(nf, 4);
  std::array<uint32_t, 4> flows{};
  for (uint16_t port = 1; port < 1'000; ++port) {
    ++flows[value(dispatcher.Steer(External(port), false))];
  }
  for (const uint32_t of_one : flows) EXPECT_GT(of_one, 150u);
  EXPECT_TRUE(dispatcher.on_alias(ControllerId{0}, External(1'000)));
  EXPECT_FALSE(dispatcher.on_alias(ControllerId{0}, External(1'999)));
  uint32_t before = 0;
  for (uint16_t port = 1'000; port < 2'000; ++port) {
    const uint32_t owner = value(dispatcher.Steer(External(port), true));
    EXPECT_LE(before, owner);
    before = owner;
    const auto part = PartOf(nf.pools()[0], owner, 4);
    EXPECT_TRUE(part->first <= port && port <= part->last) << port;
  }
  EXPECT_EQ(before, 3u);
}

}  // namespace
}  // namespace snf
