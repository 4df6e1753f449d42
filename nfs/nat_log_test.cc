// SPDX-License-Identifier: Apache-2.0
// The log of bindings (RFC 6888 REQ-12, RFC 7422); nfs/nat.md names these
// tests. NfTest begins at 1,000 s.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

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

}  // namespace
}  // namespace snf
