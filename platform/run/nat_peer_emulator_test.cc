// SPDX-License-Identifier: Apache-2.0
#include "platform/run/nat_peer_emulator.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "base/packet/endpoint.h"
#include "base/packet/flow_key_text.h"
#include "base/packet/test_packets.h"
#include "base/rng.h"

namespace snf {
namespace {

FlowKey Key(const std::string& text) {
  const absl::StatusOr<FlowKey> key = ParseFlowKey(text);
  EXPECT_TRUE(key.ok()) << key.status();
  return key.value_or(FlowKey{});
}

IpPrefix V4Prefix(const IpAddress& address, uint8_t length) {
  return {.address = address, .length = static_cast<uint8_t>(96 + length)};
}

// What becomes of a packet "tcp 10.0.0.1:5000 > 192.0.2.9:80".
std::string Place(NatPeerEmulator& peer_emulator, const std::string& packet) {
  FlowKey key = Key(packet);
  const bool swapped = Canonicalize(key);
  const NatPeerEmulator::Placed placed = peer_emulator.Place(
      EndpointsOf(key, swapped ? Direction::kReverse : Direction::kForward));
  std::string text = placed.side == Side::kInside    ? "inside "
                     : placed.side == Side::kOutside ? "outside "
                                                     : "? ";
  text += ToString(placed.key);
  if (placed.key != placed.inside) {
    text += " of " + ToString(placed.inside);
  }
  if (placed.rewrite) text += " rewritten";
  if (placed.untranslated) text += " untranslated";
  return text;
}

FlowKey End(uint32_t number) {
  return Key("tcp 10.0.0.1:" + std::to_string(number));
}

TEST(NatPeerEmulator, ForgetsWhoSentLongAgo) {
  NatPeerEmulator peer_emulator({}, 100);
  const FlowKey external = Key("tcp 198.51.100.1:1024");
  Place(peer_emulator, "tcp 10.0.0.1:1 > 192.0.2.9:80");
  peer_emulator.on_alias(End(1), external);
  for (uint32_t port = 2; port < 1'000; ++port) {
    Place(peer_emulator,
          "tcp 10.0.0.1:" + std::to_string(port) + " > 192.0.2.9:80");
    EXPECT_LE(peer_emulator.known(), 101u);
  }
  // What is announced is known, and so is the last one that sent.
  EXPECT_EQ(Place(peer_emulator, "tcp 192.0.2.9:80 > 10.0.0.1:1"),
            "outside tcp 198.51.100.1:1024 of tcp 10.0.0.1:1 rewritten");
  EXPECT_EQ(Place(peer_emulator, "tcp 192.0.2.9:80 > 10.0.0.1:999"),
            "outside tcp 10.0.0.1:999 untranslated");
  EXPECT_EQ(Place(peer_emulator, "tcp 192.0.2.7:80 > 10.0.0.1:2"),
            "inside tcp 192.0.2.7:80");
  // From its end on it is one of many.
  peer_emulator.on_flow_over(End(1));
  EXPECT_EQ(peer_emulator.InsideOf(external), nullptr);
  EXPECT_LE(peer_emulator.known(), 101u);
}

TEST(NatPeerEmulator, WithAnInsideKnowsOnlyWhatIsAnnounced) {
  NatPeerEmulator peer_emulator({V4Prefix(V4(10, 0, 0, 0), 9)});
  for (uint32_t port = 1; port < 1'000; ++port) {
    const FlowKey external =
        Key("tcp 198.51.100.1:" + std::to_string(1'000 + port % 2));
    peer_emulator.on_alias(End(port), external);
    EXPECT_LE(peer_emulator.known(), 2u);
    EXPECT_EQ(*peer_emulator.InsideOf(external), End(port));
  }
  peer_emulator.on_flow_over(End(999));
  peer_emulator.on_flow_over(End(998));
  EXPECT_EQ(peer_emulator.known(), 0u);
}

TEST(NatPeerEmulator, TakesTheEndThatSendsFirstForTheInside) {
  NatPeerEmulator peer_emulator({});
  EXPECT_EQ(Place(peer_emulator, "tcp 10.0.0.1:5000 > 192.0.2.9:80"),
            "inside tcp 10.0.0.1:5000");
  EXPECT_EQ(Place(peer_emulator, "tcp 192.0.2.9:80 > 10.0.0.1:5000"),
            "outside tcp 10.0.0.1:5000 untranslated");
  // Whoever else sends to it, too; but another port is another end.
  EXPECT_EQ(Place(peer_emulator, "tcp 192.0.2.7:81 > 10.0.0.1:5000"),
            "outside tcp 10.0.0.1:5000 untranslated");
  EXPECT_EQ(Place(peer_emulator, "tcp 192.0.2.7:81 > 10.0.0.1:5001"),
            "inside tcp 192.0.2.7:81");
}

TEST(NatPeerEmulator, SendsAnswersToWhatWasAnnounced) {
  NatPeerEmulator peer_emulator({});
  Place(peer_emulator, "udp 10.0.0.1:5000 > 192.0.2.9:53");
  const FlowKey inside = Key("udp 10.0.0.1:5000");
  peer_emulator.on_alias(inside, Key("udp 198.51.100.1:1024"));
  EXPECT_EQ(Place(peer_emulator, "udp 192.0.2.9:53 > 10.0.0.1:5000"),
            "outside udp 198.51.100.1:1024 of udp 10.0.0.1:5000 rewritten");
  EXPECT_EQ(Place(peer_emulator, "udp 10.0.0.1:5000 > 192.0.2.9:53"),
            "inside udp 10.0.0.1:5000");
  // As one in whose name it is, a packet to the external end stays.
  EXPECT_EQ(Place(peer_emulator, "udp 192.0.2.9:53 > 198.51.100.1:1024"),
            "outside udp 198.51.100.1:1024 of udp 10.0.0.1:5000");

  peer_emulator.on_alias(inside, Key("udp 198.51.100.1:1025"));
  EXPECT_EQ(Place(peer_emulator, "udp 192.0.2.9:53 > 10.0.0.1:5000"),
            "outside udp 198.51.100.1:1025 of udp 10.0.0.1:5000 rewritten");
  EXPECT_EQ(peer_emulator.InsideOf(Key("udp 198.51.100.1:1024")), nullptr);
  EXPECT_NE(peer_emulator.InsideOf(Key("udp 198.51.100.1:1025")), nullptr);
  EXPECT_EQ(peer_emulator.InsideOf(Key("tcp 198.51.100.1:1025")), nullptr);

  peer_emulator.on_flow_over(inside);
  peer_emulator.on_flow_over(inside);
  EXPECT_EQ(peer_emulator.InsideOf(Key("udp 198.51.100.1:1025")), nullptr);
  EXPECT_EQ(Place(peer_emulator, "udp 192.0.2.9:53 > 10.0.0.1:5000"),
            "outside udp 10.0.0.1:5000 untranslated");
}

TEST(NatPeerEmulator, GivesAnExternalEndToItsLastOwner) {
  NatPeerEmulator peer_emulator({});
  const FlowKey external = Key("udp 198.51.100.1:1024");
  peer_emulator.on_alias(Key("udp 10.0.0.1:1"), external);
  peer_emulator.on_alias(Key("udp 10.0.0.2:2"), external);
  EXPECT_EQ(Place(peer_emulator, "udp 192.0.2.9:53 > 10.0.0.1:1"),
            "outside udp 10.0.0.1:1 untranslated");
  EXPECT_EQ(Place(peer_emulator, "udp 192.0.2.9:53 > 198.51.100.1:1024"),
            "outside udp 198.51.100.1:1024 of udp 10.0.0.2:2");
  // The former owner's end takes nothing from the present one.
  peer_emulator.on_flow_over(Key("udp 10.0.0.1:1"));
  EXPECT_NE(peer_emulator.InsideOf(external), nullptr);
}

TEST(NatPeerEmulator, KnowsAtWhichAddressesAnyIsAnnounced) {
  NatPeerEmulator peer_emulator({});
  Rng rng(1);
  std::map<uint32_t, uint32_t> address_of;  // of an inside end, by its number
  for (int step = 0; step < 3'000; ++step) {
    const auto end = static_cast<uint32_t>(1 + rng.Below(30));
    if (rng.Below(2) == 0) {
      const auto address = static_cast<uint32_t>(rng.Below(90));
      const std::string external =
          fmt::format("198.51.100.{}:{}", address, end);
      peer_emulator.on_alias(End(end), Key("tcp " + external));
      address_of[end] = address;
    } else {
      peer_emulator.on_flow_over(End(end));
      address_of.erase(end);
    }
    for (uint32_t address = 0; address < 90; ++address) {
      const bool has = std::ranges::any_of(
          address_of, [=](const auto& of) { return of.second == address; });
      ASSERT_EQ(peer_emulator.HasExternal(
                    V4(198, 51, 100, static_cast<uint8_t>(address))),
                has)
          << "step " << step << ", address " << address;
    }
  }
}

TEST(NatPeerEmulator, BelievesThePrefixesThatItWasGiven) {
  NatPeerEmulator peer_emulator({V4Prefix(V4(10, 0, 0, 0), 9)});
  EXPECT_EQ(Place(peer_emulator, "tcp 192.0.2.9:80 > 10.127.0.1:5000"),
            "outside tcp 10.127.0.1:5000 untranslated");
  EXPECT_EQ(Place(peer_emulator, "tcp 10.127.0.1:5000 > 192.0.2.9:80"),
            "inside tcp 10.127.0.1:5000");
  peer_emulator.on_alias(Key("tcp 10.127.0.1:5000"), Key("tcp 198.51.100.1:9"));
  EXPECT_EQ(Place(peer_emulator, "tcp 192.0.2.9:80 > 10.127.0.1:5000"),
            "outside tcp 198.51.100.1:9 of tcp 10.127.0.1:5000 rewritten");
  // Between two of the inside it never came to the NAT; of two others, from
  // outside.
  EXPECT_EQ(Place(peer_emulator, "tcp 10.0.0.1:1 > 10.0.0.2:2"),
            "inside tcp 10.0.0.1:1 untranslated");
  EXPECT_EQ(Place(peer_emulator, "tcp 10.128.0.1:1 > 192.0.2.9:2"),
            "outside tcp 192.0.2.9:2");
}

}  // namespace
}  // namespace snf
