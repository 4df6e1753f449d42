// SPDX-License-Identifier: Apache-2.0
// Compares the table with a matcher that goes from rule to rule, for random
// rules and packets. The two share neither text nor structures: rules are
// passed as text, packets as bytes. SNF_TEST_SEED sets the seed,
// SNF_LONG_TESTS=1 runs more.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "base/packet/ip_address_text.h"
#include "base/packet/test_packets.h"
#include "base/rng.h"
#include "base/rules/rule_table.h"
#include "base/rules/shadowed_rules.h"
#include "base/test_seeds.h"

namespace snf {
namespace {

constexpr uint32_t kNoRule = RuleTable::kNoRule;
constexpr int kAny = -1;

using Bytes = std::array<uint8_t, 16>;  // IPv4: the first four

struct TestPrefix {
  bool is_ipv6;
  Bytes bytes;
  int length;
};

struct TestRange {
  int first;
  int last;
};

struct TestRule {
  int protocol = kAny;
  std::vector<TestPrefix> from, to;
  std::vector<TestRange> from_ports, to_ports;
  int vlan = kAny;
  int flags = kAny, mask = 0;
};

struct TestPacket {
  bool is_ipv6 = false;
  Bytes from{}, to{};
  int protocol = 6;
  int from_port = 0, to_port = 0;
  int vlan = 0;
  int flags = 0;
  // The part of the packet that can be read.
  enum { kWhole, kFirstFragment, kLaterFragment, kNoPorts, kNoFlags } shows{};

  bool has_ports() const {
    return (protocol == 6 || protocol == 17 || protocol == 132) &&
           shows != kLaterFragment && shows != kNoPorts;
  }
  bool has_flags() const {
    return protocol == 6 && has_ports() && shows != kNoFlags;
  }
};

bool BitOf(const Bytes& bytes, int bit) {
  return (bytes[static_cast<size_t>(bit / 8)] >> (7 - bit % 8) & 1) != 0;
}

void SetBit(Bytes& bytes, int bit, bool on) {
  uint8_t& byte = bytes[static_cast<size_t>(bit / 8)];
  const auto mask = static_cast<uint8_t>(0x80 >> bit % 8);
  byte = static_cast<uint8_t>(on ? byte | mask : byte & ~mask);
}

bool AnyHas(const std::vector<TestPrefix>& prefixes, bool is_ipv6,
            const Bytes& address) {
  for (const TestPrefix& prefix : prefixes) {
    bool has = prefix.is_ipv6 == is_ipv6;
    for (int bit = 0; bit < prefix.length; ++bit) {
      has = has && BitOf(prefix.bytes, bit) == BitOf(address, bit);
    }
    if (has) return true;
  }
  return prefixes.empty();
}

bool AnyHas(const std::vector<TestRange>& ranges, const TestPacket& packet,
            int port) {
  for (const TestRange& range : ranges) {
    if (packet.has_ports() && port >= range.first && port <= range.last) {
      return true;
    }
  }
  return ranges.empty();
}

bool Matches(const TestRule& rule, const TestPacket& packet) {
  return (rule.protocol == kAny || rule.protocol == packet.protocol) &&
         (rule.vlan == kAny || rule.vlan == packet.vlan) &&
         (rule.flags == kAny ||
          (packet.has_flags() && (packet.flags & rule.mask) == rule.flags)) &&
         AnyHas(rule.from, packet.is_ipv6, packet.from) &&
         AnyHas(rule.to, packet.is_ipv6, packet.to) &&
         AnyHas(rule.from_ports, packet, packet.from_port) &&
         AnyHas(rule.to_ports, packet, packet.to_port);
}

uint32_t FindOneByOne(const std::vector<TestRule>& rules,
                      const TestPacket& packet) {
  for (uint32_t i = 0; i < rules.size(); ++i) {
    if (Matches(rules[i], packet)) return i;
  }
  return kNoRule;
}

// --- As text and as bytes ----------------------------------------------------

IpAddress AddressOf(bool is_ipv6, const Bytes& b) {
  if (!is_ipv6) return V4(b[0], b[1], b[2], b[3]);
  IpAddress address;
  for (size_t i = 0; i < b.size(); ++i) address.bytes[i] = std::byte{b[i]};
  return address;
}

std::string EntriesOf(const std::vector<TestPrefix>& prefixes) {
  std::string text;
  for (const TestPrefix& prefix : prefixes) {
    const IpAddress address = AddressOf(prefix.is_ipv6, prefix.bytes);
    text += text.empty() ? "" : ",";
    text += prefix.is_ipv6 ? Ipv6Text(address) : Ipv4Text(address);
    text += "/" + std::to_string(prefix.length);
  }
  return text;
}
std::string EntriesOf(const std::vector<TestRange>& ranges) {
  std::string text;
  for (const TestRange& range : ranges) {
    text += text.empty() ? "" : ",";
    text += std::to_string(range.first) + "-" + std::to_string(range.last);
  }
  return text;
}

// Writes lists in place, or, some of them, as sets with a name.
class ListWriter {
 public:
  // One in `one_in` lists becomes a set; with 0, none does.
  ListWriter(Rng& rng, uint64_t one_in) : rng_(rng), one_in_(one_in) {}

  std::string TextOf(const std::string& entries) {
    if (one_in_ == 0 || names_.size() == kMaxSets || rng_.Below(one_in_) != 0) {
      return entries;
    }
    const auto [set, is_new] =
        names_.emplace(entries, "s" + std::to_string(names_.size()));
    // Entries may stand twice.
    if (is_new) sets_ += set->second + ":" + entries + "," + entries + ";";
    return "$" + set->second;
  }
  const std::string& sets() const { return sets_; }
  size_t count() const { return names_.size(); }

 private:
  Rng& rng_;
  uint64_t one_in_;
  std::map<std::string, std::string> names_;  // by entries
  std::string sets_;
};

std::string LettersOf(int flags) {
  std::string letters;
  for (size_t bit = 0; bit < 8; ++bit) {
    if ((flags >> bit & 1) != 0) letters += "FSRPAUEW"[bit];
  }
  return letters;
}

std::string TextOf(const TestRule& rule, ListWriter& lists) {
  const auto addresses = [&](const std::vector<TestPrefix>& prefixes) {
    return prefixes.empty() ? " any" : " " + lists.TextOf(EntriesOf(prefixes));
  };
  const auto ports = [&](const std::vector<TestRange>& ranges) {
    return ranges.empty() ? "" : " port " + lists.TextOf(EntriesOf(ranges));
  };
  std::string text =
      rule.protocol == kAny ? "any" : std::to_string(rule.protocol);
  text += " from" + addresses(rule.from) + ports(rule.from_ports);
  text += " to" + addresses(rule.to) + ports(rule.to_ports);
  if (rule.vlan != kAny) text += " vlan " + std::to_string(rule.vlan);
  if (rule.flags == kAny) return text;
  return text + " flags " + LettersOf(rule.flags) + "/" + LettersOf(rule.mask);
}

Frame FrameOf(const TestPacket& p, Rng& rng) {
  Frame l4 = Frame(24);
  if (p.protocol == 6) {
    l4 = Tcp(static_cast<uint16_t>(p.from_port),
             static_cast<uint16_t>(p.to_port));
    l4[13] = static_cast<std::byte>(p.flags);
  } else if (p.protocol == 17 || p.protocol == 132) {
    l4 = Udp(static_cast<uint16_t>(p.from_port),
             static_cast<uint16_t>(p.to_port));
  }
  if (p.shows == TestPacket::kNoPorts) l4.resize(rng.Below(4));
  if (p.shows == TestPacket::kNoFlags) l4.resize(4 + rng.Below(16));
  const bool first = p.shows == TestPacket::kFirstFragment;
  const bool later = p.shows == TestPacket::kLaterFragment;
  const auto protocol = static_cast<uint8_t>(p.protocol);
  Frame ip;
  if (p.is_ipv6) {
    uint8_t next = protocol;
    if (first || later) {
      l4 = Ipv6Fragment(next, later ? 64 : 0, first, 7, l4);
      next = 44;
    }
    for (uint64_t more = rng.Below(3); more > 0; --more) {
      l4 = Ipv6Extension(next, 1 + rng.Below(2), l4);
      next = 60;
    }
    ip = Ipv6({.source = AddressOf(true, p.from),
               .destination = AddressOf(true, p.to),
               .next_header = next},
              l4);
  } else {
    ip = Ipv4({.source = AddressOf(false, p.from),
               .destination = AddressOf(false, p.to),
               .protocol = protocol,
               .fragment_offset_bytes = static_cast<uint16_t>(later ? 64 : 0),
               .more_fragments = first,
               .option_words = rng.Below(3)},
              l4);
  }
  const uint16_t type = p.is_ipv6 ? 0x86dd : 0x0800;
  if (p.vlan == 0) return Ethernet(type, ip);
  return Ethernet(0x8100, Vlan(static_cast<uint16_t>(p.vlan), type, ip));
}

// --- At random ---------------------------------------------------------------

class Maker {
 public:
  explicit Maker(uint64_t seed) : rng_(seed) {}

  Rng& rng() { return rng_; }

  std::vector<TestRule> Rules() {
    const uint64_t count = rng_.Chance(6'000) ? 1'000 : 1 + rng_.Below(60);
    // The probability that a rule leaves a part open differs between sets, so
    // that there are sets with many matches of each packet and sets with hardly
    // any.
    openness_ = static_cast<uint32_t>(10'000 + rng_.Below(50'000));
    std::vector<TestRule> rules;
    for (uint64_t i = 0; i < count; ++i) rules.push_back(Rule());
    if (rng_.Chance(16'384)) rules.back() = {};  // "any"
    return rules;
  }

  TestPacket Packet(const std::vector<TestRule>& rules) {
    const TestRule& aim = rules[rng_.Below(rules.size())];
    TestPacket p;
    p.is_ipv6 = rng_.Chance(24'000);
    for (const auto* prefixes : {&aim.from, &aim.to}) {
      if (!prefixes->empty()) p.is_ipv6 = prefixes->front().is_ipv6;
    }
    p.from = Near(aim.from, p.is_ipv6);
    p.to = Near(aim.to, p.is_ipv6);
    p.from_port = Near(aim.from_ports);
    p.to_port = Near(aim.to_ports);
    p.protocol =
        aim.protocol == kAny || rng_.Chance(3'000) ? Protocol() : aim.protocol;
    p.vlan = aim.vlan == kAny || rng_.Chance(3'000) ? Vlan() : aim.vlan;
    p.flags = static_cast<int>(rng_.Below(256));
    if (aim.flags != kAny && !rng_.Chance(6'000)) {
      p.flags = (p.flags & ~aim.mask) | aim.flags;
    }
    if (rng_.Chance(12'000)) {
      constexpr std::array kShows = {
          TestPacket::kFirstFragment, TestPacket::kLaterFragment,
          TestPacket::kNoPorts, TestPacket::kNoFlags};
      p.shows = kShows[rng_.Below(kShows.size())];
    }
    return p;
  }

 private:
  bool IsOpen() { return rng_.Chance(openness_); }
  int Pick(std::initializer_list<int> values) {
    return values.begin()[rng_.Below(values.size())];
  }
  int Protocol() { return Pick({6, 6, 6, 17, 17, 1, 58, 132, 47, 0, 255}); }
  int Vlan() { return Pick({0, 0, 0, 12, 13, 4095}); }

  // Returns an address whose bytes have few values, so that prefixes nest and
  // meet.
  Bytes Address(bool is_ipv6) {
    Bytes bytes{};
    bytes[0] = is_ipv6 ? 0x20 : 10;
    if (rng_.Chance(6'000)) bytes[0] = static_cast<uint8_t>(rng_.Next());
    for (size_t i = 1; i < bytes.size(); ++i) {
      bytes[i] = static_cast<uint8_t>(Pick({0, 0, 1, 128, 255}));
    }
    // Some addresses have the mapped form, which is IPv6 nevertheless.
    if (is_ipv6 && rng_.Chance(2'000)) {
      std::fill_n(bytes.begin(), 10, uint8_t{0});
      bytes[10] = bytes[11] = 0xff;
    }
    return bytes;
  }

  TestPrefix Prefix(bool is_ipv6) {
    const int bits = is_ipv6 ? 128 : 32;
    TestPrefix prefix = {.is_ipv6 = is_ipv6,
                         .bytes = Address(is_ipv6),
                         .length = Pick({0, 1, 8, 9, 15, 16, 17, 24, 31, 32})};
    if (is_ipv6) prefix.length = Pick({0, 3, 32, 47, 48, 64, 65, 95, 127, 128});
    if (rng_.Chance(12'000)) {
      prefix.length = static_cast<int>(rng_.Uniform(0, bits));
    }
    // A prefix of mapped addresses is one of IPv4.
    if (is_ipv6) prefix.bytes[0] = 0x20;
    for (int bit = prefix.length; bit < 128; ++bit) {
      SetBit(prefix.bytes, bit, false);
    }
    return prefix;
  }

  std::vector<TestPrefix> Prefixes(int version) {
    std::vector<TestPrefix> prefixes;
    if (IsOpen()) return prefixes;
    const bool is_ipv6 = version == 6;
    for (uint64_t more = 1 + rng_.Below(3); more > 0; --more) {
      prefixes.push_back(
          Prefix(more == 1 ? is_ipv6 : is_ipv6 != rng_.Chance(20'000)));
    }
    return prefixes;
  }

  std::vector<TestRange> Ranges() {
    std::vector<TestRange> ranges;
    if (IsOpen()) return ranges;
    for (uint64_t more = 1 + rng_.Below(3); more > 0; --more) {
      int first = Pick({0, 22, 53, 80, 1024, 1025, 8000, 32768, 65535});
      int last = Pick({first, first, 8999, 65534, 65535});
      if (rng_.Chance(8'000)) first = static_cast<int>(rng_.Below(65'536));
      ranges.push_back({std::min(first, last), std::max(first, last)});
    }
    return ranges;
  }

  TestRule Rule() {
    TestRule rule;
    if (!IsOpen()) rule.protocol = Protocol();
    int version = rng_.Chance(22'000) ? 6 : 4;
    if (rule.protocol == 1) version = 4;
    if (rule.protocol == 58) version = 6;
    rule.from = Prefixes(version);
    rule.to = Prefixes(version);
    const bool may_have_ports = rule.protocol == kAny || rule.protocol == 6 ||
                                rule.protocol == 17 || rule.protocol == 132;
    if (may_have_ports && rng_.Chance(20'000)) rule.from_ports = Ranges();
    if (may_have_ports) rule.to_ports = Ranges();
    if (rng_.Chance(12'000)) rule.vlan = Vlan();
    if (rule.protocol == 6 && rng_.Chance(16'000)) {
      rule.mask = Pick({0x02, 0x12, 0x17, 0xff, 0x80});
      rule.flags = rule.mask & static_cast<int>(rng_.Next() & 0xff);
    }
    return rule;
  }

  // Returns an address inside one of the prefixes, at its borders or next to
  // them.
  Bytes Near(const std::vector<TestPrefix>& prefixes, bool is_ipv6) {
    if (prefixes.empty() || rng_.Chance(5'000)) return Address(is_ipv6);
    const TestPrefix& prefix = prefixes[rng_.Below(prefixes.size())];
    if (prefix.is_ipv6 != is_ipv6) return Address(is_ipv6);
    const int bits = is_ipv6 ? 128 : 32;
    Bytes bytes = prefix.bytes;
    const int fill = Pick({0, 1, 2, 2});
    for (int bit = prefix.length; bit < bits; ++bit) {
      SetBit(bytes, bit, fill == 2 ? rng_.Chance(32'768) : fill == 1);
    }
    if (prefix.length > 0 && rng_.Chance(6'000)) {
      const int bit = prefix.length - 1;
      SetBit(bytes, bit, !BitOf(bytes, bit));
    }
    return bytes;
  }

  int Near(const std::vector<TestRange>& ranges) {
    if (ranges.empty() || rng_.Chance(5'000)) {
      return static_cast<int>(rng_.Below(65'536));
    }
    const TestRange& range = ranges[rng_.Below(ranges.size())];
    const auto inside = static_cast<int>(rng_.Uniform(range.first, range.last));
    int port = Pick({range.first, range.last, inside, inside});
    if (rng_.Chance(8'000)) port += Pick({-1, 1});
    return port & 0xffff;
  }

  Rng rng_;
  uint32_t openness_ = 0;
};

struct Tally {
  uint64_t first = 0, middle = 0, last = 0, none = 0, ipv6 = 0;
  uint64_t without_ports = 0, tuples = 0, sets = 0, shadowed = 0;

  void Count(uint32_t found, size_t rules, const TestPacket& packet) {
    if (found == kNoRule) {
      ++none;
    } else if (found == 0) {
      ++first;
    } else {
      ++(found + 1 == rules ? last : middle);
    }
    if (found != kNoRule) {
      ipv6 += packet.is_ipv6;
      without_ports += packet.shows == TestPacket::kLaterFragment ||
                       packet.shows == TestPacket::kNoPorts;
    }
  }
};

// Runs random rules; one in `one_in` lists of them is a set.
Tally RunRandom(uint64_t one_in) {
  const uint64_t seed = TestSeeds::One(42);
  const int tables = std::getenv("SNF_LONG_TESTS") != nullptr ? 3'000 : 300;
  constexpr int kPackets = 400;
  Tally tally;
  for (int table_number = 0; table_number < tables; ++table_number) {
    const uint64_t of_table = seed + static_cast<uint64_t>(table_number);
    Maker maker(of_table);
    const std::vector<TestRule> rules = maker.Rules();
    ListWriter lists(maker.rng(), one_in);
    RuleList list;
    for (const TestRule& rule : rules) {
      auto one = ParsePacketRule(TextOf(rule, lists));
      EXPECT_TRUE(one.ok()) << one.status();
      if (!one.ok()) return tally;
      list.rules.push_back(*std::move(one));
    }
    list.sets = *ParseRuleSets(lists.sets());
    const auto table = RuleTable::Build(list);
    EXPECT_TRUE(table.ok()) << table.status();
    if (!table.ok()) return tally;
    const auto shadowed = FindShadowedRules(list, *table);
    tally.tuples += table->tuples();
    tally.sets += lists.count();
    tally.shadowed += shadowed.size();
    for (int i = 0; i < kPackets; ++i) {
      const TestPacket packet = maker.Packet(rules);
      const Frame frame = FrameOf(packet, maker.rng());
      const ParsedPacket parsed = Parse(LinkType::kEthernet, frame);
      const uint32_t found = table->Find(frame, parsed);
      const auto is_wrong = [&](const ShadowedRule& one) {
        return Matches(rules[one.rule], packet) &&
               (one.by >= one.rule || !Matches(rules[one.by], packet));
      };
      EXPECT_EQ(found, FindOneByOne(rules, packet))
          << "seed " << of_table << ", packet " << i;
      EXPECT_TRUE(std::ranges::none_of(shadowed, is_wrong))
          << "seed " << of_table << ", packet " << i;
      if (testing::Test::HasFailure()) return tally;
      tally.Count(found, rules.size(), packet);
    }
  }
  std::printf(
      "found: first rule %llu, between %llu, last %llu, none %llu; IPv6 %llu, "
      "without ports %llu; %llu tuples, %llu sets, %llu shadowed rules\n",
      static_cast<unsigned long long>(tally.first),
      static_cast<unsigned long long>(tally.middle),
      static_cast<unsigned long long>(tally.last),
      static_cast<unsigned long long>(tally.none),
      static_cast<unsigned long long>(tally.ipv6),
      static_cast<unsigned long long>(tally.without_ports),
      static_cast<unsigned long long>(tally.tuples),
      static_cast<unsigned long long>(tally.sets),
      static_cast<unsigned long long>(tally.shadowed));
  EXPECT_GT(tally.first, 5'000u);
  EXPECT_GT(tally.middle, 20'000u);
  EXPECT_GT(tally.last, 2'000u);
  EXPECT_GT(tally.none, 5'000u);
  EXPECT_GT(tally.ipv6, 10'000u);
  EXPECT_GT(tally.without_ports, 1'000u);
  EXPECT_GT(tally.shadowed, 500u);
  return tally;
}

TEST(RuleTable, FindsInRandomRulesWhatALookAtEachFinds) {
  const Tally tally = RunRandom(0);
  EXPECT_GT(tally.tuples, 10'000u);
}

TEST(RuleTable, FindsWithRandomSetsWhatALookAtEachFinds) {
  const Tally tally = RunRandom(2);
  EXPECT_GT(tally.sets, 2'000u);
}

}  // namespace
}  // namespace snf
