// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <memory>
#include <string_view>

#include "gtest/gtest.h"
#include "runtime/core/unit.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

TEST(Passthrough, IsRegisteredThoughNothingNamesIt) {
  const NfRegistration* passthrough = FindNf("passthrough");
  ASSERT_NE(passthrough, nullptr);
  EXPECT_FALSE(passthrough->summary.empty());
}

TEST(Passthrough, ReleasesEveryPacketUnchanged) {
  const std::unique_ptr<NetworkFunction> nf = FindNf("passthrough")->create();
  BufferPool pool({.small = 4, .medium = 1, .large = 1});
  Unit unit(UnitId{0}, {.max_flows = 4, .queue_packets = 4, .replicas = 0},
            nf->schema());
  UnitOut out;
  for (uint64_t clock = 1; clock <= 20; ++clock) {
    constexpr std::string_view kBytes = "the bytes of a packet";
    const PacketHandle packet = pool.Allocate(kBytes.size());
    std::memcpy(pool.room(packet).data(), kBytes.data(), kBytes.size());
    pool.info(packet).length = kBytes.size();
    PacketMeta meta;
    meta.flow = FlowId{7};
    meta.clock = Clock{clock};
    unit.on_packet(packet, meta);
    ASSERT_TRUE(unit.begin(Instant{}, out));
    unit.finish(Instant{}, {*nf, pool}, out);
    ASSERT_EQ(out.commands().size(), 1u);
    const UnitCommand& command = out.commands()[0];
    EXPECT_EQ(command.kind, UnitCommand::Kind::kRelease);
    EXPECT_EQ(command.packet, packet);
    EXPECT_EQ(command.meta.clock, Clock{clock});
    EXPECT_EQ(pool.bytes(packet).size(), kBytes.size());
    EXPECT_EQ(
        std::memcmp(pool.bytes(packet).data(), kBytes.data(), kBytes.size()),
        0);
    pool.Free(packet);
    out.clear();
  }
  EXPECT_EQ(unit.next_wakeup(), Instant::max());
  EXPECT_TRUE(nf->drop_reasons().empty());
}

}  // namespace
}  // namespace snf
