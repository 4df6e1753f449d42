// SPDX-License-Identifier: Apache-2.0
//
// NfTest of nf_test.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

TEST(NfTest, TellsWhatBecameOfAPacket) {
  NfTest nf("passthrough");
  EXPECT_EQ(nf.Send("udp 10.0.0.1:5000 > 192.0.2.9:53 \"q\""),
            "udp 10.0.0.1:5000 > 192.0.2.9:53 ttl=64 x'71'");
}

TEST(NfTest, TranslatesBothWays) {
  NfTest nf("nat:ip=198.51.100.1,ports=2000-2001");
  const std::string query = "udp 10.0.0.1:5000 > 192.0.2.9:53 \"q\"";
  EXPECT_EQ(nf.Send(query), "udp 198.51.100.1:2000 > 192.0.2.9:53 \"q\"");
  EXPECT_EQ(nf.alias(query), "udp 198.51.100.1:2000");
  EXPECT_EQ(nf.Send("udp 192.0.2.9:53 > 198.51.100.1:2000 \"a\""),
            "udp 192.0.2.9:53 > 10.0.0.1:5000 \"a\"");
  EXPECT_EQ(nf.Send("udp 192.0.2.9:53 > 10.0.0.1:5000 \"a\""),
            "udp 192.0.2.9:53 > 10.0.0.1:5000 \"a\"");
}

}  // namespace
}  // namespace snf
