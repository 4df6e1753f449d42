// SPDX-License-Identifier: Apache-2.0
#include "base/packet/flow_key.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <vector>

#include "base/keyed_hash.h"
#include "base/packet/test_packets.h"
#include "base/rng.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

FlowKey FiveTupleOf(const Frame& ip, bool with_vlan = false) {
  return FiveTuple(ip, Parse(LinkType::kRawIp, ip), with_vlan);
}

FlowKey ExampleKey() { return FiveTupleOf(Ipv4({}, Udp(5000, 53))); }

TEST(FiveTuple, IsWhatThePacketSays) {
  const FlowKey key = ExampleKey();
  EXPECT_EQ(key.source, V4(10, 0, 0, 1));
  EXPECT_EQ(key.destination, V4(192, 0, 2, 9));
  EXPECT_EQ(key.source_port, be16(5000));
  EXPECT_EQ(key.destination_port, be16(53));
  EXPECT_EQ(key.protocol, IpProtocol::kUdp);
  EXPECT_EQ(key.form, FlowKeyForm::kIpv4);
  EXPECT_EQ(key.vlan, be16(0));
}

TEST(FiveTuple, HasNoPortsForIcmpAndLaterFragments) {
  for (const Frame& packet :
       {Ipv4({.protocol = 1}, Icmp(8, 0, 77, {})),
        Ipv4({.fragment_offset_bytes = 8}, Udp(5000, 53)),
        Ipv4({.protocol = 47}, Frame(20, std::byte{1}))}) {
    EXPECT_EQ(FiveTupleOf(packet).source_port, be16(0));
    EXPECT_EQ(FiveTupleOf(packet).destination_port, be16(0));
  }
}

TEST(FiveTuple, HasThePortsOfAFirstFragmentAndOfACutHeader) {
  const Frame first = Ipv4({.more_fragments = true}, Udp(5000, 53));
  EXPECT_EQ(FiveTupleOf(first), ExampleKey());
  Frame cut = Ipv4({.protocol = 6}, Tcp(5000, 80));
  cut.resize(24);
  EXPECT_EQ(FiveTupleOf(cut).source_port, be16(5000));
  cut.resize(23);
  EXPECT_EQ(FiveTupleOf(cut).source_port, be16(0));
}

TEST(FiveTuple, KeepsIpv6BetweenMappedAddressesApartFromIpv4) {
  const FlowKey v6 = FiveTupleOf(
      Ipv6({.source = V4(10, 0, 0, 1), .destination = V4(192, 0, 2, 9)},
           Udp(5000, 53)));
  EXPECT_EQ(v6.source, ExampleKey().source);
  EXPECT_NE(v6, ExampleKey());
}

TEST(FiveTuple, TakesTheOuterVlanIfAsked) {
  const Frame frame = Ethernet(
      0x88a8, Vlan(100, 0x8100, Vlan(7, 0x0800, Ipv4({}, Udp(5000, 53)))));
  const ParsedPacket packet = Parse(LinkType::kEthernet, frame);
  EXPECT_EQ(FiveTuple(frame, packet, true).vlan, be16(100));
  EXPECT_EQ(FiveTuple(frame, packet, false), ExampleKey());
}

TEST(ConnectionKey, TakesTheIdentifierForPorts) {
  const auto key = [](const Frame& ip) {
    FlowKey connection;
    ConnectionKey(ip, Parse(LinkType::kRawIp, ip), false, connection);
    return connection;
  };
  const FlowKey echo = key(Ipv4({.protocol = 1}, Icmp(8, 0, 77, {})));
  EXPECT_EQ(echo.source_port, be16(77));
  EXPECT_EQ(echo.destination_port, be16(77));
  const FlowKey echo6 = key(Ipv6({.next_header = 58}, Icmp(129, 0, 78, {})));
  EXPECT_EQ(echo6.source_port, be16(78));
  EXPECT_EQ(key(Ipv4({.protocol = 1}, Icmp(9, 0, 77, {}))).source_port,
            be16(0));
}

TEST(FragmentKey, IsMadeOfAddressesProtocolAndId) {
  const auto key = [](const Frame& ip) {
    return FragmentKey(ip, Parse(LinkType::kRawIp, ip), false);
  };
  const FlowKey first =
      key(Ipv4({.id = 7, .more_fragments = true}, Udp(5000, 53)));
  const FlowKey later =
      key(Ipv4({.id = 7, .fragment_offset_bytes = 8}, Frame(8)));
  EXPECT_EQ(first, later);
  EXPECT_EQ(first.form, FlowKeyForm::kIpv4Fragment);
  EXPECT_NE(first, key(Ipv4({.id = 8, .more_fragments = true}, Udp(1, 2))));
  EXPECT_NE(first, key(Ipv4({.protocol = 6, .id = 7, .more_fragments = true},
                            Tcp(1, 2))));
  // Behind the fragment header the first one has an option header, the later
  // one has the middle of a datagram.
  const FlowKey first6 = key(Ipv6(
      {.next_header = 44},
      Ipv6Fragment(60, 0, true, 0xdead'beef, Ipv6Extension(17, 1, Udp(1, 2)))));
  const FlowKey later6 = key(
      Ipv6({.next_header = 44}, Ipv6Fragment(60, 16, false, 0xdead'beef, {})));
  EXPECT_EQ(first6, later6);
  EXPECT_EQ(first6.source_port, be16(0xdead));
  EXPECT_EQ(first6.destination_port, be16(0xbeef));
}

TEST(Canonicalize, GivesBothDirectionsOneKey) {
  FlowKey there = ExampleKey();
  FlowKey back = Reversed(there);
  EXPECT_FALSE(Canonicalize(there));
  EXPECT_TRUE(Canonicalize(back));
  EXPECT_EQ(there, back);
}

TEST(Canonicalize, OrdersByPortBetweenEqualAddresses) {
  FlowKey key = ExampleKey();
  key.destination = key.source;
  EXPECT_TRUE(Canonicalize(key));
  EXPECT_EQ(key.source_port, be16(53));
  key.source_port = key.destination_port;
  EXPECT_FALSE(Canonicalize(key));
}

TEST(Canonicalize, OrdersAddressesAsNumbersInAllTheirBytes) {
  for (size_t byte = 0; byte < 16; ++byte) {
    FlowKey key = ExampleKey();
    key.source = key.destination;
    key.source.bytes[byte] |= std::byte{0x80};
    key.destination.bytes[byte] &= std::byte{0x7f};
    if (byte < 15) key.destination.bytes[15] = std::byte{0xff};
    EXPECT_TRUE(Canonicalize(key)) << byte;
  }
}

// Equality, order and hash depend on every byte.
TEST(FlowKey, DiffersInEveryByte) {
  const FlowKey key = ExampleKey();
  for (size_t byte = 0; byte < sizeof key; ++byte) {
    FlowKey other = key;
    reinterpret_cast<std::byte*>(&other)[byte] ^= std::byte{1};
    EXPECT_NE(key, other) << byte;
    EXPECT_NE(key <=> other, std::strong_ordering::equal) << byte;
    EXPECT_NE(Hash(key), Hash(other)) << byte;
    EXPECT_NE(FlowKeyHash(1)(key), FlowKeyHash(1)(other)) << byte;
  }
}

TEST(Hash, IsTheSameOnEveryMachineAndForGood) {
  EXPECT_EQ(Hash(FlowKey{}), 0x1c69'ac83'5536'1612);
  EXPECT_EQ(Hash(ExampleKey()), 0x2829'ce1a'd990'b9d6);
}

FlowKey RandomKey(Rng& rng) {
  std::array<uint64_t, 5> words;
  for (uint64_t& word : words) word = rng.Next();
  return std::bit_cast<FlowKey>(words);
}

// Returns keys as they occur in practice: 10.x.y.z with few bits that differ.
FlowKey OrdinaryKey(uint32_t number) {
  FlowKey key = ExampleKey();
  key.source = IpAddress::FromIpv4(be32(0x0a00'0000 + number / 16));
  key.source_port = be16(static_cast<uint16_t>(40'000 + number % 16));
  return key;
}

// Flips each of the 320 input bits of `keys` keys; each of the 64 output bits
// has to flip half of the time. Returns the largest distance from half, in
// 1/1000.
template <typename HashOf, typename MakeKey>
int WorstAvalanche(const HashOf& hash_of, int keys, MakeKey make_key) {
  std::vector<std::array<int, 64>> flips(320);
  for (int k = 0; k < keys; ++k) {
    const auto words = std::bit_cast<std::array<uint64_t, 5>>(make_key(k));
    const uint64_t hash = hash_of(std::bit_cast<FlowKey>(words));
    for (size_t in = 0; in < 320; ++in) {
      auto changed = words;
      changed[in / 64] ^= uint64_t{1} << in % 64;
      const uint64_t diff = hash ^ hash_of(std::bit_cast<FlowKey>(changed));
      for (size_t out = 0; out < 64; ++out) {
        flips[in][out] += static_cast<int>(diff >> out & 1);
      }
    }
  }
  int worst = 0;
  for (const auto& row : flips) {
    for (const int count : row) {
      worst = std::max(worst, std::abs(1000 * count / keys - 500));
    }
  }
  return worst;
}

// The hash that anyone can compute, and a keyed one.
class AnyHash : public testing::TestWithParam<bool> {
 public:
  uint64_t operator()(const FlowKey& key) const {
    return GetParam() ? keyed_(key) : Hash(key);
  }

 private:
  FlowKeyHash keyed_{99};
};
INSTANTIATE_TEST_SUITE_P(KeyedOrNot, AnyHash, testing::Bool());

// With 4,000 keys one cell's standard deviation is 8/1000; of 20,480 cells the
// worst is 4.1 of those from half if the bits are fair.
TEST_P(AnyHash, SpreadsEveryBitOfRandomKeysOverAllBits) {
  Rng rng(5);
  const int worst =
      WorstAvalanche(*this, 4000, [&](int) { return RandomKey(rng); });
  std::printf("worst flip rate: 500 ± %d per 1000\n", worst);
  EXPECT_LE(worst, 50);
}

TEST_P(AnyHash, SpreadsEveryBitOfOrdinaryKeysOverAllBits) {
  const int worst = WorstAvalanche(
      *this, 4000, [](int k) { return OrdinaryKey(static_cast<uint32_t>(k)); });
  std::printf("worst flip rate: 500 ± %d per 1000\n", worst);
  EXPECT_LE(worst, 50);
}

// Chi-square of 4,096 buckets: mean 4,095, standard deviation 90.
TEST_P(AnyHash, FillsBucketsEvenlyFromItsLowAndItsHighBits) {
  constexpr uint32_t kKeys = 1 << 18;
  std::vector<double> low(4096), high(4096);
  for (uint32_t i = 0; i < kKeys; ++i) {
    const uint64_t hash = (*this)(OrdinaryKey(i));
    ++low[hash % 4096];
    ++high[hash >> 52];
  }
  for (const auto* buckets : {&low, &high}) {
    double chi_square = 0;
    const double mean = kKeys / 4096.0;
    for (const double n : *buckets) {
      chi_square += (n - mean) * (n - mean) / mean;
    }
    EXPECT_GT(chi_square, 4095 - 6 * 90);
    EXPECT_LT(chi_square, 4095 + 6 * 90);
  }
}

TEST_P(AnyHash, HasNoMoreCollisionsThanChance) {
  constexpr uint32_t kKeys = 1 << 20;
  std::vector<uint64_t> hashes(kKeys);
  for (uint32_t i = 0; i < kKeys; ++i) hashes[i] = (*this)(OrdinaryKey(i));
  std::sort(hashes.begin(), hashes.end());
  EXPECT_EQ(std::adjacent_find(hashes.begin(), hashes.end()), hashes.end());
  // 2^40 / 2^33 = 128 pairs share their upper half by chance.
  int upper_pairs = 0;
  for (uint32_t i = 1; i < kKeys; ++i) {
    upper_pairs += hashes[i] >> 32 == hashes[i - 1] >> 32;
  }
  EXPECT_GT(upper_pairs, 60);
  EXPECT_LT(upper_pairs, 200);
}

TEST_P(AnyHash, DependsOnTheDirection) {
  EXPECT_NE((*this)(ExampleKey()), (*this)(Reversed(ExampleKey())));
}

TEST(FlowKeyHash, DependsOnTheSeed) {
  EXPECT_NE(FlowKeyHash(0)(ExampleKey()), FlowKeyHash(1)(ExampleKey()));
  // One that a process draws is the same all over the process.
  EXPECT_EQ(FlowKeyHash()(ExampleKey()), FlowKeyHash()(ExampleKey()));
  EXPECT_NE(FlowKeyHash()(ExampleKey()), FlowKeyHash(0)(ExampleKey()));
}

// --- What an attacker may choose ---------------------------------------------

using Words = std::array<uint64_t, 5>;

// A set of keys that share a structure: the i-th, as words in the order of
// their bytes on a little-endian machine.
struct KeySet {
  const char* name;
  Words (*key)(uint64_t i);
};

// Two constants of Hash, in which the interface id of an address makes one of
// its factors zero.
constexpr uint64_t kZeroesSource = 0x1319'8a2e'0370'7345;
constexpr uint64_t kZeroesDestination = 0x082e'fa98'ec4e'6c89;
constexpr uint64_t kRest = 0x0611'0000'3500'8813;
constexpr KeySet kKeySets[] = {
    {"any prefix before an interface id that zeroes a factor",
     [](uint64_t i) -> Words {
       return {i << 32, kZeroesSource, 7, 7, kRest};
     }},
    {"the same of the destination",
     [](uint64_t i) -> Words {
       return {7, 7, i << 32, kZeroesDestination, kRest};
     }},
    {"both at once",
     [](uint64_t i) -> Words {
       return {i % 200 << 32, kZeroesSource, i / 200 << 32, kZeroesDestination,
               kRest};
     }},
    {"IPv4 addresses in a row",
     [](uint64_t i) -> Words {
       const auto last = __builtin_bswap32(static_cast<uint32_t>(i));
       return {0, uint64_t{last} << 32 | 0xffff'0000, 0, 0x0900'0a0a'ffff'0000,
               kRest};
     }},
    {"both ports",
     [](uint64_t i) -> Words {
       return {1, 2, 3, 4, i};
     }},
    {"VLAN, protocol and form",
     [](uint64_t i) -> Words {
       return {1, 2, 3, 4, i << 40};
     }},
    {"highest bits of the first word",
     [](uint64_t i) -> Words {
       return {i << 48, 0, 0, 0, kRest};
     }},
    {"highest bits of one end against those of the other",
     [](uint64_t i) -> Words {
       return {i % 200 << 56, i / 200 << 56, i % 200 << 56, i / 200 << 56,
               kRest};
     }},
    {"sums of words that stay the same",
     [](uint64_t i) -> Words {
       return {i, ~i, uint64_t{0} - i, i, kRest - i};
     }},
    {"two bits of all",
     [](uint64_t i) -> Words {
       Words words{};
       const uint64_t first = i % 320, second = (first + 1 + i / 320) % 320;
       words[first / 64] ^= uint64_t{1} << first % 64;
       words[second / 64] ^= uint64_t{1} << second % 64;
       return words;
     }},
    {"ends exchanged",
     [](uint64_t i) -> Words {
       const uint64_t one = i / 2 << 8, other = ~(i / 2);
       return i % 2 == 0 ? Words{one, other, other, one, 0}
                         : Words{other, one, one, other, 0};
     }},
};

constexpr uint64_t kKeysOfASet = 40'000;

size_t DistinctTags(const std::vector<uint64_t>& hashes) {
  std::vector<uint64_t> tags;
  for (const uint64_t hash : hashes) tags.push_back(hash >> 32);
  std::sort(tags.begin(), tags.end());
  return static_cast<size_t>(std::unique(tags.begin(), tags.end()) -
                             tags.begin());
}

// What a table of 4/3 as many buckets, with linear probing, makes of hashes.
struct Spread {
  uint64_t probes = 0;
  uint64_t longest = 0;
};

Spread SpreadOf(const std::vector<uint64_t>& hashes) {
  Spread spread;
  std::vector<bool> taken(hashes.size() * 4 / 3);
  for (const uint64_t hash : hashes) {
    size_t at = (hash >> 32) * taken.size() >> 32;
    uint64_t probes = 0;
    for (; taken[at]; ++probes) at = (at + 1) % taken.size();
    taken[at] = true;
    spread.probes += probes;
    spread.longest = std::max(spread.longest, probes);
  }
  return spread;
}

// By chance, 0.2 of the keys share the upper half of their hash with another;
// a key is found 1.5 buckets behind its home, and the last of 40,000 at most
// 300.
TEST(FlowKeyHash, SpreadsWhatAnAttackerMayChooseLikeAnythingElse) {
  const uint64_t secret = SecretSeed();
  std::printf("secret seed %llu\n", static_cast<unsigned long long>(secret));
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, secret}) {
    const FlowKeyHash hash(seed);
    for (const KeySet& set : kKeySets) {
      std::vector<uint64_t> hashes;
      for (uint64_t i = 0; i < kKeysOfASet; ++i) {
        hashes.push_back(hash(std::bit_cast<FlowKey>(set.key(i))));
      }
      ASSERT_GE(DistinctTags(hashes), kKeysOfASet - 8)
          << set.name << ", seed " << seed;
      const Spread spread = SpreadOf(hashes);
      EXPECT_LT(spread.probes, 2 * kKeysOfASet)
          << set.name << ", seed " << seed;
      EXPECT_LT(spread.longest, 1'000u) << set.name << ", seed " << seed;
    }
  }
}

// The sets are worth something only if they break a hash.
TEST(Hash, IsNotForTables) {
  std::vector<uint64_t> hashes;
  for (uint64_t i = 0; i < 2'000; ++i) {
    hashes.push_back(Hash(std::bit_cast<FlowKey>(kKeySets[0].key(i))));
  }
  EXPECT_EQ(DistinctTags(hashes), 1u);
}

}  // namespace
}  // namespace snf
