// SPDX-License-Identifier: Apache-2.0
//
// Packets in which something hides from the NF: which of them leave?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/packet/ip_prefix.h"
#include "base/packet/test_packets.h"
#include "platform/system_test/test_run.h"

namespace snf {
namespace {

using testing::Contains;

using Frames = std::vector<OfferedFrame>;

constexpr uint8_t kTcp = 6, kIcmpv6 = 58, kOptions = 60, kFragment = 44;

const Frame kSyn = [] {
  Frame tcp = Tcp(4444, 22, 0, 8);
  tcp[13] = std::byte{2};
  return tcp;
}();
const Frame kIp = Ipv4({.protocol = kTcp}, kSyn);
const Frame kIp6 = Ipv6({.next_header = kTcp}, kSyn);

OfferedFrame Of(const Frame& frame, LinkType link = LinkType::kEthernet) {
  return {.time = Instant{}, .bytes = frame, .link = link};
}
OfferedFrame Typed(uint16_t type, const Frame& front = {}) {
  return Of(Ethernet(type, front + kIp));
}

// Tags of the VLAN 0 around a payload of that type.
OfferedFrame Tagged(int tags, uint16_t type, Frame payload) {
  for (int tag = 1; tag < tags; ++tag) {
    payload = Vlan(0, type, payload);
    type = 0x8100;
  }
  return Of(Ethernet(0x8100, Vlan(0, type, payload)));
}

OfferedFrame Llc(const char* header, const Frame& payload = {}) {
  const Frame body = Hex(header) + payload;
  return Of(Ethernet(static_cast<uint16_t>(body.size()), body));
}

// As Snap, without the Ethernet header.
Frame SnapBody(uint16_t type, const Frame& payload) {
  const Frame whole = Snap(type, payload);
  return {whole.begin() + 14, whole.end()};
}

OfferedFrame V6(uint8_t next_header, const Frame& payload) {
  return Of(Ethernet(0x86dd, Ipv6({.next_header = next_header}, payload)));
}
OfferedFrame V6Options(int headers) {
  Frame chain = kSyn;
  for (int i = 0; i < headers; ++i) {
    chain = Ipv6Extension(i == 0 ? kTcp : kOptions, 1, chain);
  }
  return V6(kOptions, chain);
}
OfferedFrame Discovery(uint8_t type, uint8_t hop_limit) {
  Frame ip = Ipv6({.next_header = kIcmpv6}, Icmp(type, 0, 0, Frame(16)));
  ip[7] = std::byte{hop_limit};
  return Of(Ethernet(0x86dd, ip));
}

OfferedFrame V4Part(uint16_t offset, bool more, const Frame& part) {
  return Of(Ethernet(0x0800, Ipv4({.protocol = kTcp,
                                   .id = 7,
                                   .fragment_offset_bytes = offset,
                                   .more_fragments = more},
                                  part)));
}
Frame Part(size_t begin, size_t end) {
  Frame whole = kSyn + Frame(64);
  return {whole.begin() + static_cast<ptrdiff_t>(begin),
          whole.begin() + static_cast<ptrdiff_t>(end)};
}

// The frames of each row of the table, by its name there.
const std::map<std::string, Frames>& Rows() {
  static const auto* const kRows = new std::map<std::string, Frames>{
      {"Ethernet", {Typed(0x0800)}},
      {"Ethernet, IPv6", {Of(Ethernet(0x86dd, kIp6))}},
      {"raw IP", {Of(kIp, LinkType::kRawIp)}},
      {"Linux cooked", {Of(LinuxSll(0x0800, kIp), LinkType::kLinuxSll)}},
      {"PPP", {Of(Hex("ff 03 00 21") + kIp, LinkType::kPpp)}},
      {"4 tags of VLAN 0", {Tagged(4, 0x0800, kIp)}},
      {"5 tags of VLAN 0", {Tagged(5, 0x0800, kIp)}},
      {"802.1ad in 802.1Q",
       {Of(Ethernet(0x88a8, Vlan(5, 0x8100, Vlan(7, 0x0800, kIp))))}},
      {"a tag that is cut", {Of(Ethernet(0x8100, Hex("00 00 08")))}},
      {"SNAP", {Of(Snap(0x0800, kIp))}},
      {"SNAP behind 802.1Q", {Tagged(1, 100, SnapBody(0x0800, kIp))}},
      {"802.1Q behind SNAP", {Of(Snap(0x8100, Vlan(0, 0x0800, kIp)))}},
      {"SNAP of an unknown organisation",
       {Llc("aa aa 03 00 80 c2 08 00", kIp)}},
      {"LLC 0x06 (IP)", {Llc("06 06 03", kIp)}},
      {"802.1ah (0x88e7)",
       {Typed(0x88e7, Hex("00 00 00 01 020000000002 020000000001 0800"))}},
      {"0x9200", {Typed(0x9200, Hex("00 00 08 00"))}},
      {"Cisco metadata (0x8909)",
       {Typed(0x8909, Hex("01 01 00 01 00 00 08 00"))}},
      {"NSH (0x894f)",
       {Typed(0x894f, Hex("0f c6 01 01 00 00 01 ff") + Frame(16))}},
      {"VN-tag (0x8926)", {Typed(0x8926, Hex("00 00 00 00 08 00"))}},
      {"MACsec (0x88e5)", {Typed(0x88e5, Hex("08 00 00 00 00 01"))}},
      {"MPLS", {Of(Ethernet(0x8847, Mpls(16, true, kIp)))}},
      {"MPLS pseudowire",
       {Of(Ethernet(0x8847,
                    Mpls(16, true, Hex("00000000") + Ethernet(0x0800, kIp))))}},
      {"PPPoE", {Of(Ethernet(0x8864, Pppoe(0x21, kIp)))}},
      {"PPPoE, compressed TCP (0x002d)",
       {Of(Ethernet(0x8864, Pppoe(0x2d, kSyn)))}},
      {"IP header that is cut", {Of(Ethernet(0x0800, Hex("45 00")))}},
      {"IPv6 where the type says IPv4", {Of(Ethernet(0x0800, kIp6))}},
      {"IPv6, 8 extension headers", {V6Options(8)}},
      {"IPv6, 12 extension headers", {V6Options(12)}},
      {"IPv6, chain that is cut", {V6(kOptions, Hex("06 04 00 00"))}},
      {"IPv6, mobility before TCP", {V6(135, Ipv6Extension(kTcp, 1, kSyn))}},
      {"IPv6, shim6 before TCP", {V6(140, Ipv6Extension(kTcp, 1, kSyn))}},
      {"IPv6, HIP before TCP", {V6(139, Ipv6Extension(kTcp, 1, kSyn))}},
      {"IPv6, mobility alone", {V6(135, Ipv6Extension(59, 1, {}))}},
      {"IPv6, ports in the second fragment",
       {V6(kFragment,
           Ipv6Fragment(kOptions, 0, true, 1, Ipv6Extension(kTcp, 1, {}))),
        V6(kFragment, Ipv6Fragment(kOptions, 8, false, 1, kSyn))}},
      {"TCP's flags in the second fragment",
       {V4Part(0, true, Part(0, 8)), V4Part(8, false, Part(8, 48))}},
      {"a fragment that overlaps the first",
       {V4Part(0, true, Part(0, 40)), V4Part(16, false, Part(16, 48))}},
      {"TCP at offset 8, without its first", {V4Part(8, false, Part(8, 48))}},
      {"TCP, header that is cut",
       {Of(Ethernet(0x0800, Ipv4({.protocol = kTcp}, Hex("11 5c"))))}},
      {"ARP", {Of(Ethernet(0x0806, Frame(28)))}},
      {"ARP behind 802.1Q", {Tagged(1, 0x0806, Frame(28))}},
      {"ARP behind 5 tags", {Tagged(5, 0x0806, Frame(28))}},
      {"LLDP", {Of(Ethernet(0x88cc, Frame(46)))}},
      {"LACP", {Of(Ethernet(0x8809, Frame(46)))}},
      {"802.1X", {Of(Ethernet(0x888e, Frame(46)))}},
      {"spanning tree", {Llc("42 42 03", Frame(35))}},
      {"IS-IS", {Llc("fe fe 03", Frame(35))}},
      {"CDP", {Llc("aa aa 03 00 00 0c 20 00", Frame(35))}},
      {"PPPoE discovery", {Of(Ethernet(0x8863, Pppoe(0x21, {})))}},
      {"PPPoE, LCP", {Of(Ethernet(0x8864, Pppoe(0xc021, Frame(8))))}},
      {"router solicitation", {Discovery(133, 255)}},
      {"router advertisement", {Discovery(134, 255)}},
      {"neighbour solicitation", {Discovery(135, 255)}},
      {"neighbour advertisement", {Discovery(136, 255)}},
      {"neighbour solicitation that was forwarded", {Discovery(135, 254)}},
      {"redirect", {Discovery(137, 255)}}};
  return *kRows;
}

const std::vector<std::string> kNfs = {
    "firewall:default=deny", "firewall:deny=tcp to any port 22",
    "nat:ip=198.51.100.1", "udp_whitelister", "monitor"};

RunOptions Options() {
  RunOptions options = SmallTables();
  options.inside = *ParsePrefixes("10.0.0.0/8,2001:db8::1/128");
  return options;
}

Outcome RunOf(const std::string& nf, Frames frames,
              const RunOptions& options = Options()) {
  for (size_t i = 0; i < frames.size(); ++i) {
    frames[i].time = Instant{} + Milliseconds(20 * static_cast<int64_t>(i));
  }
  const Outcome outcome = RunFrames(options, *NfSpec::Parse(nf), frames);
  ExpectSound(outcome);
  return outcome;
}

// Returns a cell of the table: the fates of the frames, each word once.
std::string CellOf(const std::string& nf, const Frames& frames) {
  const Outcome outcome = RunOf(nf, frames);
  std::vector<std::string> words;
  for (size_t r = 0; r < kDropReasons; ++r) {
    if (outcome.run.dropped[r] == 0) continue;
    words.emplace_back(ToString(static_cast<DropReason>(r)));
  }
  for (const uint64_t dropped : outcome.run.nf_dropped) {
    if (dropped > 0) words.emplace_back("filtered");
  }
  bool leaves = false, is_translated = false;
  for (const ReleasedFrame& released : outcome.released) {
    const bool is_same =
        std::ranges::any_of(frames, [&](const OfferedFrame& frame) {
          return frame.bytes == released.bytes;
        });
    (is_same ? leaves : is_translated) = true;
  }
  if (leaves) words.emplace_back("leaves");
  if (is_translated) words.emplace_back("translated");
  return absl::StrJoin(words, ", ");
}

// Returns the cells of each line of the page's table, without its heading.
std::vector<std::vector<std::string>> TableOfPage() {
  std::ifstream page(SNF_PAGE);
  std::vector<std::vector<std::string>> table;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| ")) continue;
    std::vector<std::string> cells = absl::StrSplit(line, '|');
    for (std::string& cell : cells) absl::StripAsciiWhitespace(&cell);
    table.emplace_back(cells.begin() + 1, cells.end() - 1);
  }
  if (!table.empty()) table.erase(table.begin());
  return table;
}

TEST(Unreadable, DoesWithEachEncapsulationWhatTheTableSays) {
  const auto table = TableOfPage();
  std::vector<std::string> names;
  for (const std::vector<std::string>& row : table) {
    ASSERT_EQ(row.size(), 1 + kNfs.size()) << SNF_PAGE;
    names.push_back(row[0]);
    const auto frames = Rows().find(row[0]);
    ASSERT_NE(frames, Rows().end()) << row[0];
    std::string found = "| " + row[0];
    for (const std::string& nf : kNfs) {
      found += " | " + CellOf(nf, frames->second);
    }
    EXPECT_EQ(found, "| " + absl::StrJoin(row, " | "));
  }
  for (const auto& [name, frames] : Rows()) {
    EXPECT_THAT(names, Contains(name)) << "a row of " << SNF_PAGE;
  }
}

TEST(Unreadable, LeavesNothingOutOfADenyAllFirewallButWhatKeepsASegmentAlive) {
  for (const auto& [name, frames] : Rows()) {
    const Outcome outcome = RunOf("firewall:default=deny", frames);
    EXPECT_EQ(outcome.run.packets_released, 0u) << name;
    EXPECT_EQ(outcome.run.packets_passed_through,
              outcome.run.packets_in - outcome.run.packets_dropped())
        << name;
  }
}

TEST(Unreadable, PassesWhereAsked) {
  RunOptions options = Options();
  options.unreadable = Unreadable::kPass;
  const Outcome outcome =
      RunOf("firewall:default=deny", Rows().at("5 tags of VLAN 0"), options);
  EXPECT_EQ(outcome.run.packets_passed_through, 1u);
}

TEST(Unreadable, DropsWithAnyNfWhereAsked) {
  RunOptions options = Options();
  options.unreadable = Unreadable::kDrop;
  const Outcome outcome =
      RunOf("monitor", Rows().at("5 tags of VLAN 0"), options);
  EXPECT_EQ(
      outcome.run.dropped[static_cast<size_t>(DropReason::kLinkUnreadable)],
      1u);
}

TEST(Unreadable, DropsWhereAnNfOfTheChainIsABarrier) {
  for (const char* const chain :
       {"monitor | firewall", "firewall | monitor", "syn_guard",
        "lb:virtual=192.0.2.9:22,servers=10.0.0.9:22",
        "gwlb:address=192.0.2.9,appliances=10.0.0.9"}) {
    const Outcome outcome = RunOf(chain, Rows().at("0x9200"));
    EXPECT_EQ(
        outcome.run.dropped[static_cast<size_t>(DropReason::kTypeUnknown)], 1u)
        << chain;
  }
}

}  // namespace
}  // namespace snf
