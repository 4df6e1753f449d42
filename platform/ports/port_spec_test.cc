// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/port_spec.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<PortSpec> spec = ParsePort(text);
  return spec.ok() ? "none" : std::string(spec.status().message());
}

std::string ErrorOfAll(const std::vector<std::string>& texts) {
  std::vector<PortSpec> ports;
  for (const std::string& text : texts) ports.push_back(*ParsePort(text));
  return std::string(CheckPorts(ports).message());
}

TEST(PortSpec, HasSideKindAndInterface) {
  const absl::StatusOr<PortSpec> inside = ParsePort("inside=lan0");
  ASSERT_TRUE(inside.ok());
  EXPECT_EQ(inside->side, Side::kInside);
  EXPECT_EQ(inside->kind, PortSpec::Kind::kPacket);
  EXPECT_EQ(inside->interface, "lan0");
  const absl::StatusOr<PortSpec> outside = ParsePort("outside=tap:wan-1.2@x");
  ASSERT_TRUE(outside.ok());
  EXPECT_EQ(outside->side, Side::kOutside);
  EXPECT_EQ(outside->kind, PortSpec::Kind::kTap);
  EXPECT_EQ(outside->interface, "wan-1.2@x");
}

TEST(PortSpec, OfAGatewayLoadBalancerHasBothSides) {
  const absl::StatusOr<PortSpec> port = ParsePort("both=gwlb:eth0,health=8080");
  ASSERT_TRUE(port.ok());
  EXPECT_EQ(port->side, Side::kUnknown);
  EXPECT_EQ(port->kind, PortSpec::Kind::kGwlb);
  EXPECT_EQ(port->interface, "eth0");
  EXPECT_EQ(port->health_port, 8'080);
  EXPECT_EQ(port->name(), "both");
  EXPECT_EQ(ParsePort("both=gwlb:eth0")->health_port, 0);
  EXPECT_THAT(ErrorOf("inside=gwlb:eth0"), HasSubstr("want both=gwlb:eth0"));
  EXPECT_THAT(ErrorOf("both=eth0"), HasSubstr("only gwlb has both sides"));
  EXPECT_THAT(ErrorOf("both=file:cap.pcap"), HasSubstr("only gwlb"));
  for (const char* wrong : {",health=0", ",health=65536", ",health=", ",x=1",
                            ",", ",health=80,health=81", ",health=8x"}) {
    EXPECT_THAT(ErrorOf(std::string("both=gwlb:eth0") + wrong),
                HasSubstr("want ,health=PORT"))
        << wrong;
  }
  EXPECT_EQ(ErrorOfAll({"both=gwlb:eth0"}), "");
  EXPECT_THAT(ErrorOfAll({"both=gwlb:eth0", "inside=lan0", "outside=wan0"}),
              HasSubstr("must be the only port"));
  EXPECT_THAT(ErrorOfAll({"both=gwlb:eth0", "both=gwlb:eth1"}),
              HasSubstr("must be the only port"));
}

TEST(PortSpec, PrintsWhatItWasParsedFrom) {
  for (const char* text : {"inside=lan0", "outside=tap:wan0", "inside=xdp:lan0",
                           "inside=file:a/b c:d.pcap", "both=gwlb:eth0",
                           "both=gwlb:eth0,health=80"}) {
    EXPECT_EQ(ParsePort(text)->text(), text);
  }
  EXPECT_EQ(ParsePort("inside=packet:lan0")->text(), "inside=lan0");
}

TEST(PortSpec, RefusesWhatIsNoneAndSaysWhichPart) {
  EXPECT_THAT(ErrorOf("lan0"), HasSubstr("\"lan0\" names no side"));
  EXPECT_THAT(ErrorOf("left=lan0"), HasSubstr("\"left\" is neither inside"));
  EXPECT_THAT(ErrorOf("inside=pcap:lan0"), HasSubstr("\"pcap\" is not a kind"));
  for (const char* name : {"", "tap:", "xdp:", "file:", "file:-", "a/b", "a b",
                           "a:b:c", "..", "abcdefghijklmnop"}) {
    EXPECT_NE(ErrorOf("inside=" + std::string(name)), "none") << name;
  }
  EXPECT_EQ(ErrorOf("inside=abcdefghijklmno"), "none");
}

TEST(PortSpec, WantsAnInsideAndAnOutsideOnInterfacesOfTheirOwn) {
  EXPECT_EQ(ErrorOfAll({"outside=b", "inside=a"}), "");
  EXPECT_EQ(ErrorOfAll({"inside=a", "outside=b", "inside=tap:c"}), "");
  EXPECT_EQ(ErrorOfAll({"inside=a", "outside=file:a"}), "");
  EXPECT_THAT(ErrorOfAll({}), HasSubstr("no inside"));
  EXPECT_THAT(ErrorOfAll({"inside=a", "inside=b"}), HasSubstr("no outside"));
  EXPECT_THAT(ErrorOfAll({"inside=a", "outside=b", "inside=xdp:a"}),
              HasSubstr("a is given twice"));
  EXPECT_THAT(ErrorOfAll({"inside=a", "outside=a"}),
              HasSubstr("a cannot be both"));
}

TEST(PortSpec, HasANumberIfItsSideHasSeveral) {
  std::vector<PortSpec> ports;
  for (const char* text : {"inside=a", "outside=b", "inside=c"}) {
    ports.push_back(*ParsePort(text));
  }
  NumberPorts(ports);
  EXPECT_EQ(ports[0].name(), "inside1");
  EXPECT_EQ(ports[1].name(), "outside");
  EXPECT_EQ(ports[2].name(), "inside2");
  EXPECT_EQ(ports[2].text(), "inside=c");
}

TEST(PortSpec, RoutesWithAddressesAtBothPorts) {
  const std::string inside = "inside=a,address=10.1.0.1/24,address=fd01::1/64";
  const std::string outside =
      "outside=b,address=192.0.2.1/24,gateway=192.0.2.254";
  EXPECT_EQ(ParsePort(inside)->text(), inside);
  EXPECT_EQ(ParsePort(inside)->interface, "a");
  EXPECT_EQ(ParsePort("inside=packet:a,address=fd01::1/64")->text(),
            "inside=a,address=fd01::1/64");
  EXPECT_EQ(ErrorOfAll({inside, outside}), "");
  EXPECT_THAT(ErrorOfAll({inside, "outside=b"}),
              HasSubstr("outside=b has no address"));
  EXPECT_EQ(ErrorOfAll({inside, outside, "inside=c,address=10.2.0.1/24"}), "");
  EXPECT_THAT(ErrorOfAll({inside, outside, "inside=c,address=10.1.0.2/16"}),
              HasSubstr("in the networks of two ports"));
  EXPECT_THAT(ErrorOfAll({inside, outside, "inside=c"}),
              HasSubstr("inside=c has no address"));
  EXPECT_THAT(ErrorOfAll({inside, "outside=b,address=10.1.0.2/16"}),
              HasSubstr("in the networks of two ports"));
  EXPECT_THAT(ErrorOf("inside=a,addres=10.1.0.1/24"), HasSubstr("\"addres\""));
  for (const char* kind : {"tap:", "xdp:"}) {
    EXPECT_THAT(
        ErrorOf("inside=" + std::string(kind) + "a,address=10.1.0.1/24"),
        HasSubstr("only an interface without xdp: and tap:"));
  }
}

TEST(PortSpec, HasOneQueueOrAsManyAsItSays) {
  EXPECT_EQ(ParsePort("inside=lan0")->queues, 1u);
  EXPECT_EQ(ParsePort("inside=lan0,queues=1")->text(), "inside=lan0");
  const absl::StatusOr<PortSpec> port =
      ParsePort("inside=packet:lan0,queues=16");
  ASSERT_TRUE(port.ok());
  EXPECT_EQ(port->queues, 16u);
  EXPECT_EQ(port->interface, "lan0");
  EXPECT_EQ(port->text(), "inside=lan0,queues=16");
  // Among the options of a port that routes.
  EXPECT_EQ(
      ParsePort("inside=a,address=10.1.0.1/24,queues=2,proxy=10.1.0.9")->text(),
      "inside=a,queues=2,address=10.1.0.1/24,proxy=10.1.0.9");
  for (const char* wrong : {"", "0", "17", "x", "-1", "2x"}) {
    EXPECT_THAT(ErrorOf("inside=a,queues=" + std::string(wrong)),
                HasSubstr("want ,queues=N, from 1 to 16"))
        << wrong;
  }
  EXPECT_THAT(ErrorOf("inside=a,queues=2,queues=3"), HasSubstr("given twice"));
  for (const char* kind : {"xdp:", "tap:"}) {
    EXPECT_THAT(ErrorOf("inside=" + std::string(kind) + "a,queues=2"),
                HasSubstr("only a packet socket has it"));
  }
}

TEST(PortSpec, SendsByTheControllersThreadOrOneOfItsOwn) {
  EXPECT_FALSE(ParsePort("inside=lan0")->sends_by_thread);
  EXPECT_EQ(ParsePort("inside=lan0,send=controller")->text(), "inside=lan0");
  const char* const both =
      "inside=lan0,queues=2,send=thread,address=10.1.0.1/24";
  EXPECT_TRUE(ParsePort(both)->sends_by_thread);
  EXPECT_EQ(ParsePort(both)->text(), both);
  EXPECT_EQ(ParsePort("inside=lan0,send=thread,queues=2")->text(),
            "inside=lan0,queues=2,send=thread");
  EXPECT_THAT(ErrorOf("inside=a,send=me"),
              HasSubstr("\"me\": want ,send=thread"));
  EXPECT_THAT(ErrorOf("inside=xdp:a,send=thread"),
              HasSubstr("only a packet socket has it"));
}

TEST(PortSpec, ThereAreSixteenAtTheMost) {
  std::vector<std::string> texts = {"outside=w"};
  for (int i = 1; i < 16; ++i) texts.push_back("inside=i" + std::to_string(i));
  EXPECT_EQ(ErrorOfAll(texts), "");
  texts.emplace_back("outside=x");
  EXPECT_THAT(ErrorOfAll(texts), HasSubstr("17 are given, at most 16"));
}

}  // namespace
}  // namespace snf
