// SPDX-License-Identifier: Apache-2.0
#include "platform/run/renaming_digest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/packet/endpoint.h"
#include "base/packet/flow_key_text.h"
#include "base/packet/rewrite.h"
#include "base/packet/test_packets.h"

namespace snf {
namespace {

constexpr FlowId kFlow = MakeFlowId(0, 1, 0);
constexpr FlowId kOther = MakeFlowId(0, 2, 0);

FlowKey Key(const std::string& text) {
  const absl::StatusOr<FlowKey> key = ParseFlowKey(text);
  EXPECT_TRUE(key.ok()) << key.status();
  return key.value_or(FlowKey{});
}

// What 10.0.0.1:5000 sends, as it leaves from an external endpoint.
Frame FromExternal(Frame frame, const std::string& external) {
  const FlowKey key = Key(external);
  RewriteSource(frame, Parse(LinkType::kEthernet, frame), key.source.ipv4(),
                key.source_port);
  return frame;
}

Frame Packet() { return Ethernet(0x0800, Ipv4({}, Udp(5000, 53, 32))); }

struct Digested {
  RenamingDigest digest{FragmentTable::Options{}};

  Digested& Grant(const std::string& external, const std::string& inside) {
    digest.on_granted(Key(external), Key(inside));
    return *this;
  }
  Digested& Release(const Frame& frame, FlowId flow = kFlow) {
    digest.Add(Instant{}, flow, LinkType::kEthernet, frame);
    return *this;
  }
  uint64_t value() const { return digest.value(); }
};

// Grants the external endpoint to 10.0.0.1:5000, and releases what that sends.
uint64_t DigestOf(const Frame& frame, const std::string& external) {
  return Digested()
      .Grant(external, "udp 10.0.0.1:5000")
      .Release(FromExternal(frame, external))
      .value();
}

TEST(RenamingDigest, IsTheSameWhicheverExternalEndpointWasGranted) {
  const uint64_t digest = DigestOf(Packet(), "udp 198.51.100.1:1024");
  EXPECT_EQ(digest, DigestOf(Packet(), "udp 198.51.100.1:2000"));
  EXPECT_EQ(digest, DigestOf(Packet(), "udp 203.0.113.7:1024"));
  // It is that of the packet from the inside.
  EXPECT_EQ(digest, Digested().Release(Packet()).value());
}

TEST(RenamingDigest, DependsOnEverythingElse) {
  const uint64_t digest = DigestOf(Packet(), "udp 198.51.100.1:1024");
  for (const size_t changed : {size_t{14 + 8}, size_t{14 + 20 + 3},
                               size_t{14 + 20 + 6}, Packet().size() - 1}) {
    Frame frame = Packet();
    frame[changed] ^= std::byte{1};
    EXPECT_NE(digest, DigestOf(frame, "udp 198.51.100.1:1024")) << changed;
  }
}

// Its second packet does not leave from the port that the flow was given.
TEST(RenamingDigest, TellsARenamingThatIsNotOneToOne) {
  const std::string own = "udp 198.51.100.1:1024";
  const std::string others = "udp 198.51.100.1:1025";
  const auto digest = [&](const std::string& second) {
    return Digested()
        .Grant(own, "udp 10.0.0.1:5000")
        .Grant(others, "udp 10.0.0.2:5000")
        .Release(FromExternal(Packet(), own))
        .Release(FromExternal(Packet(), second))
        .value();
  };
  EXPECT_NE(digest(own), digest(others));
  EXPECT_NE(digest(own), digest("udp 198.51.100.1:1026"));
}

// A packet that is brought back is from an external endpoint too, and before
// was to one.
TEST(RenamingDigest, RenamesBothEndsOfAHairpinnedPacket) {
  const auto digest = [](const std::string& first, const std::string& second) {
    Frame out = FromExternal(Packet(), first);
    const FlowKey to = Key(second);
    RewriteDestination(out, Parse(LinkType::kEthernet, out), to.source.ipv4(),
                       to.source_port);
    Frame back = out;
    const FlowKey inside = Key("udp 10.0.0.2:53");
    RewriteDestination(back, Parse(LinkType::kEthernet, back),
                       inside.source.ipv4(), inside.source_port);
    return Digested()
        .Grant(first, "udp 10.0.0.1:5000")
        .Grant(second, "udp 10.0.0.2:53")
        .Release(out)
        .Release(back, kOther)
        .value();
  };
  EXPECT_EQ(digest("udp 198.51.100.1:1024", "udp 198.51.100.1:1025"),
            digest("udp 198.51.100.1:7", "udp 198.51.100.1:1024"));
}

// An ICMP error from the inside quotes what came to the external endpoint.
TEST(RenamingDigest, RenamesWhatAnIcmpErrorQuotes) {
  const Frame quoted =
      Ipv4({.source = V4(192, 0, 2, 9), .destination = V4(10, 0, 0, 1)},
           Udp(53, 5000, 8));
  const Frame error =
      Ethernet(0x0800, Ipv4({.protocol = 1}, Icmp(3, 3, 0, quoted)));
  EXPECT_EQ(DigestOf(error, "udp 198.51.100.1:1024"),
            DigestOf(error, "udp 198.51.100.1:2000"));
}

TEST(RenamingDigest, LeavesAloneWhatPassesThroughOrWasNotGranted) {
  const Frame arp = Ethernet(0x0806, Frame(28));
  const auto plain = [](FlowId flow, const Frame& frame) {
    ReleaseDigest digest;
    digest.Add(flow, frame);
    return digest.value();
  };
  EXPECT_EQ(Digested().Release(arp, kNoFlow).value(), plain(kNoFlow, arp));
  EXPECT_EQ(Digested().Release(Packet()).value(), plain(kFlow, Packet()));
  const Frame v6 = Ethernet(0x86dd, Ipv6({}, Udp(5000, 53, 32)));
  EXPECT_EQ(Digested().Release(v6).value(), plain(kFlow, v6));
}

}  // namespace
}  // namespace snf
