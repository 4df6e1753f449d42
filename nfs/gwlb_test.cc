// SPDX-License-Identifier: Apache-2.0
// nfs/gwlb.md names these tests rule by rule. NfTest begins at 1,000 s.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/packet/checksum.h"
#include "base/packet/headers.h"
#include "nfs/test_gwlb.h"
#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

std::string Host(int number) {
  return "10.1." + std::to_string(number / 200) + "." +
         std::to_string(1 + number % 200);
}
std::string There(int number, const std::string& rest = "") {
  return "udp " + Host(number) + ":5000 > 192.0.2.7:53" +
         (rest.empty() ? "" : " " + rest);
}
std::string Back(int number, const std::string& rest = "") {
  return "udp 192.0.2.7:53 > " + Host(number) + ":5000" +
         (rest.empty() ? "" : " " + rest);
}
std::string Tcp(const std::string& rest, int port = 5'000) {
  return "tcp 10.1.0.9:" + std::to_string(port) + " > 192.0.2.7:80 " + rest;
}
std::string TcpBack(const std::string& rest, int port = 5'000) {
  return "tcp 192.0.2.7:80 > 10.1.0.9:" + std::to_string(port) + " " + rest;
}

// The packet in the words of ToText.
std::string Said(const std::string& packet) {
  return ToText(Packets({packet})[0]);
}

// Sends packets through an appliance and back.
class Gwlb : public testing::Test {
 protected:
  void Begin(const std::string& nf) { nf_.emplace(nf); }
  NfTest& nf() { return *nf_; }

  ToAppliance Send(const std::string& packet) {
    return ReadToAppliance(nf().Send(packet));
  }
  // The fate of what an appliance sends back for the packet, which it got.
  NfResult Returns(const std::string& packet) {
    const ToAppliance sent = Send(packet);
    EXPECT_EQ(sent.inner, Said(packet)) << sent.outer;
    if (sent.inner.empty()) return {.text = sent.outer, .packet = {}};
    return nf().Send(SentBack(sent.packet));
  }
  std::optional<NfTest> nf_;
};

TEST_F(Gwlb, SendsPacketsInGeneveAndTakesThemBack) {
  Begin(Balancer(1, "endpoint=7,attachment=9"));
  for (const std::string packet :
       {"udp 10.1.0.9:5000 > 192.0.2.7:53 \"odd\"",
        "tcp 10.1.0.9:5000 > 192.0.2.7:80 SYN seq=1 tos=0x8c",
        "icmp 10.1.0.9 > 192.0.2.7 echo id=7 seq=1 \"ping\"",
        "udp [2001:db8::1]:5000 > [2001:db8::9]:53 \"six\"",
        "89 10.1.0.9 > 192.0.2.7 \"another protocol\""}) {
    SCOPED_TRACE(packet);
    const ToAppliance sent = Send(packet);
    EXPECT_EQ(sent.outer, "10.0.2.1 > 10.0.2.11:6081");
    EXPECT_EQ(sent.inner, Said(packet));
    EXPECT_EQ(sent.metadata.endpoint, 7u);
    EXPECT_EQ(sent.metadata.attachment, 9u);
    // The traffic class is the packet's.
    const bool has_class = packet.find("tos") != std::string::npos;
    EXPECT_EQ(sent.packet.bytes[15], has_class ? std::byte{0x8c} : std::byte{});
    EXPECT_EQ(nf().Send(SentBack(sent.packet)), packet);
  }
  EXPECT_EQ(nf().count("to_appliances"), 5u);
  EXPECT_EQ(nf().count("returned"), 5u);
  EXPECT_EQ(nf().count("flows"), 5u);
  EXPECT_EQ(nf().count("10.0.2.11"), 5u);
}

TEST_F(Gwlb, GivesBothDirectionsOfAFlowOneApplianceAndCookie) {
  Begin(Balancer(4));
  std::map<std::string, int> flows;
  std::set<uint32_t> cookies;
  for (int i = 0; i < 400; ++i) {
    const ToAppliance there = Send(There(i));
    const ToAppliance back = Send(Back(i));
    const ToAppliance again = Send(There(i, "\"more\""));
    EXPECT_EQ(there.outer, back.outer);
    EXPECT_EQ(there.outer, again.outer);
    EXPECT_EQ(there.metadata, back.metadata);
    EXPECT_EQ(there.metadata, again.metadata);
    // The source port is that of the flow.
    EXPECT_TRUE(std::equal(&there.packet.bytes[34], &there.packet.bytes[36],
                           &back.packet.bytes[34]));
    ++flows[there.appliance];
    cookies.insert(there.metadata.cookie);
  }
  EXPECT_EQ(nf().flows(), 400u);
  EXPECT_EQ(cookies.size(), 400u);
  EXPECT_EQ(flows.size(), 4u);
  for (const auto& [appliance, count] : flows) {
    EXPECT_GT(count, 60) << appliance;
    EXPECT_EQ(nf().count(appliance), static_cast<uint64_t>(count));
  }
}

TEST_F(Gwlb, GoesOnWithoutStateAtTheSameAppliance) {
  Begin(Balancer(4));
  for (int i = 0; i < 50; ++i) {
    const ToAppliance before = Send(There(i));
    nf().EndFlow(There(i));
    const ToAppliance after = Send(Back(i));
    EXPECT_EQ(before.outer, after.outer);
    EXPECT_EQ(before.metadata, after.metadata);
  }
}

// Appliances are at the outside, so a packet from there turns back to them.
TEST_F(Gwlb, SendsBackByTheOutsideWhatIsToLeaveThere) {
  Begin(Balancer(2));
  const ToAppliance there =
      ReadToAppliance(nf().Send(From(Side::kInside, There(1))));
  EXPECT_EQ(there.inner, There(1));
  EXPECT_EQ(there.metadata.attachment, 1u);
  // To the outside, where it came from.
  EXPECT_EQ(nf().Send(From(Side::kOutside, SentBack(there.packet))), "consume");
  const std::string turned = "src=02:00:00:00:00:02 dst=02:00:00:00:00:01";
  EXPECT_EQ(nf().TakeEmitted(),
            std::vector<std::string>{Said(There(1, turned))});

  EXPECT_EQ(nf().Send(From(Side::kOutside, Back(1))), "consume");
  std::vector<TestPacket> emitted = nf().TakeEmittedPackets();
  ASSERT_EQ(emitted.size(), 1u);
  const ToAppliance back = ReadToAppliance(emitted[0]);
  EXPECT_EQ(back.outer, there.outer);
  EXPECT_EQ(back.inner, Said(Back(1, turned)));
  EXPECT_EQ(back.metadata.attachment, 2u);
  EXPECT_EQ(back.metadata.cookie, there.metadata.cookie);
  // To the inside.
  const TestPacket from_outside = From(Side::kOutside, SentBack(back.packet));
  EXPECT_EQ(nf().Send(from_outside), Said(Back(1, turned)));
  EXPECT_TRUE(nf().TakeEmitted().empty());
}

// A firewall's answer goes to the balancer in the header of the packet that it
// answers.
TEST_F(Gwlb, BringsAnswersThatAnApplianceMakesToTheirReceiver) {
  Begin(Balancer(1));
  const ToAppliance syn =
      ReadToAppliance(nf().Send(From(Side::kInside, Tcp("SYN seq=1"))));
  const std::string reset = TcpBack("RST ACK ack=2");
  EXPECT_EQ(nf().Send(From(Side::kOutside, SentBack(syn.packet, reset))),
            reset);
  EXPECT_TRUE(nf().TakeEmitted().empty());
}

TEST_F(Gwlb, DropsByNameWhatNoApplianceSends) {
  Begin(Balancer(2));
  const ToAppliance sent = Send(There(1));
  const TestPacket right = SentBack(sent.packet);
  EXPECT_EQ(nf().Send(right), There(1));

  const auto changed = [&](size_t at, uint8_t value) {
    std::vector<std::byte> payload = PayloadOf(right);
    payload[at] ^= std::byte{value};
    return nf().Send(WithPayload(right, payload)).text;
  };
  EXPECT_EQ(changed(8 + 4 + 7, 1), "drop wrong_endpoint");
  EXPECT_EQ(changed(20 + 4 + 7, 8), "drop wrong_attachment");
  EXPECT_EQ(changed(32 + 4 + 3, 1), "drop wrong_cookie");
  EXPECT_EQ(changed(0, 0x40), "drop version");
  EXPECT_EQ(changed(1, 0x80), "drop control");
  EXPECT_EQ(changed(2, 0x01), "drop inner_protocol");
  EXPECT_EQ(changed(9, 1), "drop no_endpoint");
  EXPECT_EQ(changed(21, 1), "drop no_attachment");
  EXPECT_EQ(changed(33, 1), "drop no_cookie");
  EXPECT_EQ(changed(34, 0x80), "drop critical_option");
  EXPECT_EQ(changed(35, 0x1e), "drop option_length");
  // IPv4 as the version of an IPv6 packet, and of none.
  EXPECT_EQ(changed(40, 0x20), "drop inner_malformed");
  EXPECT_EQ(changed(40, 0x40), "drop inner_malformed");

  // Another flow's packet with this cookie, and one of no flow.
  EXPECT_EQ(nf().Send(SentBack(sent.packet, There(2))), "drop unknown_flow");
  Send(There(2));
  EXPECT_EQ(nf().Send(SentBack(sent.packet, There(2))), "drop wrong_cookie");

  // Another host, another port, a fragment; no UDP.
  TestPacket other = right;
  other.bytes[14 + 15] ^= std::byte{0x80};
  FillIpv4Checksum(Ipv4Header<std::byte>::At(other.bytes, 14));
  EXPECT_EQ(nf().Send(other), "drop not_an_appliance");
  other = right;
  other.bytes[14 + 20 + 3] ^= std::byte{1};
  EXPECT_EQ(nf().Send(other), "drop to_balancer");
  other = right;
  other.bytes[14 + 6] = std::byte{0x20};
  FillIpv4Checksum(Ipv4Header<std::byte>::At(other.bytes, 14));
  EXPECT_EQ(nf().Send(other), "drop outer_fragment");
  EXPECT_EQ(nf().Send("icmp 10.0.2.11 > 10.0.2.1 echo id=7"),
            "drop to_balancer");
  EXPECT_EQ(nf().Send("tcp 10.0.2.11:80 > 10.0.2.1:999 SYN"),
            "drop to_balancer");
  // The flow is as it was; packets of no flow begin none.
  EXPECT_EQ(nf().Send(right), There(1));
  EXPECT_EQ(nf().flows(), 2u);
}

TEST_F(Gwlb, DropsByNameWhatIsCutAtAnyByte) {
  Begin(Balancer(1));
  const ToAppliance sent = Send(There(1, "\"eight by\""));
  const TestPacket right = SentBack(sent.packet);
  const std::vector<std::byte> payload = PayloadOf(right);
  for (size_t length = 0; length < payload.size(); ++length) {
    SCOPED_TRACE(length);
    const std::vector<std::byte> cut(
        payload.begin(), payload.begin() + static_cast<ptrdiff_t>(length));
    EXPECT_EQ(nf().Send(WithPayload(right, cut)),
              length < 8    ? "drop truncated"
              : length < 40 ? "drop options_truncated"
              : length < 41 ? "drop inner_empty"
                            : "drop inner_malformed");
  }
  EXPECT_EQ(nf().flows(), 1u);
  EXPECT_EQ(nf().count("returned"), 0u);
}

// The list of options ends within each byte.
TEST_F(Gwlb, DropsByNameOptionsThatAreCutAtAnyWord) {
  Begin(Balancer(1));
  const TestPacket right = SentBack(Send(There(1)).packet);
  const std::vector<std::byte> payload = PayloadOf(right);
  const std::map<int, std::string> whole = {
      {0, "no_endpoint"}, {3, "no_attachment"}, {6, "no_cookie"}};
  for (int words = 0; words < 8; ++words) {
    std::vector<std::byte> cut = payload;
    cut[0] = static_cast<std::byte>(words);
    cut.erase(cut.begin() + 8 + 4 * words, cut.begin() + 40);
    const auto ends = whole.find(words);
    EXPECT_EQ(nf().Send(WithPayload(right, cut)),
              "drop " + (ends == whole.end() ? "option_length" : ends->second))
        << words;
  }
}

TEST_F(Gwlb, SticksByWhatItIsToldTo) {
  size_t flows = 0;
  const auto appliances = [&](const std::string& stickiness) {
    Begin(Balancer(4, "stickiness=" + stickiness));
    std::set<std::string> of_ports, of_protocols;
    for (int port = 1'000; port < 1'040; ++port) {
      of_ports.insert(Send(Tcp("ACK", port)).outer);
      EXPECT_EQ(Returns(TcpBack("ACK", port)), TcpBack("ACK", port));
    }
    for (int i = 0; i < 40; ++i) {
      const std::string ends = Host(i) + " > 192.0.2.7";
      const std::string one = Send("89 " + ends).outer;
      const std::string other = Send("47 " + ends).outer;
      of_protocols.insert(one == other ? "same" : "other");
    }
    flows = nf().flows();
    // Also without state.
    nf().EndFlows();
    for (int port = 1'000; port < 1'040; ++port) {
      of_ports.insert(Send(Tcp("ACK", port)).outer);
      nf().EndFlows();
    }
    return std::pair(of_ports.size(), of_protocols.size());
  };
  EXPECT_EQ(appliances("5_tuple"), std::pair(size_t{4}, size_t{2}));
  EXPECT_EQ(flows, 40u + 80u);
  EXPECT_EQ(appliances("3_tuple"), std::pair(size_t{1}, size_t{2}));
  EXPECT_EQ(flows, 1u + 80u);
  EXPECT_EQ(appliances("2_tuple"), std::pair(size_t{1}, size_t{1}));
  EXPECT_EQ(flows, 1u + 40u - 1u);  // 10.1.0.9 is Host(8)
}

TEST_F(Gwlb, ForgetsFlowsAfterTheTimeoutOfTheirProtocol) {
  Begin(Balancer(1));
  Send(Tcp("SYN"));
  Send(There(1));
  EXPECT_EQ(nf().flows(), 2u);
  nf().Pass(Seconds(119));
  EXPECT_EQ(nf().flows(), 2u);
  nf().Pass(Seconds(2));
  EXPECT_EQ(nf().flows(), 1u);
  nf().Pass(Seconds(228));
  EXPECT_EQ(nf().flows(), 1u);
  nf().Pass(Seconds(2));
  EXPECT_EQ(nf().flows(), 0u);
  Begin(Balancer(1, "tcp_idle_timeout=60s,idle_timeout=400s"));
  Send(Tcp("SYN"));
  Send(There(1));
  nf().Pass(Seconds(61));
  EXPECT_EQ(nf().flows(), 1u);
}

TEST_F(Gwlb, ResetsSegmentsOfNoFlowIfAskedTo) {
  Begin(Balancer(1));
  EXPECT_EQ(Send(Tcp("ACK seq=5 ack=6")).outer, "10.0.2.1 > 10.0.2.11:6081");
  Begin(Balancer(1, "reset_on_idle_timeout=true"));
  EXPECT_EQ(Send(Tcp("ACK seq=5 ack=6")).outer, "drop reset");
  EXPECT_EQ(nf().TakeEmitted(),
            std::vector<std::string>{Said(
                TcpBack("RST seq=6 win=0 "
                        "src=02:00:00:00:00:02 dst=02:00:00:00:00:01 df"))});
  EXPECT_EQ(nf().flows(), 0u);
  EXPECT_EQ(nf().count("resets"), 1u);
  Send(Tcp("SYN"));
  EXPECT_EQ(Send(Tcp("ACK seq=5 ack=6")).outer, "10.0.2.1 > 10.0.2.11:6081");
  nf().Pass(Seconds(351));
  EXPECT_EQ(Send(TcpBack("ACK seq=6 ack=5")).outer, "drop reset");
  // Other protocols begin flows at any packet.
  EXPECT_EQ(Send(Back(1)).outer, "10.0.2.1 > 10.0.2.11:6081");
}

TEST_F(Gwlb, AnswersPacketsThatAreTooLong) {
  Begin(Balancer(1));
  const auto of = [](const std::string& ends, int ip_bytes, int headers) {
    return ends + " len=" + std::to_string(ip_bytes - headers);
  };
  const std::string ends = "udp 10.1.0.9:5000 > 192.0.2.7:53";
  EXPECT_EQ(Send(of(ends, 1'432, 28)).appliance, "10.0.2.11");
  EXPECT_EQ(Send(of(ends, 1'433, 28)).outer, "drop too_long");
  std::vector<std::string> emitted = nf().TakeEmitted();
  ASSERT_EQ(emitted.size(), 1u);
  EXPECT_NE(emitted[0].find("icmp 192.0.2.7 > 10.1.0.9 unreachable code=4"),
            std::string::npos)
      << emitted[0];
  const std::string ends6 = "udp [2001:db8::1]:5000 > [2001:db8::9]:53";
  EXPECT_EQ(Send(of(ends6, 1'432, 48)).appliance, "10.0.2.11");
  EXPECT_EQ(Send(of(ends6, 1'433, 48)).outer, "drop too_long");
  EXPECT_EQ(nf().count("too_big"), 2u);
  // The balancer of AWS takes 8,500 bytes, whatever the MTU.
  Begin(Balancer(1, "mtu=9000"));
  EXPECT_EQ(Send(of(ends, 8'500, 28)).appliance, "10.0.2.11");
  EXPECT_EQ(Send(of(ends, 8'501, 28)).outer, "drop too_long");
}

TEST_F(Gwlb, FragmentsFollowTheirFirst) {
  Begin(Balancer(4));
  for (int i = 0; i < 20; ++i) {
    const std::string id = " ip_id=" + std::to_string(100 + i);
    const std::string first = There(i, "len=64 more" + id);
    const std::string later =
        "17 " + Host(i) + " > 192.0.2.7 offset=72" + id + " \"end\"";
    EXPECT_EQ(Send(later).outer, "drop fragment_early");
    const ToAppliance one = Send(first);
    const ToAppliance other = Send(later);
    EXPECT_EQ(one.appliance, other.appliance);
    EXPECT_EQ(one.inner, Said(first));
    EXPECT_EQ(other.inner, Said(later));
    EXPECT_EQ(nf().Send(SentBack(one.packet)), first);
    EXPECT_EQ(nf().Send(SentBack(other.packet)), later);
    // Its cookie is that of this packet's fragments.
    const std::string another =
        "17 " + Host(i) + " > 192.0.2.7 offset=72 ip_id=99 \"end\"";
    EXPECT_EQ(nf().Send(SentBack(other.packet, another)), "drop wrong_cookie");
  }
}

TEST_F(Gwlb, BringsErrorsThroughTheApplianceOfTheConnection) {
  Begin(Balancer(4));
  for (int i = 0; i < 20; ++i) {
    const ToAppliance sent = Send(There(i));
    const std::string error = "icmp 198.51.100.1 > " + Host(i) +
                              " unreachable code=1 about {" + There(i) + "}";
    const ToAppliance told = Send(error);
    EXPECT_EQ(told.outer, sent.outer);
    EXPECT_EQ(told.metadata.cookie, sent.metadata.cookie);
    EXPECT_EQ(nf().Send(SentBack(told.packet)).text, Said(error));
  }
  EXPECT_EQ(nf().flows(), 20u);
}

TEST_F(Gwlb, TakesErrorsAboutItsOwnPackets) {
  Begin(Balancer(1));
  EXPECT_EQ(Send("icmp 10.0.2.254 > 10.0.2.1 unreachable code=1 about "
                 "{udp 10.0.2.1:50000 > 10.0.2.11:6081}")
                .outer,
            "consume");
  EXPECT_EQ(nf().count("outer_errors"), 1u);
  EXPECT_EQ(nf().flows(), 0u);
}

TEST_F(Gwlb, DropsPacketsToGroups) {
  Begin(Balancer(1));
  EXPECT_EQ(Send("udp 10.1.0.9:5353 > 224.0.0.251:5353").outer,
            "drop not_unicast");
  EXPECT_EQ(Send("udp 10.1.0.9:67 > 255.255.255.255:68").outer,
            "drop not_unicast");
  EXPECT_EQ(Send("udp [fe80::1]:5353 > [ff02::fb]:5353").outer,
            "drop not_unicast");
}

TEST(GwlbOptions, RefusesWrongOnesByName) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"appliances=10.0.2.11", "address=: must be an IPv4 address of a host"},
      {"address=10.0.2.1", "appliances=: must be at least one ADDRESS"},
      {"address=fd00::1,appliances=10.0.2.11", "address=fd00::1"},
      {"address=224.0.0.1,appliances=10.0.2.11", "address=224.0.0.1"},
      {"address=10.0.2.1,appliances=fd00::1", "IPv4 addresses of hosts"},
      {"address=10.0.2.1,appliances=10.0.2.11:80", "not \"10.0.2.11:80\""},
      {"address=10.0.2.1,appliances=10.0.2.11+10.0.2.11", "is there twice"},
      {"address=10.0.2.1,appliances=10.0.2.1", "the balancer's own address"},
      {"address=10.0.2.1,appliances=10.0.2.11,mtu=1347", "mtu=1347"},
      {"address=10.0.2.1,appliances=10.0.2.11,tcp_idle_timeout=59s",
       "tcp_idle_timeout=59s"},
      {"address=10.0.2.1,appliances=10.0.2.11,tcp_idle_timeout=6001s",
       "tcp_idle_timeout=6001s"},
      {"address=10.0.2.1,appliances=10.0.2.11,stickiness=4_tuple",
       "stickiness=4_tuple"},
      {"address=10.0.2.1,appliances=10.0.2.11,check=tcp,check_port=0",
       "check_port=0"},
      {"address=10.0.2.1,appliances=10.0.2.11,check_path=x", "check_path=x"}};
  for (const auto& [text, words] : wrong) {
    NfOptions options = *NfOptions::Parse(text);
    const absl::Status status = FindNf("gwlb")->check(options);
    EXPECT_NE(status.message().find(words), std::string::npos)
        << text << ": " << status;
  }
}

}  // namespace
}  // namespace snf
