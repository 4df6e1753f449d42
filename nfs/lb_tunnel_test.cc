// SPDX-License-Identifier: Apache-2.0
// Direct return: packets behind outer headers. nfs/lb.md names these tests.
#include "nfs/lb_tunnel.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/packet/checksum.h"
#include "base/packet/headers.h"
#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

using Bytes = std::span<const std::byte>;
using Ip4 = Ipv4Header<const std::byte>;
using Ip6 = Ipv6Header<const std::byte>;
using Udp = UdpHeader<const std::byte>;

constexpr size_t kLink = EthernetHeader<std::byte>::kBytes;
const std::string kIpip =
    "lb:virtual=10.200.1.1:80,servers=10.0.0.3:80,forward=ipip,"
    "outer=10.0.13.37";
const std::string kGue =
    "lb:virtual=10.200.1.1:80,servers=10.0.0.3:80,forward=gue,"
    "outer=10.0.13.37,gue_port=9886";
const std::string kClient = "192.168.1.1:31337";
const std::string kPacket =
    "tcp 192.168.1.1:31337 > 10.200.1.1:80 ACK \"katran test pkt\"";

// Returns the outer headers of a packet in words, if the inner packet is as it
// was sent.
std::string OuterOf(const NfResult& result, const std::string& sent) {
  const Bytes frame = result.packet.bytes;
  const Frame inner = Packets({sent})[0].bytes;
  const ParsedPacket headers = Parse(result.packet.link, frame);
  if (headers.l3 == L3::kNone) return "no IP: " + result.text;
  const Bytes sent_ip = Bytes(inner).subspan(kLink);
  if (frame.size() < kLink + sent_ip.size() ||
      !std::ranges::equal(frame.last(sent_ip.size()), sent_ip)) {
    return result.text;
  }
  const size_t outer_bytes = frame.size() - kLink - sent_ip.size();
  std::string text;
  uint8_t protocol = 0;
  if (const auto ip = Ip4::At(frame, kLink)) {
    EXPECT_EQ(frame[12], std::byte{0x08});
    EXPECT_EQ(ip.total_bytes(), frame.size() - kLink);
    EXPECT_EQ(InternetChecksum(ip.header()), be16(0));
    EXPECT_TRUE(ip.dont_fragment());
    protocol = static_cast<uint8_t>(ip.protocol());
    FlowKey ends = FiveTuple(frame, headers, false);
    text = NfOptions::ToText({ends.source, be16(0), false}) + " > " +
           NfOptions::ToText({ends.destination, be16(0), false}) + " ttl " +
           std::to_string(ip.ttl()) + " class " +
           std::to_string(ip.traffic_class());
  } else if (const auto ip6 = Ip6::At(frame, kLink)) {
    EXPECT_EQ(frame[12], std::byte{0x86});
    EXPECT_EQ(ip6.payload_bytes(), frame.size() - kLink - Ip6::kBytes);
    protocol = static_cast<uint8_t>(ip6.next_header());
    text = NfOptions::ToText({ip6.source(), be16(0), true}) + " > " +
           NfOptions::ToText({ip6.destination(), be16(0), true}) + " ttl " +
           std::to_string(ip6.hop_limit()) + " class " +
           std::to_string(ip6.traffic_class());
  }
  text += " protocol " + std::to_string(protocol);
  if (protocol == 17) {
    const auto udp = Udp::At(frame, kLink + outer_bytes - Udp::kBytes);
    EXPECT_EQ(udp.length_bytes(), Udp::kBytes + sent_ip.size());
    EXPECT_EQ(udp.checksum(), be16(0));
    EXPECT_GE(udp.source_port().host(), 49'152);
    text += " port " + std::to_string(udp.destination_port().host());
  }
  return text;
}

// The cases of Katran's fixtures (katran/lib/testing/fixtures), made here. Its
// outer IPv4 has no DF, and with IP in IP a source for each connection.
TEST(LbDirect, PutsOuterHeadersInFrontOfThePacketAsKatranDoes) {
  struct Case {
    std::string name;
    std::string forward;  // with its outer address
    std::string virtual_end;
    std::string server;
    std::string packet;  // without ends
    std::string outer;
  };
  const std::string v4 = "10.200.1.1:80", v6 = "[fc00:1::1]:80";
  const std::string data = " \"katran test pkt\"";
  const std::string both = ",outer=10.0.13.37+fc00:2307::1337";
  const std::vector<Case> cases = {
      {"UDP, v4 VIP and v4 real", "ipip" + both, v4, "10.0.0.3:80",
       "udp" + data, "10.0.13.37:0 > 10.0.0.3:0 ttl 64 class 0 protocol 4"},
      {"TCP, v4 VIP and v4 real", "ipip" + both, v4, "10.0.0.3:80",
       "tcp ACK win=8192" + data,
       "10.0.13.37:0 > 10.0.0.3:0 ttl 64 class 0 protocol 4"},
      {"TCP, ToS", "ipip" + both, v4, "10.0.0.3:80", "tcp ACK tos=0x8c" + data,
       "10.0.13.37:0 > 10.0.0.3:0 ttl 64 class 140 protocol 4"},
      {"TCP, v4 VIP and v6 real", "ipip" + both, v4, "[fc00::1]:80",
       "tcp ACK" + data,
       "[fc00:2307::1337]:0 > [fc00::1]:0 ttl 64 class 0 protocol 4"},
      {"TCP, v6 VIP and v6 real", "ipip" + both, v6, "[fc00::3]:80",
       "tcp ACK tos=0x8c" + data,
       "[fc00:2307::1337]:0 > [fc00::3]:0 ttl 64 class 140 protocol 41"},
      {"TCP, v6 VIP and v4 real", "ipip" + both, v6, "10.0.0.3:80",
       "tcp ACK" + data,
       "10.0.13.37:0 > 10.0.0.3:0 ttl 64 class 0 protocol 41"},
      {"GUE, v4 VIP and v4 real", "gue,gue_port=9886" + both, v4, "10.0.0.3:80",
       "udp" + data,
       "10.0.13.37:0 > 10.0.0.3:0 ttl 64 class 0 protocol 17 port 9886"},
      {"GUE, v4 VIP and v6 real", "gue,gue_port=9886" + both, v4,
       "[fc00::1]:80", "tcp ACK" + data,
       "[fc00:2307::1337]:0 > [fc00::1]:0 ttl 64 class 0 protocol 17 port "
       "9886"},
      {"GUE, v6 VIP and v6 real", "gue" + both, v6, "[fc00::3]:80",
       "tcp ACK" + data,
       "[fc00:2307::1337]:0 > [fc00::3]:0 ttl 64 class 0 protocol 17 port "
       "6080"}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    NfTest nf("lb:virtual=" + c.virtual_end + ",servers=" + c.server +
              ",forward=" + c.forward);
    const std::string client =
        c.virtual_end == v4 ? "192.168.1.1:31337" : "[fc00:2::1]:31337";
    std::string packet = c.packet;
    packet.insert(3, " " + client + " > " + c.virtual_end);
    EXPECT_EQ(OuterOf(nf.Send(packet), packet), c.outer);
    EXPECT_EQ(nf.count("connections"), 1u);
  }
}

uint16_t SourcePortOf(NfTest& nf, int port) {
  const NfResult result =
      nf.Send("udp 192.168.1.1:" + std::to_string(port) + " > 10.200.1.1:80");
  return Udp::At(result.packet.bytes, kLink + 20).source_port().host();
}

TEST(LbDirect, GivesEachConnectionAGueSourcePort) {
  NfTest nf(kGue);
  std::set<uint16_t> ports;
  for (int i = 0; i < 100; ++i) {
    ports.insert(SourcePortOf(nf, 1'000 + i));
    EXPECT_EQ(SourcePortOf(nf, 1'000 + i), SourcePortOf(nf, 1'000 + i));
  }
  EXPECT_GT(ports.size(), 90u);
}

TEST(LbDirect, LetsAnswersPassAndLivesWithHalfOfAConnection) {
  NfTest nf(kIpip + ",tcp_opening_timeout=30s,tcp_timeout=600s");
  nf.Send("tcp 192.168.1.1:31337 > 10.200.1.1:80 SYN seq=1");
  nf.Send(kPacket);
  // The answer, if it comes by, and the server's own packets.
  for (const std::string& packet :
       {std::string("tcp 10.200.1.1:80 > 192.168.1.1:31337 SYN ACK"),
        std::string("tcp 10.0.0.3:80 > 192.168.1.1:31337 SYN ACK")}) {
    EXPECT_EQ(nf.Send(packet), packet);
  }
  nf.Pass(Seconds(500));
  EXPECT_EQ(nf.flows(), 1u);  // open, though no answer was looked at
  nf.Send("tcp 192.168.1.1:31337 > 10.200.1.1:80 FIN ACK");
  nf.Pass(Seconds(120));
  EXPECT_EQ(nf.flows(), 0u);
}

TEST(LbDirect, BringsErrorsAndFragmentsToTheServerOfTheConnection) {
  NfTest nf(
      "lb:virtual=10.200.1.1:80,servers=10.0.0.1:80+10.0.0.2:80+10.0.0.3:80,"
      "forward=ipip,outer=10.0.13.37");
  const auto server = [&](const std::string& packet) {
    return OuterOf(nf.Send(packet), packet).substr(0, 30);
  };
  std::set<std::string> servers;
  for (int i = 0; i < 20; ++i) {
    const std::string ends =
        "192.168.1.1:" + std::to_string(2'000 + i) + " > 10.200.1.1:80";
    const std::string first = server(
        "udp " + ends + " ip_id=" + std::to_string(i + 1) + " more len=24");
    EXPECT_EQ(first.substr(0, 20), "10.0.13.37:0 > 10.0.");
    EXPECT_EQ(server("17 192.168.1.1 > 10.200.1.1 offset=32 len=8 ip_id=" +
                     std::to_string(i + 1)),
              first);
    EXPECT_EQ(server("icmp 198.51.100.7 > 10.200.1.1 unreachable code=4 about "
                     "{udp 10.200.1.1:80 > 192.168.1.1:" +
                     std::to_string(2'000 + i) + "}"),
              first);
    servers.insert(first);
  }
  EXPECT_EQ(servers.size(), 3u);
  EXPECT_EQ(nf.count("icmp_errors"), 20u);
}

TEST(LbDirect, AnswersPacketsThatAreTooLongForTheMtu) {
  // 1,500 bytes with an outer header of 20, and one more.
  const std::string fits =
      "tcp 192.168.1.1:31337 > 10.200.1.1:80 ACK df len=1440";
  const std::string too_long =
      "tcp 192.168.1.1:31337 > 10.200.1.1:80 ACK df len=1441";
  NfTest nf(kIpip);
  EXPECT_EQ(OuterOf(nf.Send(fits), fits),
            "10.0.13.37:0 > 10.0.0.3:0 ttl 64 class 0 protocol 4");
  EXPECT_TRUE(nf.TakeEmitted().empty());
  EXPECT_EQ(nf.Send(too_long), "drop too_long");
  const std::vector<std::string> answers = nf.TakeEmitted();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].substr(0, 29), "icmp 10.200.1.1 > 192.168.1.1")
      << answers[0];
  EXPECT_EQ(nf.count("too_big"), 1u);
  // To errors and later fragments there is none.
  EXPECT_EQ(nf.Send("icmp 198.51.100.7 > 10.200.1.1 unreachable code=4 about "
                    "{udp 10.200.1.1:80 > 192.168.1.1:31337} len=1500"),
            "drop too_long");
  EXPECT_TRUE(nf.TakeEmitted().empty());
  NfTest small(kGue + ",mtu=600");
  EXPECT_EQ(small.Send("udp 192.168.1.1:31337 > 10.200.1.1:80 len=545"),
            "drop too_long");
  const std::string short_enough =
      "udp 192.168.1.1:31337 > 10.200.1.1:80 len=544";
  EXPECT_EQ(OuterOf(small.Send(short_enough), short_enough),
            "10.0.13.37:0 > 10.0.0.3:0 ttl 64 class 0 protocol 17 port 9886");
}

TEST(LbDirect, DropsPacketsWhoseLinkHeaderDoesNotSuit) {
  TestPacket packet = Packets({kPacket})[0];
  // PPPoE, whose header has a length.
  const Frame ip(packet.bytes.begin() + kLink, packet.bytes.end());
  packet.bytes = Ethernet(0x8864, Pppoe(0x0021, ip));
  packet.original_length = static_cast<uint32_t>(packet.bytes.size());
  NfTest nf(kIpip);
  EXPECT_EQ(nf.Send(packet), "drop link_unsuited");
}

TEST(LbDirect, RefusesOptionsByName) {
  const auto what_is_wrong = [](const std::string& options) {
    const auto parsed = NfOptions::Parse(options);
    EXPECT_TRUE(parsed.ok());
    return std::string(FindNf("lb")->check(*parsed).message());
  };
  const std::string ok = "virtual=10.200.1.1:80,servers=10.0.0.3:80";
  for (const auto& [options, wrong] :
       std::vector<std::pair<std::string, std::string>>{
           {ok + ",forward=ipip", "outer=: must be an address of IPv4 for"},
           {ok + ",forward=ipip,outer=fc00::1", "an address of IPv4"},
           {ok + ",forward=gue,outer=x", "not \"x\""},
           {ok + ",forward=gue,outer=10.0.0.9+10.0.0.8", "not \"10.0.0.8\""},
           {ok + ",outer=10.0.0.9", "with forward=ipip or gue only"},
           {ok + ",forward=gre", "forward=gre"},
           {"virtual=10.200.1.1:80,servers=10.0.0.3:8080,forward=ipip,"
            "outer=10.0.0.9",
            "10.0.0.3:8080 has 10.200.1.1:80"},
           {"virtual=[fc00::1]:80,servers=[fc00::2]:80,forward=ipip,"
            "outer=fc00::9,mtu=1300",
            "mtu=1300: must be at least 1328"},
           {"virtual=[fc00::1]:80,servers=10.0.0.3:80",
            "at least one of IPv6"}}) {
    const std::string message = what_is_wrong(options);
    EXPECT_NE(message.find(wrong), std::string::npos)
        << options << ": " << message;
  }
}

TEST(LbDirect, RunsEverywhere) {
  std::vector<std::string> packets;
  for (int i = 0; i < 40; ++i) {
    const std::string ends =
        "192.168.1.1:" + std::to_string(3'000 + i % 20) + " > 10.200.1.1:80 ";
    packets.push_back("tcp " + ends + "SYN seq=5");
    packets.push_back("tcp " + ends + "seq=6 len=900");
    packets.push_back("tcp " + ends + "seq=906 len=1460");
    packets.push_back("udp " + ends + "\"x\"");
  }
  for (const std::string& forward : {std::string("ipip"), std::string("gue")}) {
    EXPECT_TRUE(RunEverywhere(
        "lb:virtual=10.200.1.1:80,servers=10.0.0.1:80+10.0.0.2:80,forward=" +
            forward + ",outer=10.0.13.37",
        Packets(packets)));
  }
}

}  // namespace
}  // namespace snf
