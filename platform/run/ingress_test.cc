// SPDX-License-Identifier: Apache-2.0
#include "platform/run/ingress.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/packet/test_packets.h"

namespace snf {
namespace {

CapturedPacket PacketOf(const Frame& frame, Side side) {
  CapturedPacket packet;
  packet.bytes = frame;
  packet.original_bytes = static_cast<uint32_t>(frame.size());
  packet.side = side;
  return packet;
}

class Function final : public NetworkFunction {
 public:
  explicit Function(FlowScope scope, bool is_barrier = false,
                    bool needs_first = true)
      : scope_(scope), is_barrier_(is_barrier), needs_first_(needs_first) {}
  FlowScope flow_scope() const override { return scope_; }
  bool is_barrier() const override { return is_barrier_; }
  bool needs_first_fragment() const override {
    return is_barrier_ && needs_first_;
  }
  // All packets of a protocol are one flow.
  OwnFlow flow_key(const KeyedPacket& packet) const override {
    FlowKey key;
    key.protocol = packet.headers.l4_protocol;
    return {.key = key, .side = Side::kOutside};
  }
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }

 private:
  FlowScope scope_;
  bool is_barrier_;
  bool needs_first_;
};

// From 10.0.0.1:5000 to 192.0.2.9:53.
Frame Query() { return Ethernet(0x0800, Ipv4({}, Udp(5000, 53))); }

TEST(Ingress, TakesTheSideThatAPacketSaysAndRewritesNothing) {
  BufferPool buffers({.small = 4, .medium = 1, .large = 1});
  const Function nf(FlowScope::kInsideEndpoint);
  Ingress ingress({}, nf, buffers);
  const Frame frame = Query();
  for (const Side side : {Side::kOutside, Side::kInside, Side::kOutside}) {
    const Ingress::Taken& taken =
        ingress.Take(Instant{}, PacketOf(frame, side));
    ASSERT_EQ(taken.fate, Ingress::Taken::Fate::kPacket);
    const bool is_outside = side == Side::kOutside;
    EXPECT_EQ(taken.by_alias, is_outside);
    EXPECT_EQ(taken.key->source,
              is_outside ? V4(192, 0, 2, 9) : V4(10, 0, 0, 1));
    EXPECT_EQ(taken.key->source_port, be16(is_outside ? 53 : 5000));
    const PacketInfo& info = buffers.info(taken.packet);
    EXPECT_EQ(info.side, side);
    EXPECT_EQ(info.far_address,
              is_outside ? V4(10, 0, 0, 1) : V4(192, 0, 2, 9));
    const auto bytes = buffers.bytes(taken.packet);
    EXPECT_TRUE(std::ranges::equal(bytes, frame));
    buffers.Free(taken.packet);
  }
}

// A NAT changes the identifier of a query, but not the host that is asked. The
// quote of an error names that host alike.
TEST(Ingress, NamesTheHostThatAQueryAsksAlikeBothWays) {
  BufferPool buffers({.small = 4, .medium = 1, .large = 1});
  const Function nf(FlowScope::kInsideEndpoint);
  Ingress ingress({}, nf, buffers);
  const IpAddress host = V4(10, 0, 0, 1), external = V4(203, 0, 113, 1);
  const IpAddress asked = V4(192, 0, 2, 9);
  const auto ip = [](const IpAddress& from, const IpAddress& to,
                     const Frame& payload) {
    return Ipv4({.source = from, .destination = to, .protocol = 1}, payload);
  };
  const auto check = [&](const Frame& packet, Side side) {
    const Frame frame = Ethernet(0x0800, packet);
    const Ingress::Taken& taken =
        ingress.Take(Instant{}, PacketOf(frame, side));
    ASSERT_EQ(taken.fate, Ingress::Taken::Fate::kPacket);
    const PacketInfo& info = buffers.info(taken.packet);
    EXPECT_EQ(info.far_address, asked);
    EXPECT_EQ(info.far_port, be16(0));
    buffers.Free(taken.packet);
  };
  check(ip(host, asked, Icmp(8, 0, 4'321, {})), Side::kInside);
  check(ip(asked, external, Icmp(0, 0, 1'024, {})), Side::kOutside);
  const Frame query = ip(external, asked, Icmp(8, 0, 1'024, {}));
  check(ip(V4(198, 51, 100, 1), external, Icmp(3, 1, 0, query)),
        Side::kOutside);
  const Frame frame =
      Ethernet(0x86dd, Ipv6({.next_header = 58}, Icmp(128, 0, 4'321, {})));
  const Ingress::Taken& taken =
      ingress.Take(Instant{}, PacketOf(frame, Side::kInside));
  EXPECT_EQ(buffers.info(taken.packet).far_port, be16(0));
  buffers.Free(taken.packet);
}

// A mapping that has ended leaves no record.
TEST(Ingress, ForgetsInsideEndsWhosePacketsSayTheirSide) {
  BufferPool buffers({.small = 4, .medium = 1, .large = 1});
  const Function nf(FlowScope::kInsideEndpoint);
  Ingress ingress({}, nf, buffers);
  const auto take = [&] {
    const Frame frame = Query();
    const Ingress::Taken& taken =
        ingress.Take(Instant{}, PacketOf(frame, Side::kInside));
    buffers.Free(taken.packet);
    return *taken.flow;
  };
  FlowKey inside = take();
  for (uint32_t i = 0; i < 10'000; ++i) {
    inside.source =
        V4(10, 0, static_cast<uint8_t>(i >> 8), static_cast<uint8_t>(i));
    Alias alias;
    alias.flow = FlowId{i};
    alias.clock = Clock{1};
    alias.key = inside;
    alias.key.source = V4(203, 0, 113, 1);
    alias.key.source_port = be16(static_cast<uint16_t>(1'024 + i));
    ingress.on_alias(alias, inside);
    EXPECT_EQ(ingress.inside_ends(), 1u);
    EXPECT_EQ(ingress.FlowOf(alias.key), inside);
    ingress.ForgetAlias(alias.flow, alias.clock);
    EXPECT_EQ(ingress.FlowOf(alias.key), alias.key);
  }
  EXPECT_EQ(ingress.inside_ends(), 0u);
}

TEST(Ingress, NotesTheSideAlsoForAnNfThatHasNone) {
  BufferPool buffers({.small = 4, .medium = 1, .large = 1});
  const Function nf(FlowScope::kConnection);
  Ingress ingress({}, nf, buffers);
  const Frame frame = Query();
  const Ingress::Taken& taken =
      ingress.Take(Instant{}, PacketOf(frame, Side::kOutside));
  EXPECT_FALSE(taken.by_alias);
  EXPECT_EQ(buffers.info(taken.packet).side, Side::kOutside);
}

// A fragment of an IPv4 packet that is cut after 48 bytes of its payload.
Frame FragmentOf(uint16_t id, uint8_t protocol, const Frame& payload,
                 bool is_first) {
  const Ipv4Fields fields = {
      .protocol = protocol,
      .id = id,
      .fragment_offset_bytes = static_cast<uint16_t>(is_first ? 0 : 48),
      .more_fragments = is_first};
  return Ethernet(0x0800, Ipv4(fields, payload));
}

TEST(Ingress, KeepsFragmentsUntilTheFirstOneHasCome) {
  using Fate = Ingress::Taken::Fate;
  BufferPool buffers({.small = 4, .medium = 1, .large = 1});
  const Function nf(FlowScope::kInsideEndpoint);
  Ingress ingress({}, nf, buffers);
  ingress.KeepEarlyFragments();
  const Frame later = FragmentOf(7, 17, Frame(48), false);
  const Frame first = FragmentOf(7, 17, Udp(5000, 53, 40), true);
  EXPECT_EQ(ingress.Take(Instant{}, PacketOf(later, Side::kInside)).fate,
            Fate::kKept);
  EXPECT_EQ(ingress.NextKept(Instant{}), nullptr);
  EXPECT_EQ(ingress.Take(Instant{}, PacketOf(first, Side::kInside)).fate,
            Fate::kPacket);
  const CapturedPacket* const kept = ingress.NextKept(Instant{});
  ASSERT_NE(kept, nullptr);
  const Ingress::Taken& taken = ingress.Take(Instant{}, *kept);
  ASSERT_EQ(taken.fate, Fate::kPacket);
  EXPECT_EQ(taken.key->source_port, be16(5000));
  EXPECT_TRUE(std::ranges::equal(buffers.bytes(taken.packet), later));
  EXPECT_EQ(ingress.NumberOf(taken.packet), 1u);
  EXPECT_EQ(ingress.NextKept(Instant::max()), nullptr);
  EXPECT_EQ(ingress.counters().packets(), 2u);
  EXPECT_EQ(ingress.counters().fragments_unmatched, 0u);
  EXPECT_EQ(ingress.fragments_kept(), 1u);
  EXPECT_EQ(ingress.fragments_kept_matched(), 1u);
}

// The first fragment has come, though its flow has the key of another one.
TEST(Ingress, KeepsNoFragmentOfAnErrorThatQuotesAFragment) {
  using Fate = Ingress::Taken::Fate;
  BufferPool buffers({.small = 4, .medium = 1, .large = 1});
  const Function nf(FlowScope::kInsideEndpoint);
  Ingress ingress({}, nf, buffers);
  ingress.KeepEarlyFragments();
  const Frame quoted =
      Ipv4({.id = 9, .fragment_offset_bytes = 48, .more_fragments = false},
           Frame(12));
  const Frame first = FragmentOf(7, 1, Icmp(3, 1, 0, quoted), true);
  const Frame later = FragmentOf(7, 1, Frame(48), false);
  EXPECT_EQ(ingress.Take(Instant{}, PacketOf(first, Side::kInside)).fate,
            Fate::kDropped);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ingress.Take(Instant{}, PacketOf(later, Side::kInside)).fate,
              Fate::kDropped);
  }
  EXPECT_EQ(ingress.counters().fragments_unmatched, 1u);
  EXPECT_EQ(ingress.fragments_kept(), 0u);
}

// The NF gives fragments of all packets one key, which is none of a packet.
TEST(Ingress, KeepsFragmentsBeforeABarrierWithFlowKeysOfItsOwn) {
  using Fate = Ingress::Taken::Fate;
  for (const bool is_barrier : {false, true}) {
    BufferPool buffers({.small = 8, .medium = 1, .large = 1});
    const Function nf(FlowScope::kOwnKey, is_barrier);
    Ingress ingress({}, nf, buffers);
    ingress.KeepEarlyFragments();
    const auto fate = [&](const Frame& frame) {
      return ingress.Take(Instant{}, PacketOf(frame, Side::kInside)).fate;
    };
    const Frame later = FragmentOf(7, 17, Frame(48), false);
    EXPECT_EQ(fate(later), is_barrier ? Fate::kKept : Fate::kPacket);
    EXPECT_EQ(fate(FragmentOf(8, 17, Udp(5000, 53, 40), true)), Fate::kPacket);
    EXPECT_EQ(ingress.NextKept(Instant{}), nullptr);
    EXPECT_EQ(fate(FragmentOf(7, 17, Udp(5000, 53, 40), true)), Fate::kPacket);
    const CapturedPacket* const kept = ingress.NextKept(Instant{});
    ASSERT_EQ(kept != nullptr, is_barrier);
    if (!is_barrier) continue;
    EXPECT_EQ(ingress.Take(Instant{}, *kept).fate, Fate::kPacket);
    EXPECT_EQ(ingress.fragments_kept_matched(), 1u);
  }
}

TEST(Ingress, KeepsNoFragmentsBeforeABarrierThatNeedsNoFirstOne) {
  BufferPool buffers({.small = 4, .medium = 1, .large = 1});
  const Function nf(FlowScope::kOwnKey, true, false);
  Ingress ingress({}, nf, buffers);
  ingress.KeepEarlyFragments();
  const Frame later = FragmentOf(7, 17, Frame(48), false);
  EXPECT_EQ(ingress.Take(Instant{}, PacketOf(later, Side::kInside)).fate,
            Ingress::Taken::Fate::kPacket);
  EXPECT_EQ(ingress.fragments_kept(), 0u);
}

TEST(Ingress, AsksAnNfWithFlowKeysOfItsOwnForTheKey) {
  BufferPool buffers({.small = 4, .medium = 1, .large = 1});
  const Function nf(FlowScope::kOwnKey);
  Ingress ingress({}, nf, buffers);
  const Frame frame = Query();
  const Ingress::Taken& taken =
      ingress.Take(Instant{}, PacketOf(frame, Side::kInside));
  FlowKey key;
  key.protocol = IpProtocol::kUdp;
  EXPECT_EQ(*taken.key, key);
  EXPECT_EQ(*taken.flow, key);
  EXPECT_FALSE(taken.by_alias);
  // The packet leaves by its side, which is still that of the port.
  EXPECT_EQ(buffers.info(taken.packet).side, Side::kInside);
}

}  // namespace
}  // namespace snf
