// SPDX-License-Identifier: Apache-2.0
#include "platform/outcome/flow_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/packet/flow_key.h"
#include "base/packet/flow_key_text.h"
#include "base/packet/ip_address_text.h"

namespace snf {
namespace {

using ::testing::HasSubstr;

FlowKey KeyOf(const std::string& source, uint16_t source_port,
              const std::string& destination, uint16_t port,
              IpProtocol protocol) {
  const bool is_ipv6 = source.find(':') != std::string::npos;
  const auto parse = is_ipv6 ? ParseIpv6 : ParseIpv4;
  return {.source = *parse(source),
          .destination = *parse(destination),
          .source_port = be16(source_port),
          .destination_port = be16(port),
          .vlan = {},
          .protocol = protocol,
          .form = is_ipv6 ? FlowKeyForm::kIpv6 : FlowKeyForm::kIpv4};
}

bool Selects(const std::string& text, const FlowKey& key) {
  auto filter = FlowFilter::Compile(text);
  EXPECT_TRUE(filter.ok()) << filter.status();
  return filter.ok() && filter->SelectsFlow(key);
}

TEST(FlowFilter, SelectsTheFlowWhoseKeyItIs) {
  const FlowKey tcp =
      KeyOf("10.0.0.1", 5000, "192.0.2.9", 443, IpProtocol::kTcp);
  const FlowKey end = *ParseFlowKey("udp 10.0.0.1:5000");
  for (const std::string text : {"tcp 10.0.0.1:5000 > 192.0.2.9:443",
                                 "tcp 192.0.2.9:443 > 10.0.0.1:5000",
                                 "6 10.0.0.1:5000 <> 192.0.2.9:443"}) {
    EXPECT_TRUE(Selects(text, tcp)) << text;
    EXPECT_FALSE(Selects(text, end)) << text;
  }
  for (const std::string text :
       {"udp 10.0.0.1:5000 > 192.0.2.9:443", "tcp 10.0.0.1:5000",
        "tcp 10.0.0.1:5001 > 192.0.2.9:443"}) {
    EXPECT_FALSE(Selects(text, tcp)) << text;
  }
  EXPECT_TRUE(Selects("udp 10.0.0.1:5000", end));
  EXPECT_FALSE(Selects("udp 10.0.0.1:5001", end));
  EXPECT_FALSE(Selects("udp 10.0.0.1:5000", FlowKey{}));
}

TEST(FlowFilter, SelectsFlowsByTheirKeysInBothDirections) {
  const FlowKey tcp =
      KeyOf("10.0.0.1", 5000, "192.0.2.9", 443, IpProtocol::kTcp);
  const FlowKey udp =
      KeyOf("2001:db8::1", 5000, "2001:db8::9", 53, IpProtocol::kUdp);
  for (const std::string text :
       {"", "tcp", "ip", "host 10.0.0.1", "net 192.0.2.0/24", "tcp port 443",
        "src host 192.0.2.9", "dst port 443", "src port 443",
        "host 10.0.0.1 and not udp"}) {
    EXPECT_TRUE(Selects(text, tcp)) << text;
  }
  for (const std::string text : {"udp", "ip6", "port 53", "host 10.0.0.2",
                                 "src host 192.0.2.9 and src port 5000"}) {
    EXPECT_FALSE(Selects(text, tcp)) << text;
  }
  for (const std::string text :
       {"udp port 53", "ip6 host 2001:db8::9", "src net 2001:db8::/32"}) {
    EXPECT_TRUE(Selects(text, udp)) << text;
  }
  for (const std::string text : {"tcp", "ip", "host 10.0.0.1"}) {
    EXPECT_FALSE(Selects(text, udp)) << text;
  }
}

TEST(FlowFilter, SelectsAPacketWithoutAFlowByItsHeadersAlone) {
  EXPECT_FALSE(Selects("ip or ip6 or arp", FlowKey{}));
  EXPECT_TRUE(Selects("", FlowKey{}));
}

TEST(FlowFilter, TellsWhatIsWrongWithAFilter) {
  for (const std::string text : {"host", "port 70000", "banana"}) {
    const auto filter = FlowFilter::Compile(text);
    EXPECT_EQ(filter.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(filter.status().message()), HasSubstr(text));
  }
}

}  // namespace
}  // namespace snf
