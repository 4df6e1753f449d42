// SPDX-License-Identifier: Apache-2.0
// The log of bindings (RFC 6888 REQ-12, RFC 7422); nfs/nat.md names these
// tests. NfTest begins at 1,000 s.
#include "nfs/nat_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ipfix/ipfix_log.h"
#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string Line(const std::string& time, const std::string& event,
                 const std::string& proto, const std::string& inside,
                 int inside_port, int external_port) {
  return "{\"timestamp\":\"1970-01-01T" + time +
         "+0000\",\"event_type\":\"nat\",\"event\":\"" + event +
         "\",\"proto\":\"" + proto + "\",\"inside_ip\":\"" + inside +
         "\",\"inside_port\":" + std::to_string(inside_port) +
         ",\"external_ip\":\"198.51.100.1\",\"external_port\":" +
         std::to_string(external_port) + "}";
}
std::string Nat(const std::string& options) {
  return "nat:ip=198.51.100.1,ports=2000-2009,log_bindings=true" +
         (options.empty() ? "" : "," + options);
}

TEST(NatLog, HasALineWhenABindingBeginsAndOneWhenItEnds) {
  NfTest nf(Nat("udp_timeout=10s"));
  nf.Send("udp 10.0.0.1:2004 > 192.0.2.9:53");
  nf.Send("+1s udp 10.0.0.1:2004 > 192.0.2.8:53");  // the same binding
  EXPECT_THAT(nf.TakeLog("nat.bindings"),
              ElementsAre(Line("00:16:40.001000", "created", "UDP", "10.0.0.1",
                               2004, 2004)));
  nf.Pass(Seconds(20));
  EXPECT_THAT(nf.TakeLog("nat.bindings"),
              ElementsAre(Line("00:16:51.001000", "released", "UDP", "10.0.0.1",
                               2004, 2004)));
}

TEST(NatLog, NamesTheProtocol) {
  NfTest nf(Nat(""));
  nf.Send("tcp 10.0.0.1:2004 > 192.0.2.9:80 SYN");
  nf.Send("icmp 10.0.0.1 > 192.0.2.9 echo id=2006");
  EXPECT_THAT(
      nf.TakeLog("nat.bindings"),
      ElementsAre(
          Line("00:16:40.001000", "created", "TCP", "10.0.0.1", 2004, 2004),
          Line("00:16:40.002000", "created", "ICMP", "10.0.0.1", 2006, 2006)));
}

// The pieces of a refused binding are back.
TEST(NatLog, EndsABindingWhoseAliasIsRefused) {
  NfTest nf(Nat(""));
  nf.RefuseNextAlias(AliasResult::kConflict);
  nf.Send("udp 10.0.0.1:2004 > 192.0.2.9:53");
  EXPECT_THAT(
      nf.TakeLog("nat.bindings"),
      ElementsAre(
          Line("00:16:40.001000", "created", "UDP", "10.0.0.1", 2004, 2004),
          Line("00:16:40.001000", "released", "UDP", "10.0.0.1", 2004, 2004)));
}

TEST(NatLog, HasTheInsideAddressOfNat64) {
  NfTest nf(Nat("nat64=64:ff9b::/96"), "10.0.0.0/8,2001:db8::/32");
  nf.Send("udp [2001:db8::1]:2004 > [64:ff9b::c000:209]:53");
  EXPECT_THAT(nf.TakeLog("nat.bindings"),
              ElementsAre(Line("00:16:40.001000", "created", "UDP",
                               "2001:db8::1", 2004, 2004)));
}

// Static mappings are no bindings.
TEST(NatLog, HasNoLineForAForward) {
  NfTest nf(Nat("forward=udp:198.51.100.1:2001->10.0.0.5:53"));
  nf.Send("udp 10.0.0.5:53 > 192.0.2.9:53");
  nf.EndFlows();
  EXPECT_THAT(nf.TakeLog("nat.bindings"), IsEmpty());
}

std::string Refused(const std::string& time, int inside_port,
                    const std::string& why) {
  std::string line = Line(time, "refused", "UDP", "10.0.0.1", inside_port, 0);
  line.resize(line.find(",\"external_port\""));
  return line + ",\"reason\":" + why + "}";
}

// One a second and flow, as the refusals that the inside gets.
TEST(NatLog, HasALineForAHostThatHasItsLimit) {
  NfTest nf(Nat("host_ports=1"));
  nf.Send("udp 10.0.0.1:2004 > 192.0.2.9:53");
  nf.TakeLog("nat.bindings");
  nf.RefuseNextAlias(AliasResult::kGroupFull);
  nf.Send("udp 10.0.0.1:2006 > 192.0.2.9:53");
  EXPECT_THAT(
      nf.TakeLog("nat.bindings"),
      ElementsAre(
          Line("00:16:40.002000", "created", "UDP", "10.0.0.1", 2006, 2006),
          Refused("00:16:40.002000", 2006, "\"host_ports\",\"limit\":1"),
          Line("00:16:40.002000", "released", "UDP", "10.0.0.1", 2006, 2006)));
}

TEST(NatLog, HasALineForPortsThatAreExhausted) {
  NfTest nf("nat:ip=198.51.100.1,ports=2000-2000,log_bindings=true");
  nf.Send("udp 10.0.0.1:2004 > 192.0.2.9:53");
  nf.TakeLog("nat.bindings");
  for (int i = 0; i < 3; ++i) nf.Send("udp 10.0.0.1:2006 > 192.0.2.9:53");
  EXPECT_THAT(
      nf.TakeLog("nat.bindings"),
      ElementsAre(Refused("00:16:40.002000", 2006, "\"ports_exhausted\"")));
}

TEST(NatLog, IsTheSameEverywhere) {
  std::vector<std::string> packets;
  for (int i = 0; i < 60; ++i) {
    packets.push_back("+1ms udp 10.0.0." + std::to_string(1 + i % 7) +
                      ":2004 > 192.0.2.9:53");
  }
  EXPECT_TRUE(
      RunEverywhere("nat:ip=198.51.100.1,log_bindings=true,udp_timeout=20ms",
                    Packets(packets)));
}

// Returns a record as a collector reads it: "323=1000002 230=8 …".
std::string IpfixOf(NfTest& nf, const NatBindingRecord& record) {
  const auto* log = dynamic_cast<const IpfixLog*>(&nf.nf());
  if (log == nullptr || !log->has_ipfix()) return "none";
  std::string values;
  std::string text;
  size_t at = 0;
  for (const IpfixField& field :
       log->write_ipfix({.time = Instant{1'000'002'000'000},
       .bytes = std::as_bytes(std::span(&record, 1))},
                        values)) {
    uint64_t number = 0;
    for (size_t end = at + field.bytes; at < end; ++at) {
      number = number << 8 | static_cast<uint8_t>(values.at(at));
    }
    text += (text.empty() ? "" : " ") + std::to_string(field.element) + "=" +
            std::to_string(number);
  }
  EXPECT_EQ(at, values.size());
  return text;
}

TEST(NatLog, HasEventsOfRfc8158) {
  NfTest nf(Nat(""));
  NatBindingRecord record = {.inside = IpAddress::FromIpv4(be32(0x0a000001)),
                             .external = be32(0xc6336401),
                             .inside_port = be16(2004),
                             .external_port = be16(2006),
                             .protocol = IpProtocol::kUdp};
  const std::string inside = " 4=17 8=167772161 7=2004";
  const std::string external = " 225=3325256705";
  EXPECT_EQ(IpfixOf(nf, record),
            "323=1000002 230=8" + inside + external + " 227=2006");
  record.event = NatBindingRecord::kReleased;
  EXPECT_EQ(IpfixOf(nf, record),
            "323=1000002 230=9" + inside + external + " 227=2006");
  record.event = NatBindingRecord::kOverHostPorts;
  record.host_ports = 4096;
  EXPECT_EQ(IpfixOf(nf, record),
            "323=1000002 230=13" + inside + " 466=3 473=4096");
  record.event = NatBindingRecord::kPortsExhausted;
  EXPECT_EQ(IpfixOf(nf, record), "323=1000002 230=12" + inside + external);
  record.event = NatBindingRecord::kCreated;
  record.is_ipv6 = 1;
  EXPECT_THAT(IpfixOf(nf, record), testing::HasSubstr(" 230=10 4=17 27="));
  record.event = 77;  // of a unit that is not trusted
  EXPECT_EQ(IpfixOf(nf, record), "");
  NfTest without("nat:ip=198.51.100.1");
  EXPECT_EQ(IpfixOf(without, record), "none");
}

}  // namespace
}  // namespace snf
