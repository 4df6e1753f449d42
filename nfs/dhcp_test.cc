// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/packet/checksum.h"
#include "base/packet/headers.h"
#include "base/packet/packet_parser.h"
#include "base/rng.h"
#include "base/test_seeds.h"
#include "gtest/gtest.h"
#include "nfs/dhcp_message.h"
#include "runtime/sdk/nf_registry.h"
#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

enum Type : uint8_t {
  kDiscover = 1,
  kOffer,
  kRequest,
  kDecline,
  kAck,
  kNak,
  kRelease,
  kInform
};

std::string Hex2(uint32_t byte) {
  char text[4];
  std::snprintf(text, sizeof text, "%02x", byte & 0xff);
  return text;
}
std::string Hex8(uint32_t word) {
  return absl::StrCat(Hex2(word >> 24), Hex2(word >> 16), Hex2(word >> 8),
                      Hex2(word));
}

// A client's message. Addresses are numbers, 0 for none.
struct Client {
  uint8_t type = kDiscover;
  uint8_t host = 1;  // the last byte of its hardware address
  uint32_t requested = 0;
  uint32_t server = 0;
  uint32_t has = 0;    // ciaddr
  uint32_t relay = 0;  // giaddr
  bool broadcast = false;
  std::string more = "";  // options, in hexadecimal
  std::string from = "0.0.0.0:68";
  std::string to = "255.255.255.255:67";

  std::string payload() const {
    std::string hex = absl::StrCat("01010600", "11223344", "0000",
                                   broadcast ? "8000" : "0000");
    hex += absl::StrCat(Hex8(has), Hex8(0), Hex8(0), Hex8(relay));
    hex += absl::StrCat("0200000000", Hex2(host), std::string(20, '0'));
    absl::StrAppend(&hex, std::string(2 * 192, '0'), "63825363");
    absl::StrAppend(&hex, "3501", Hex2(type));
    if (requested != 0) absl::StrAppend(&hex, "3204", Hex8(requested));
    if (server != 0) absl::StrAppend(&hex, "3604", Hex8(server));
    absl::StrAppend(&hex, more, "ff");
    return hex;
  }
  std::string text() const {
    return absl::StrCat("udp ", from, " > ", to, " x'", payload(),
                        "' src=", "02:00:00:00:00:", Hex2(host),
                        " dst=ff:ff:ff:ff:ff:ff");
  }
};

// The server's answer.
struct Answer {
  uint8_t type = 0;  // 0: there was none
  uint32_t yours = 0;
  std::string destination;  // of IP, with the port
  std::map<uint8_t, std::vector<uint8_t>> options;

  uint32_t word(uint8_t code) const {
    const auto found = options.find(code);
    if (found == options.end() || found->second.size() < 4) return 0;
    const std::vector<uint8_t>& v = found->second;
    return uint32_t{v[0]} << 24 | uint32_t{v[1]} << 16 | uint32_t{v[2]} << 8 |
           v[3];
  }
};

class Server {
 public:
  explicit Server(const std::string& options = "")
      : nf_(absl::StrCat("dhcp:", options)) {}

  // Returns the answer to the message, which must be consumed.
  Answer Ask(const Client& client) {
    EXPECT_EQ(nf_.Send(client.text()), "consume");
    const std::vector<TestPacket> emitted = nf_.TakeEmittedPackets();
    if (emitted.empty()) return {};
    EXPECT_EQ(emitted.size(), 1u);
    return Read(emitted[0]);
  }
  // Has a client discover and request; returns its address.
  uint32_t Lease(uint8_t host) {
    const Answer offer = Ask({.host = host});
    EXPECT_EQ(offer.type, kOffer);
    const Answer ack = Ask({.type = kRequest,
                            .host = host,
                            .requested = offer.yours,
                            .server = kServer});
    EXPECT_EQ(ack.type, kAck);
    EXPECT_EQ(ack.yours, offer.yours);
    return ack.yours;
  }
  NfTest& nf() { return nf_; }

  static constexpr uint32_t kServer = 0x0a00'0001;

 private:
  static Answer Read(const TestPacket& packet) {
    const std::string text = ToText(packet);
    EXPECT_EQ(text.find("bad_"), std::string::npos) << text;
    const ParsedPacket headers = Parse(packet.link, packet.bytes);
    const std::span<const std::byte> payload =
        std::span(packet.bytes)
            .subspan(headers.payload_offset, headers.payload_bytes());
    EXPECT_GE(payload.size(), 300u);
    Answer answer;
    answer.destination = text.substr(text.find("> ") + 2);
    answer.destination.erase(answer.destination.find(' '));
    answer.yours = LoadBe32(&payload[16]).host();
    for (size_t at = 240; payload[at] != std::byte{255};) {
      const auto code = std::to_integer<uint8_t>(payload[at]);
      const auto bytes = std::to_integer<size_t>(payload[at + 1]);
      std::vector<uint8_t>& value = answer.options[code];
      for (size_t i = 0; i < bytes; ++i) {
        value.push_back(std::to_integer<uint8_t>(payload[at + 2 + i]));
      }
      at += 2 + bytes;
    }
    answer.type = answer.options[53].at(0);
    return answer;
  }

  NfTest nf_;
};

TEST(Dhcp, LeasesAnAddressInFourMessages) {
  Server server("router=10.0.0.254,dns=10.0.0.2+10.0.0.3,lease=2h");
  const Answer offer = server.Ask({});
  EXPECT_EQ(offer.type, kOffer);
  EXPECT_GE(offer.yours, 0x0a00'0064u);
  EXPECT_LE(offer.yours, 0x0a00'00c7u);
  EXPECT_EQ(offer.word(54), Server::kServer);
  EXPECT_EQ(offer.word(51), 7'200u);
  EXPECT_EQ(offer.word(58), 3'600u);
  EXPECT_EQ(offer.word(59), 6'300u);
  EXPECT_EQ(offer.word(1), 0xffff'ff00u);
  EXPECT_EQ(offer.word(3), 0x0a00'00feu);
  EXPECT_EQ(offer.options.at(6).size(), 8u);
  const Answer ack = server.Ask(
      {.type = kRequest, .requested = offer.yours, .server = Server::kServer});
  EXPECT_EQ(ack.type, kAck);
  EXPECT_EQ(ack.yours, offer.yours);
  EXPECT_EQ(server.nf().count("leased"), 1u);
  // The same client is offered the same address.
  EXPECT_EQ(server.Ask({}).yours, offer.yours);
}

TEST(Dhcp, GivesTheAddressThatIsWantedIfItIsFree) {
  Server server;
  EXPECT_EQ(server.Ask({.requested = 0x0a00'0077}).yours, 0x0a00'0077u);
  EXPECT_NE(server.Ask({.host = 2, .requested = 0x0a00'0077}).yours,
            0x0a00'0077u);
}

// RFC 2131 §4.1: who gets the answer, and §4.3.1 of the relay.
TEST(Dhcp, AnswersWhereTheClientHears) {
  Server server;
  const uint32_t address = server.Lease(1);
  const std::string text = absl::StrCat("10.0.0.", address & 0xff, ":68");
  EXPECT_EQ(server.Ask({}).destination, text);
  EXPECT_EQ(server.Ask({.broadcast = true}).destination, "255.255.255.255:68");
  EXPECT_EQ(server.Ask({.type = kRequest, .has = address}).destination, text);
  const Answer relayed = server.Ask({.relay = 0x0a00'0009,
                                     .more = "5204010201aa",
                                     .from = "10.0.0.9:67",
                                     .to = "10.0.0.1:67"});
  EXPECT_EQ(relayed.destination, "10.0.0.9:67");
  EXPECT_EQ(relayed.options.at(82), (std::vector<uint8_t>{1, 2, 1, 0xaa}));
  EXPECT_EQ(
      server.Ask({.type = kRequest, .requested = 0x0b00'0001}).destination,
      "255.255.255.255:68");
}

TEST(Dhcp, RefusesWhatIsNotTheClients) {
  Server server;
  const uint32_t address = server.Lease(1);
  const Answer refused =
      server.Ask({.type = kRequest, .host = 2, .requested = address});
  EXPECT_EQ(refused.type, kNak);
  EXPECT_EQ(refused.yours, 0u);
  EXPECT_EQ(refused.options.count(51), 0u);
  EXPECT_EQ(server.nf().count("refused"), 1u);
  // A client may remember a free address (RFC 2131 §4.3.2).
  const uint32_t free = address == 0x0a00'0070 ? 0x0a00'0071 : 0x0a00'0070;
  EXPECT_EQ(server.Ask({.type = kRequest, .host = 3, .requested = free}).type,
            kAck);
}

TEST(Dhcp, LeavesTheClientToAnotherServer) {
  Server server("range=10.0.0.100-10.0.0.100");
  EXPECT_EQ(server.Ask({}).type, kOffer);
  const Client other = {
      .type = kRequest, .requested = 0x0a00'0005, .server = 0x0a00'0002};
  EXPECT_EQ(server.nf().Send(other.text()), other.text());
  EXPECT_EQ(server.nf().pieces_in_use("addresses"), 0u);
}

TEST(Dhcp, TakesBackWhatIsReleasedOrRunsOut) {
  Server server("range=10.0.0.100-10.0.0.100,lease=1h,offer=30s");
  const uint32_t address = server.Lease(1);
  EXPECT_EQ(server.nf().pieces_in_use("addresses"), 1u);
  server.Ask({.type = kRelease,
              .server = Server::kServer,
              .has = address,
              .from = "10.0.0.100:68",
              .to = "10.0.0.1:67"});
  EXPECT_EQ(server.nf().pieces_in_use("addresses"), 0u);
  // An offer that is not taken, and a lease that is not renewed.
  EXPECT_EQ(server.Ask({.host = 2}).type, kOffer);
  server.nf().Pass(Seconds(31));
  EXPECT_EQ(server.Lease(3), address);
  server.nf().Pass(Seconds(3'500));
  EXPECT_EQ(server.Ask({.type = kRequest, .host = 3, .has = address}).type,
            kAck);
  server.nf().Pass(Seconds(3'500));
  EXPECT_EQ(server.nf().pieces_in_use("addresses"), 1u);
  server.nf().Pass(Seconds(101));
  EXPECT_EQ(server.nf().pieces_in_use("addresses"), 0u);
}

TEST(Dhcp, LeasesAnAddressInUseToNobodyForSomeTime) {
  Server server("range=10.0.0.100-10.0.0.101,decline=10min");
  const uint32_t address = server.Lease(1);
  server.Ask(
      {.type = kDecline, .requested = address, .server = Server::kServer});
  EXPECT_EQ(server.nf().count("declined"), 1u);
  EXPECT_NE(server.Lease(1), address);
  EXPECT_EQ(server.nf().pieces_in_use("addresses"), 2u);
  server.nf().Pass(Seconds(3'601));
  EXPECT_EQ(server.nf().pieces_in_use("addresses"), 0u);
}

TEST(Dhcp, SaysByNameWhenAllAreLeased) {
  Server server("range=10.0.0.100-10.0.0.101");
  EXPECT_NE(server.Lease(1), server.Lease(2));
  server.nf().set_supply("addresses", NfTest::Supply::kExhausted);
  EXPECT_EQ(server.nf().Send(Client{.host = 3}.text()), "drop no_address");
}

TEST(Dhcp, KeepsReservedAddressesForTheirHosts) {
  Server server(
      "reserve=02:00:00:00:00:07@10.0.0.7+02:00:00:00:00:08@10.0.0.8");
  EXPECT_EQ(server.Lease(7), 0x0a00'0007u);
  EXPECT_EQ(server.Lease(8), 0x0a00'0008u);
  EXPECT_EQ(server.nf().pieces_in_use("addresses"), 0u);
  EXPECT_EQ(
      server.Ask({.type = kRequest, .host = 9, .requested = 0x0a00'0007}).type,
      kNak);
}

TEST(Dhcp, InformsWithoutALease) {
  Server server("router=10.0.0.254");
  const Answer ack = server.Ask({.type = kInform,
                                 .has = 0x0a00'0063,
                                 .from = "10.0.0.99:68",
                                 .to = "10.0.0.1:67"});
  EXPECT_EQ(ack.type, kAck);
  EXPECT_EQ(ack.yours, 0u);
  EXPECT_EQ(ack.destination, "10.0.0.99:68");
  EXPECT_EQ(ack.options.count(51), 0u);
  EXPECT_EQ(ack.word(3), 0x0a00'00feu);
}

TEST(Dhcp, LetsOtherPacketsPass) {
  Server server;
  const std::string cases[] = {
      "udp 10.0.0.100:68 > 10.0.0.2:67 \"to another server\"",
      "udp 10.0.0.1:67 > 10.0.0.100:68 \"from a server\"",
      "tcp 10.0.0.100:5000 > 192.0.2.9:67 SYN",
      "udp [fe80::1]:546 > [ff02::1:2]:547 \"DHCPv6\""};
  for (const std::string& packet : cases) {
    EXPECT_EQ(server.nf().Send(packet), packet);
  }
  EXPECT_EQ(server.nf().Send("udp 0.0.0.0:68 > 255.255.255.255:67 \"?\""),
            "drop malformed");
  EXPECT_EQ(server.nf().Send(Client{.relay = 0x0b00'0001}.text()),
            "drop other_network");
  EXPECT_TRUE(server.nf().TakeEmitted().empty());
}

TEST(Dhcp, WithstandsAnyMessage) {
  const std::string good = Client{.requested = 0x0a00'0070}.payload();
  for (const uint64_t seed : TestSeeds(300).all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    std::vector<std::byte> bytes;
    for (const std::byte byte : Hex(good)) bytes.push_back(byte);
    for (uint64_t i = rng.Below(6); i > 0; --i) {
      bytes[rng.Below(2) == 0 ? rng.Below(bytes.size())
                              : 236 + rng.Below(bytes.size() - 236)] =
          static_cast<std::byte>(rng.Below(256));
    }
    bytes.resize(rng.Below(bytes.size() + 1));
    const auto message = ReadDhcp(bytes);
    EXPECT_FALSE(message.has_value() && bytes.size() < 240);
  }
  for (size_t cut = 0; cut < good.size() / 2 - 1; ++cut) {
    EXPECT_FALSE(
        ReadDhcp(std::span<const std::byte>(Hex(good.substr(0, 2 * cut))))
            .has_value() &&
        cut < 243);
  }
}

TEST(Dhcp, RunsEverywhere) {
  std::vector<std::string> packets;
  for (uint8_t round = 0; round < 4; ++round) {
    for (uint8_t host = 1; host < 30; ++host) {
      packets.push_back(Client{.host = host}.text());
      packets.push_back(
          Client{.type = kInform, .host = host, .has = 0x0a00'0000u + host}
              .text());
    }
  }
  // The free address that a new client is offered depends on the unit.
  std::string reserved = "dhcp:reserve=";
  for (int host = 1; host < 30; ++host) {
    reserved +=
        absl::StrCat(host == 1 ? "" : "+",
                     "02:00:00:00:00:", Hex2(static_cast<uint32_t>(host)),
                     "@10.0.0.", host + 10);
  }
  EXPECT_TRUE(RunEverywhere(reserved, Packets(packets)));
}

TEST(Dhcp, NamesOptionsThatAreWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"network=fd00::/64", "an IPv4 prefix"},
      {"range=10.0.0.200-10.0.0.100", "the smaller first"},
      {"range=10.1.0.1-10.1.0.9", "two addresses of the network"},
      {"server=10.0.0.150", "outside of the range"},
      {"mac=01:00:00:00:00:01", "of one host"},
      {"mac=2:0:0:0:0:1", "such as 02:00:00:00:00:01"},
      {"router=10.0.0.300", "not \"10.0.0.300\""},
      {"reserve=02:00:00:00:00:07@10.0.0.150", "outside of the range"},
      {"reserve=02:00:00:00:00:07@10.0.0.7+02:00:00:00:00:07@10.0.0.8",
       "each once"},
      {"lease=0s", "a time from 1.00 s"}};
  for (const auto& [options, why] : cases) {
    const absl::StatusOr<NfOptions> parsed = NfOptions::Parse(options);
    ASSERT_TRUE(parsed.ok()) << options;
    const std::string error(FindNf("dhcp")->check(*parsed).message());
    EXPECT_NE(error.find(why), std::string::npos) << options << ": " << error;
  }
}

}  // namespace
}  // namespace snf
