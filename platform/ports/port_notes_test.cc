// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/port_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace snf {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<PortSpec> PortsOf(const std::vector<std::string>& texts) {
  std::vector<PortSpec> ports;
  for (const std::string& text : texts) {
    const auto port = ParsePort(text);
    EXPECT_TRUE(port.ok()) << port.status();
    ports.push_back(*port);
  }
  NumberPorts(ports);
  EXPECT_TRUE(CheckPorts(ports).ok());
  return ports;
}

constexpr const char* kInside = "inside=lan0,address=10.1.0.1/24";
constexpr be32 kOwn{0xc000'0202}, kOther{0xc000'0205}, kNext{0xc000'0206};

std::vector<std::string> NotesOf(const std::string& options,
                                 const std::vector<be32>& addresses) {
  return NotesOnExternal(PortsOf({kInside, "outside=wan0" + options}),
                         addresses);
}

TEST(NotesOnExternal, TellsOfAnAddressThatIsThePortsOwn) {
  EXPECT_THAT(NotesOf(",address=192.0.2.2/24", {kOwn}),
              ElementsAre(AllOf(HasSubstr("port outside: 192.0.2.2 is its own"),
                                HasSubstr("proxy=192.0.2.2"))));
  EXPECT_THAT(NotesOf(",address=192.0.2.2/24,proxy=192.0.2.2", {kOwn}),
              IsEmpty());
}

TEST(NotesOnExternal, TellsOfAnAddressInThePortsNetwork) {
  EXPECT_THAT(NotesOf(",address=192.0.2.2/24", {kOther}),
              ElementsAre(AllOf(HasSubstr("192.0.2.5 is an address of the NAT"),
                                HasSubstr("proxy=192.0.2.5"))));
  EXPECT_THAT(NotesOf(",address=192.0.2.2/24,proxy=192.0.2.5", {kOther, kNext}),
              ElementsAre(HasSubstr("proxy=192.0.2.6")));
  EXPECT_THAT(NotesOf(",address=192.0.2.2/24", {kOther, kNext, kOwn}),
              ElementsAre(HasSubstr("proxy=192.0.2.2"),
                          HasSubstr("192.0.2.5 and 1 more")));
  EXPECT_THAT(
      NotesOf(",address=192.0.2.2/24,proxy=192.0.2.4/30", {kOther, kNext}),
      IsEmpty());
}

TEST(NotesOnExternal, TellsNothingOfWhatOtherRoutersMaySend) {
  EXPECT_THAT(NotesOf(",address=198.51.100.1/24", {kOther}), IsEmpty());
  EXPECT_THAT(NotesOf(",address=fd02::1/64", {kOther}), IsEmpty());
  EXPECT_THAT(NotesOnExternal(PortsOf({"inside=lan0", "outside=wan0"}),
                              std::vector{kOther}),
              IsEmpty());
  // Hosts inside do not ask for it.
  EXPECT_THAT(NotesOnExternal(PortsOf({"inside=lan0,address=192.0.2.2/24",
                                       "outside=wan0,address=198.51.100.1/24"}),
                              std::vector{kOwn, kOther}),
              IsEmpty());
}

TEST(NotesOnExternal, AsksEachOutsidePort) {
  EXPECT_THAT(
      NotesOnExternal(
          PortsOf({kInside, "outside=wan0,address=192.0.2.2/25",
                   "outside=wan1,address=198.51.100.1/24,proxy=192.0.2.5"}),
          std::vector{kOther}),
      ElementsAre(HasSubstr("port outside1: 192.0.2.5")));
}

TEST(NotesOnMachine, TellsOfEachPortThatWouldNotOpen) {
  EXPECT_THAT(
      NotesOnMachine(PortsOf({"inside=snf-none0", "outside=xdp:snf-none1"})),
      ElementsAre(HasSubstr("port inside: snf-none0: there is no such"),
                  HasSubstr("port outside: snf-none1: there is no such")));
  EXPECT_THAT(NotesOnMachine(PortsOf(
                  {"inside=tap:snf-none0", "outside=file:/nowhere/cap.pcap"})),
              ElementsAre("port outside: /nowhere/cap.pcap: there is no such "
                          "file"));
}

}  // namespace
}  // namespace snf
