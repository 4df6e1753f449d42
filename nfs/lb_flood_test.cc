// SPDX-License-Identifier: Apache-2.0
// nfs/lb.md names these tests rule by rule.
#include <gtest/gtest.h>

#include <string>

#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

constexpr char kLb[] =
    "lb(virtual=192.0.2.10:80,servers=10.0.0.1:8080,tcp_opening_timeout=5s)";
constexpr int kFlood = 2'000;
const std::string kOpen = "tcp 203.0.113.9:5000 > 192.0.2.10:80 ";

std::string Syn(int number) {
  return "+1us tcp 198.51.100." + std::to_string(number % 250 + 1) + ":" +
         std::to_string(1'000 + number) +
         " > 192.0.2.10:80 SYN seq=" + std::to_string(number);
}
void Open(NfTest& nf) {
  nf.Send(kOpen + "SYN seq=1");
  nf.Send("tcp 10.0.0.1:8080 > 203.0.113.9:5000 SYN ACK seq=9 ack=2");
  nf.Send(kOpen + "ACK seq=2 ack=10");
}

TEST(Lb, ASynFloodTakesAFlowForTheOpeningTimeoutAlone) {
  NfTest nf(kLb);
  Open(nf);
  for (int i = 0; i < kFlood; ++i) nf.Send(Syn(i));
  EXPECT_EQ(nf.flows(), kFlood + 1u);
  for (int i = 0; i < kFlood; ++i) nf.Send(Syn(i));  // once more
  EXPECT_EQ(nf.flows(), kFlood + 1u);
  nf.Pass(Seconds(5));
  EXPECT_EQ(nf.flows(), 1u);
  EXPECT_EQ(nf.Send(kOpen + "ACK seq=2 ack=10"),
            "tcp 203.0.113.9:5000 > 10.0.0.1:8080 ACK seq=2 ack=10");
}

TEST(Lb, ASynGuardInFrontBoundsAFlood) {
  NfTest nf("syn_guard(limit=100) | " + std::string(kLb));
  Open(nf);
  int passed = 0;
  for (int i = 0; i < kFlood; ++i) {
    const NfResult result = nf.Send(Syn(i));
    passed += result == "drop syn_guard.half_open_limit" ? 0 : 1;
  }
  EXPECT_EQ(passed, 100);
  EXPECT_EQ(nf.flows(), 101u);
  EXPECT_EQ(nf.Send(kOpen + "ACK seq=2 ack=10"),
            "tcp 203.0.113.9:5000 > 10.0.0.1:8080 ACK seq=2 ack=10");
  nf.Pass(Seconds(10));  // of the guard
  EXPECT_EQ(nf.count("syn_guard.timed_out"), 100u);
}

}  // namespace
}  // namespace snf
