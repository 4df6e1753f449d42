// SPDX-License-Identifier: Apache-2.0
// Random packets. nfs/gwlb.md names these tests.
#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <string>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "nfs/test_gwlb.h"
#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

constexpr size_t kLink = 14;
const std::string kThere =
    "tcp 10.1.0.9:5000 > 192.0.2.7:80 ACK seq=5 \"data\"";

// Returns the packet with some bytes changed, and perhaps cut, by its sender or
// by a capture.
TestPacket Changed(const TestPacket& packet, Rng& rng) {
  TestPacket changed = packet;
  changed.gap = Microseconds(1);
  for (auto n = rng.Below(4); n > 0; --n) {
    const size_t at = kLink + rng.Below(changed.bytes.size() - kLink);
    changed.bytes[at] = std::byte(rng.Below(256));
  }
  if (rng.Below(4) == 0) {
    changed.bytes.resize(kLink + rng.Below(changed.bytes.size() - kLink + 1));
    if (rng.Below(2) == 0) {
      changed.original_length = static_cast<uint32_t>(changed.bytes.size());
    }
  }
  changed.side = static_cast<Side>(rng.Below(3));
  return changed;
}

TEST(GwlbHostile, WithstandsAnyBytesAndKeepsTheFlow) {
  for (const uint64_t seed : TestSeeds(4, 200).all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    NfTest nf(Balancer(2, "check=http,check_port=8080"));
    const TestPacket there = Packets({kThere})[0];
    const NfResult sent = nf.Send(there);
    const TestPacket back = SentBack(sent.packet);
    ASSERT_EQ(nf.Send(back), kThere);
    std::set<std::string> drops;
    for (int i = 0; i < 2'000; ++i) {
      const NfResult result =
          nf.Send(Changed(rng.Below(4) == 0 ? there : back, rng));
      if (result.text.starts_with("drop ")) drops.insert(result.text);
      if (i % 50 != 0) continue;
      ASSERT_EQ(nf.Send(back), kThere) << i;
      nf.TakeEmittedPackets();
    }
    EXPECT_GT(drops.size(), 12u);
    EXPECT_EQ(nf.Send(there).text, sent.text);
  }
}

}  // namespace
}  // namespace snf
