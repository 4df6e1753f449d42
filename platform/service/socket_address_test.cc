// SPDX-License-Identifier: Apache-2.0
#include "platform/service/socket_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <string>

namespace snf {
namespace {

using testing::HasSubstr;

std::string IpOf(const std::string& text) {
  const auto address = ParseSocketAddress(text);
  return address.ok() ? IpTextOf(*address)
                      : std::string(address.status().message());
}

TEST(SocketAddress, ReadsBothVersionsOfIp) {
  EXPECT_EQ(IpOf("192.0.2.1:7000"), "192.0.2.1");
  EXPECT_EQ(IpOf("[2001:DB8:0:0::1]:7000"), "2001:db8::1");
  EXPECT_EQ(IpOf("0.0.0.0:0"), "0.0.0.0");
  EXPECT_EQ(IpOf("[::ffff:192.0.2.1]:7000"), "192.0.2.1");
  const auto address = ParseSocketAddress("[2001:db8::1]:65535");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(ntohs(reinterpret_cast<const sockaddr_in6&>(*address).sin6_port),
            65'535);
}

TEST(SocketAddress, RefusesTextsThatTheSystemWouldGuessAt) {
  for (const char* text :
       {"", ":", ":7000", "192.0.2.1", "192.0.2.1:", "192.0.2.1:65536",
        "192.0.2.1:70000", "192.0.2.1:-1", "192.0.2.1:+1", "192.0.2.1:7000 ",
        "192.0.2.1:http", "10.9:7000", "0x0a000001:7000", "10.0.0.400:7000",
        "a.example:7000", "[]:7000", "x y", "192.0.2.1/24:7000"}) {
    EXPECT_EQ(IpOf(text), std::string("\"") + text +
                              "\" is no ADDRESS:PORT, as 192.0.2.1:7000");
  }
}

TEST(SocketAddress, RefusesWhatOthersCannotSendTo) {
  EXPECT_TRUE(ParseReachable("192.0.2.1:7000", "").ok());
  EXPECT_TRUE(ParseReachable("[fe80::1]:1", "").ok());
  for (const char* text : {"0.0.0.0:7000", "[::]:7000", "[::ffff:0.0.0.0]:7000",
                           "192.0.2.1:0", "192.0.2.1", "a.example:7000"}) {
    const auto address = ParseReachable(text, "192.0.2.1:6083");
    EXPECT_EQ(address.status().message(),
              std::string("\"") + text +
                  "\" is no ADDRESS:PORT that others can send to, as "
                  "192.0.2.1:6083");
  }
}

TEST(SocketAddress, WritesAHostOneWay) {
  EXPECT_EQ(ParseHostIp("192.0.2.1").value_or(""), "192.0.2.1");
  EXPECT_EQ(ParseHostIp("2001:DB8:0::1").value_or(""), "2001:db8::1");
  EXPECT_EQ(ParseHostIp("::ffff:192.0.2.1").value_or(""), "192.0.2.1");
  for (const char* text : {"", "10.9.0.400", "10.9.0.4/24", "ctrl.example",
                           "0.0.0.0", "::", "10.9", "192.0.2.1:7000", " "}) {
    EXPECT_THAT(std::string(ParseHostIp(text).status().message()),
                HasSubstr(std::string("\"") + text + "\" is no IP address"));
  }
}

}  // namespace
}  // namespace snf
