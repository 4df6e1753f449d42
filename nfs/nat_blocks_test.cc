// SPDX-License-Identifier: Apache-2.0
// Port blocks by subscriber (RFC 7422); nfs/nat.md names these tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nfs/test_nat.h"
#include "runtime/sdk/nf_spec.h"
#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

using ::testing::HasSubstr;

const TestEnd kServer = {V4(192, 0, 9, 9), 53};

TestEnd Subscriber(uint8_t number, uint16_t port) {
  return {V4(10, 0, 0, number), port};
}

// The external end that the NAT gives an inside end; port 0: none.
TestEnd ExternalOf(TestNat& nat, uint8_t protocol, const TestEnd& inside) {
  TestNat::Flow flow = nat.NewFlow();
  const TestNat::Sent sent =
      nat.FromInside(flow, Between(protocol, inside, kServer));
  return sent.drop.empty() ? SourceOf(sent.frame) : TestEnd{};
}

TEST(NatBlocks, GiveEachSubscriberItsOwnPorts) {
  // Two addresses have three blocks each.
  TestNat nat(
      "ip=192.0.2.1-192.0.2.2,ports=1024-1250,port_block=64,"
      "subscribers=10.0.0.0/30");
  std::set<std::pair<uint8_t, uint16_t>> ports;
  for (const uint8_t protocol : {uint8_t{1}, uint8_t{6}, uint8_t{17}}) {
    for (uint8_t number = 0; number < 4; ++number) {
      for (uint16_t i = 0; i < 64; ++i) {
        const TestEnd end = ExternalOf(
            nat, protocol,
            Subscriber(number, static_cast<uint16_t>(5'000 + 7 * i)));
        EXPECT_EQ(end.address, V4(192, 0, 2, number < 3 ? 1 : 2));
        const int first = 1024 + number % 3 * 64;
        EXPECT_GE(end.port, first);
        EXPECT_LT(end.port, first + 64);
        if (number < 3) {
          EXPECT_TRUE(ports.insert({protocol, end.port}).second);
        }
      }
    }
  }
}

TEST(NatBlocks, KeepParityAndLeaveForwardsOut) {
  TestNat nat(
      "ip=192.0.2.1,ports=1024-2047,port_block=128,subscribers=10.0.0.0/29,"
      "forward=udp:192.0.2.1:1152->10.0.0.5:53");
  std::map<int, int> parities;
  for (uint16_t port = 4'000; port < 4'064; ++port) {
    const TestEnd end = ExternalOf(nat, 17, Subscriber(1, port));
    EXPECT_EQ(end.port % 2, port % 2);
    EXPECT_NE(end.port, 1152);
    EXPECT_GE(end.port, 1152);
    EXPECT_LT(end.port, 1280);
  }
}

TEST(NatBlocks, LimitOneSubscriberAlone) {
  NfTest nf(
      "nat:ip=192.0.2.1,ports=1024-1151,port_block=64,udp_timeout=2s,"
      "subscribers=10.0.0.0/31");
  const auto send = [&](int host, int port) {
    const std::string text =
        nf.Send("udp 10.0.0." + std::to_string(host) + ":" +
                std::to_string(port) + " > 192.0.9.9:53")
            .text;
    return text.starts_with("drop") ? text : "";
  };
  for (int port = 5'000; port < 5'064; ++port) EXPECT_EQ(send(1, port), "");
  EXPECT_EQ(send(1, 6'000), "drop ports_exhausted");
  for (int port = 5'000; port < 5'064; ++port) EXPECT_EQ(send(0, port), "");
  EXPECT_EQ(send(0, 6'000), "drop ports_exhausted");
  nf.Pass(Seconds(4));
  for (int port = 7'000; port < 7'064; ++port) EXPECT_EQ(send(1, port), "");
  EXPECT_EQ(send(1, 6'000), "drop ports_exhausted");
}

// Two subscribers, a block of 64 ports each, and 64 ports that they share.
TEST(NatBlocks, GiveMorePortsOfAnOverflowUpToALimit) {
  NfTest nf(
      "nat:ip=192.0.2.1,ports=1024-1215,port_block=64,overflow=64,"
      "udp_timeout=2s,host_ports=100,log_bindings=true,"
      "subscribers=10.0.0.0/31");
  const auto external_ports = [&](int host, int first, int last) {
    std::set<int> ports;
    for (int port = first; port <= last; ++port) {
      const std::string text =
          nf.Send("udp 10.0.0." + std::to_string(host) + ":" +
                  std::to_string(port) + " > 192.0.9.9:53")
              .text;
      constexpr std::string_view kFrom = "udp 192.0.2.1:";
      if (text.starts_with(kFrom)) {
        EXPECT_TRUE(ports.insert(std::stoi(text.substr(kFrom.size()))).second);
      }
    }
    return ports;
  };
  const std::set<int> own = external_ports(1, 5'000, 5'063);
  EXPECT_EQ(own.size(), 64u);
  EXPECT_EQ(*own.begin(), 1'088);
  EXPECT_EQ(*own.rbegin(), 1'151);
  const std::set<int> more = external_ports(1, 6'000, 6'035);
  EXPECT_EQ(more.size(), 36u);
  EXPECT_GE(*more.begin(), 1'152);
  // The other one has its block, and what is left of the overflow.
  const std::set<int> others = external_ports(0, 7'000, 7'099);
  EXPECT_EQ(others.size(), 64u + 28u);
  EXPECT_EQ(*others.begin(), 1'024);
  for (const int port : others) EXPECT_FALSE(more.contains(port)) << port;
  // A binding outside of a block is in the log, as all are.
  size_t shared = 0;
  for (const std::string& line : nf.TakeLog("nat.bindings")) {
    const size_t at = line.find("\"external_port\":");
    if (at == std::string::npos || line.find("created") == std::string::npos)
      continue;
    shared += std::stoi(line.substr(at + 16)) >= 1'152 ? 1 : 0;
  }
  EXPECT_EQ(shared, 64u);
  // Ports are free with their mappings.
  nf.Pass(Seconds(4));
  EXPECT_EQ(external_ports(0, 8'000, 8'127).size(), 100u);
}

// Ports of blocks follow from the options.
TEST(NatBlocks, LogOnlyPortsOfTheOverflowIfAskedTo) {
  NfTest nf(
      "nat:ip=192.0.2.1,ports=1024-1215,port_block=64,overflow=64,"
      "udp_timeout=2s,host_ports=70,log_bindings=overflow,"
      "subscribers=10.0.0.0/31");
  for (int port = 5'000; port < 5'072; ++port) {
    nf.Send("udp 10.0.0.1:" + std::to_string(port) + " > 192.0.9.9:53");
  }
  nf.Pass(Seconds(4));
  std::map<std::string, std::set<int>> ports;
  size_t refused = 0;
  for (const std::string& line : nf.TakeLog("nat.bindings")) {
    const size_t at = line.find("\"external_port\":");
    if (at == std::string::npos) {
      refused += line.find("\"host_ports\"") != std::string::npos ? 1 : 0;
      continue;
    }
    const char* const event =
        line.find("created") != std::string::npos ? "created" : "released";
    ports[event].insert(std::stoi(line.substr(at + 16)));
  }
  EXPECT_GE(ports["created"].size(), 6u);
  EXPECT_GE(*ports["created"].begin(), 1'152);
  EXPECT_EQ(ports["released"], ports["created"]);
  EXPECT_GE(refused, 1u);
}

TEST(NatBlocks, DropAddressesWithoutABlock) {
  TestNat nat("ip=192.0.2.1,port_block=512,subscribers=10.0.0.64/26");
  const size_t pieces = nat.pieces();
  for (const uint8_t number : {uint8_t{63}, uint8_t{128}}) {
    TestNat::Flow flow = nat.NewFlow();
    EXPECT_EQ(
        nat.FromInside(flow, Between(17, Subscriber(number, 5000), kServer))
            .drop,
        "not_subscriber");
  }
  EXPECT_EQ(nat.pieces(), pieces);
  EXPECT_EQ(ExternalOf(nat, 17, Subscriber(64, 5000)).port, 1024 + 5000 % 512);
  EXPECT_EQ(ExternalOf(nat, 17, Subscriber(127, 5000)).port,
            1024 + 63 * 512 + 5000 % 512);
}

TEST(NatBlocks, AreTheSameEverywhere) {
  std::vector<std::string> packets;
  for (int i = 0; i < 120; ++i) {
    const std::string host = "10.0.0." + std::to_string(i % 4);
    const std::string port = std::to_string(5'000 + i % 30);
    packets.push_back((i % 3 == 0 ? "tcp " : "udp ") + host + ":" + port +
                      " > 192.0.2.9:53" + (i % 3 == 0 ? " SYN" : ""));
  }
  EXPECT_TRUE(RunEverywhere(
      "nat:ip=198.51.100.1,port_block=256,subscribers=10.0.0.0/30,"
      "udp_timeout=20ms",
      Packets(packets)));
  // A host needs more than its block, and another does not.
  packets.clear();
  for (int i = 0; i < 640; ++i) {
    packets.push_back("udp 10.0.0." + std::to_string(i % 40 == 0 ? 1 : 0) +
                      ":" + std::to_string(5'000 + i % 320) +
                      " > 192.0.2.9:53");
  }
  EXPECT_TRUE(
      RunEverywhere("nat:ip=198.51.100.1,port_block=256,overflow=512,"
                    "subscribers=10.0.0.0/31",
                    Packets(packets)));
}

TEST(NatBlocks, AreRefusedByName) {
  const auto why = [](const std::string& options) {
    const auto spec = NfSpec::Parse("nat(ip=192.0.2.1," + options + ")");
    return std::string((spec.ok() ? spec->check() : spec.status()).message());
  };
  const std::string all = "subscribers=10.0.0.0/26,port_block=512";
  EXPECT_EQ(why(all), "");
  EXPECT_THAT(why("port_block=100,subscribers=10.0.0.0/26"),
              HasSubstr("a multiple of 64"));
  EXPECT_THAT(why("subscribers=10.0.0.0/26"), HasSubstr("with port_block"));
  for (const std::string text :
       {"", "10.0.0.0/22", "fd00::/120", "10.0.0.0/26+10.1.0.0/26", "x"}) {
    EXPECT_THAT(why("port_block=64,subscribers=" + text),
                HasSubstr("one network of IPv4 with at most 512 addresses"))
        << text;
  }
  EXPECT_EQ(why(all + ",overflow=4096"), "");
  EXPECT_THAT(why("overflow=64"), HasSubstr("overflow"));
  EXPECT_EQ(why(all + ",overflow=4096,log_bindings=overflow"), "");
  EXPECT_THAT(why(all + ",log_bindings=overflow"),
              HasSubstr("overflow only with overflow"));
  EXPECT_THAT(why(all + ",log_bindings=some"),
              HasSubstr("one of false, true, overflow"));
  EXPECT_THAT(why(all + ",overflow=100"), HasSubstr("a multiple of 64"));
  EXPECT_THAT(why(all + ",ports=1024-2047,overflow=1024"),
              HasSubstr("fewer ports than there are"));
  EXPECT_THAT(why("port_block=512,subscribers=10.0.0.0/26,overflow=32768"),
              HasSubstr("64 blocks, not 62"));
  EXPECT_THAT(why("port_block=512,subscribers=10.0.0.0/25"),
              HasSubstr("128 blocks, not 126"));
  EXPECT_THAT(why(all + ",pool=10.0.0.0/24:192.0.2.2"),
              HasSubstr("without pool and nat64"));
  EXPECT_THAT(why(all + ",nat64=64:ff9b::/96"),
              HasSubstr("without pool and nat64"));
}

}  // namespace
}  // namespace snf
