// SPDX-License-Identifier: Apache-2.0
#include "platform/run/own_keys.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "base/packet/test_packets.h"

namespace snf {
namespace {

const Frame kFrame = Ipv4({}, Udp(5000, 53));  // 10.0.0.1 > 192.0.2.9

class Keyed : public NetworkFunction {
 public:
  FlowScope flow_scope() const override { return FlowScope::kOwnKey; }
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
};

// Makes one flow of all packets to a port.
class ByPort final : public Keyed {
 public:
  OwnFlow flow_key(const KeyedPacket& packet) const override {
    const bool is_back = packet.direction == Direction::kReverse;
    FlowKey key;
    key.destination_port = is_back ? packet.connection.source_port
                                   : packet.connection.destination_port;
    key.form = packet.connection.form;
    return {.key = key, .side = is_back ? Side::kOutside : Side::kInside};
  }
};

FlowKey KeyOf(const NetworkFunction& nf, const Frame& frame) {
  FlowClassifier classifier({});
  const OwnKeys keys(nf);
  EXPECT_TRUE(keys.any());
  ParsedPacket headers;
  FlowKey key;
  const Direction direction =
      classifier.Classify({}, LinkType::kRawIp, frame, headers, key);
  for (int i = 0; i < 200; ++i) {
    FlowKey again = key;
    keys.Apply(frame, headers, direction, again);
    if (i == 199) key = again;
  }
  return key;
}

TEST(OwnKeys, AskTheNf) {
  const FlowKey key = KeyOf(ByPort(), kFrame);
  EXPECT_EQ(key.destination_port, be16(53));
  EXPECT_EQ(key.source_port, be16(0));
  const FlowKey other = KeyOf(ByPort(), Ipv4({}, Udp(6000, 53)));
  EXPECT_EQ(key, other);
}

TEST(OwnKeys, AreThoseOfTheConnectionIfTheNfHasNone) {
  class Plain final : public Keyed {};
  FlowKey connection;
  ConnectionKey(kFrame, Parse(LinkType::kRawIp, kFrame), false, connection);
  EXPECT_EQ(KeyOf(Plain(), kFrame), connection);
}

TEST(OwnKeysDeathTest, EndTheProcessIfTheFunctionIsNotPure) {
  class Impure final : public Keyed {
    OwnFlow flow_key(const KeyedPacket& packet) const override {
      OwnFlow flow = {.key = packet.connection};
      flow.key.vlan = be16(static_cast<uint16_t>(++asked_));
      return flow;
    }
    mutable uint32_t asked_ = 0;
  };
  EXPECT_DEATH(KeyOf(Impure(), kFrame),
               "gave two flows for one packet, .* it must depend on the packet "
               "alone");
}

TEST(OwnKeysDeathTest, EndTheProcessIfTheFunctionThrowsOrGivesNoKey) {
  class Throws final : public Keyed {
    OwnFlow flow_key(const KeyedPacket&) const override {
      throw std::runtime_error("no key");
    }
  };
  class Empty final : public Keyed {
    OwnFlow flow_key(const KeyedPacket&) const override { return {}; }
  };
  EXPECT_DEATH(KeyOf(Throws(), kFrame), "no key");
  EXPECT_DEATH(KeyOf(Empty(), kFrame), "gave the empty key");
}

// The classifier finds the same, except for later fragments.
TEST(KeyedPacket, HasTheConnectionAndDirectionOfThePacket) {
  FlowClassifier classifier({});
  const Frame error = Ipv4({.source = V4(203, 0, 113, 5),
                            .destination = V4(10, 0, 0, 1),
                            .protocol = 1},
                           Icmp(3, 1, 0, kFrame));
  for (const Frame& frame :
       {kFrame,
        Ipv4({.source = V4(192, 0, 2, 9), .destination = V4(10, 0, 0, 1)},
             Udp(53, 5000)),
        error}) {
    ParsedPacket headers;
    FlowKey key;
    const Direction direction =
        classifier.Classify({}, LinkType::kRawIp, frame, headers, key);
    const KeyedPacket packet = KeyedPacket::Of(frame, headers);
    EXPECT_EQ(packet.connection, key);
    EXPECT_EQ(packet.direction, direction);
  }
  const Frame later = Ipv4({.id = 9, .fragment_offset_bytes = 24}, Frame(16));
  const ParsedPacket headers = Parse(LinkType::kRawIp, later);
  EXPECT_EQ(KeyedPacket::Of(later, headers).connection,
            FragmentKey(later, headers, false));
}

}  // namespace
}  // namespace snf
