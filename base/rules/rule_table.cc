// SPDX-License-Identifier: Apache-2.0
#include "base/rules/rule_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/byte_order.h"
#include "base/keyed_hash.h"
#include "base/rules/interval_rows.h"
#include "base/rules/rule_text.h"
#include "base/slot_index.h"

namespace snf {
namespace {

using Ipv4Number = uint32_t;
using Ipv6Number = unsigned __int128;

template <typename Value>
constexpr Value MaskOf(size_t length) {
  constexpr size_t kBits = 8 * sizeof(Value);
  const auto all = static_cast<Value>(~Value{0});
  return length == 0 ? Value{0} : static_cast<Value>(all << (kBits - length));
}

template <typename Value>
struct Prefix {
  Value value{};
  size_t length = 0;

  Value mask() const { return MaskOf<Value>(length); }
  Value last() const { return static_cast<Value>(value | ~mask()); }
};

// Returns how many bits of a prefix are hashed, at most its length.
size_t HashedLength(size_t length) { return length < 8 ? 0 : length / 4 * 4; }

// Returns the port prefixes by which a range of ports is hashed; together they
// cover it.
constexpr size_t kMaxBlocks = 8;
std::vector<Prefix<uint16_t>> BlocksOf(const PortRange& range) {
  if (range.first == range.last) return {{range.first, 16}};
  const uint32_t first = range.first / 256u, last = range.last / 256u;
  if (last - first >= kMaxBlocks) return {{0, 0}};
  std::vector<Prefix<uint16_t>> blocks;
  for (uint32_t block = first; block <= last; ++block) {
    blocks.push_back({static_cast<uint16_t>(block * 256), 8});
  }
  return blocks;
}

struct Ports {
  Prefix<uint16_t> block;
  PortRange range;
};
std::vector<Ports> PortsOf(const std::vector<PortRange>& ranges) {
  if (ranges.empty()) return {{{}, {0, 0xffff}}};
  std::vector<Ports> ports;
  for (const PortRange& range : ranges) {
    for (const Prefix<uint16_t>& block : BlocksOf(range)) {
      ports.push_back({block, range});
    }
  }
  return ports;
}

// The sets that a rule names: of source and destination addresses, then of
// source and destination ports.
constexpr uint16_t kNoSet = 0xffff;
using SetNumbers = std::array<uint16_t, 4>;
constexpr SetNumbers kNoSets = {kNoSet, kNoSet, kNoSet, kNoSet};

bool Has(const PortRange& range, uint16_t port) {
  return port >= range.first && port <= range.last;
}

// Packs everything of a packet but its addresses into one word.
constexpr uint64_t kHasPorts = uint64_t{1} << 31;
constexpr uint64_t kHasFlags = uint64_t{1} << 30;
constexpr uint64_t kVlanMask = 0xfff;
uint64_t Rest(uint16_t source_port, uint16_t destination_port, uint64_t vlan,
              uint8_t protocol, uint8_t flags) {
  return uint64_t{source_port} << 48 | uint64_t{destination_port} << 32 |
         (vlan & kVlanMask) << 16 | uint64_t{protocol} << 8 | flags;
}

void Pack(Ipv4Number source, Ipv4Number destination, uint64_t rest,
          std::array<uint64_t, 2>& words) {
  words = {uint64_t{source} << 32 | destination, rest};
}
void Pack(Ipv6Number source, Ipv6Number destination, uint64_t rest,
          std::array<uint64_t, 5>& words) {
  words = {static_cast<uint64_t>(source >> 64), static_cast<uint64_t>(source),
           static_cast<uint64_t>(destination >> 64),
           static_cast<uint64_t>(destination), rest};
}

Ipv4Number SourceIn(const std::array<uint64_t, 2>& words) {
  return static_cast<Ipv4Number>(words[0] >> 32);
}
Ipv4Number DestinationIn(const std::array<uint64_t, 2>& words) {
  return static_cast<Ipv4Number>(words[0]);
}
Ipv6Number SourceIn(const std::array<uint64_t, 5>& words) {
  return Ipv6Number{words[0]} << 64 | words[1];
}
Ipv6Number DestinationIn(const std::array<uint64_t, 5>& words) {
  return Ipv6Number{words[2]} << 64 | words[3];
}
template <size_t kWords>
uint8_t ProtocolIn(const std::array<uint64_t, kWords>& words) {
  return static_cast<uint8_t>(words.back() >> 8);
}

Ipv4Number NumberOf(const IpAddress& address, Ipv4Number) {
  return address.ipv4().host();
}
Ipv6Number NumberOf(const IpAddress& address, Ipv6Number) {
  const auto half = [&address](size_t at) {
    return SwapToBigEndian(LoadAs<uint64_t>(&address.bytes[at]));
  };
  return Ipv6Number{half(0)} << 64 | half(8);
}

// --- All rules of one version of IP ------------------------------------------

template <typename Number>
class RuleSpace {
 public:
  // Takes the sets that rules name by their numbers. Called once, at first.
  void AddSets(std::span<const RuleSet> sets) {
    for (uint32_t i = 0; i < sets.size(); ++i) {
      if (!sets[i].prefixes.empty()) {
        for (const Prefix<Number>& one : PrefixesOf(sets[i].prefixes)) {
          address_sets_.Add(one.value, one.last(), i);
        }
      }
      for (const PortRange& range : sets[i].ports) {
        port_sets_.Add(range.first, range.last, i);
      }
    }
    const size_t row_words = std::max<size_t>(1, (sets.size() + 63) / 64);
    address_sets_.Finish(row_words);
    port_sets_.Finish(row_words);
  }
  // Adds the patterns of a rule; rules come in order.
  void Add(const PacketRule& rule, const SetNumbers& sets, uint32_t number) {
    const std::vector<Prefix<Number>> from = PrefixesOf(rule.from);
    const std::vector<Prefix<Number>> to = PrefixesOf(rule.to);
    const std::vector<Ports> from_ports = PortsOf(rule.from_ports);
    const std::vector<Ports> to_ports = PortsOf(rule.to_ports);
    for (const Prefix<Number>& source : from) {
      for (const Prefix<Number>& destination : to) {
        for (const Ports& source_ports : from_ports) {
          for (const Ports& destination_ports : to_ports) {
            Add(source, destination, source_ports, destination_ports, rule,
                sets, number);
          }
        }
      }
    }
  }
  // Returns how many patterns Add would add; if more than `max`, any number
  // above it.
  static uint64_t CountOf(const PacketRule& rule, uint64_t max) {
    uint64_t count = 1;
    for (const size_t factor :
         {PrefixesOf(rule.from).size(), PrefixesOf(rule.to).size(),
          PortsOf(rule.from_ports).size(), PortsOf(rule.to_ports).size()}) {
      count = std::min(count, max + 1) * factor;
    }
    return count;
  }

  // Builds the table. Called once, after the last Add.
  void Finish() {
    FinishRows();
    FinishBuckets();
    tuple_of_mask_.clear();
    added_ = {};
  }

  uint32_t Find(const PacketFields& fields, uint32_t first) const {
    if (tuples_.empty()) return RuleTable::kNoRule;
    const Number source = NumberOf(fields.source, Number{});
    const Number destination = NumberOf(fields.destination, Number{});
    Words words;
    Pack(source, destination,
         Rest(fields.source_port, fields.destination_port, fields.vlan,
              static_cast<uint8_t>(fields.protocol), fields.tcp_flags) |
             (fields.has_ports ? kHasPorts : 0) |
             (fields.has_tcp_flags ? kHasFlags : 0),
         words);
    const std::array<const uint64_t*, 5> rows = {
        sources_.Find(source), destinations_.Find(destination),
        source_ports_.Find(fields.source_port),
        destination_ports_.Find(fields.destination_port),
        protocols_.Find(static_cast<uint8_t>(fields.protocol))};
    SetRows set_rows{};
    uint32_t found = RuleTable::kNoRule;
    for (size_t tuple = 0;
         tuple < tuples_.size() && tuples_[tuple].best < found; tuple += 64) {
      const size_t word = tuple / 64 % kMaxRowWords;
      uint64_t candidates = rows[0][word];
      for (const uint64_t* row : rows) candidates &= row[word];
      for (; candidates != 0; candidates &= candidates - 1) {
        const size_t candidate =
            tuple + static_cast<size_t>(std::countr_zero(candidates));
        if (candidate >= tuples_.size() || tuples_[candidate].best >= found) {
          return found;
        }
        found = FindIn(candidate, fields, words, first, found, set_rows);
      }
    }
    return found;
  }

  size_t patterns() const { return patterns_.size(); }
  size_t tuples() const { return tuples_.size(); }

 private:
  static constexpr size_t kWords = sizeof(Number) / 4 + 1;
  // A row has a bit for each tuple; several tuples share a bit if there are
  // more.
  static constexpr size_t kMaxRowWords = 8;
  using Words = std::array<uint64_t, kWords>;

  // The rows of a packet's addresses and ports, as SetNumbers, or null as long
  // as nothing has asked for them.
  using SetRows = std::array<const uint64_t*, std::tuple_size_v<SetNumbers>>;

  struct Tuple {
    Words mask;
    uint32_t best;  // rule
  };
  // The conditions of one pattern: masked words, port ranges and the rule.
  struct Pattern {
    Words mask;
    Words value;
    PortRange source_ports;
    PortRange destination_ports;
    SetNumbers sets;
    uint32_t rule;
    bool has_sets;

    // The greatest words that the pattern matches.
    Words last() const {
      Words words;
      for (size_t i = 0; i < kWords; ++i) words[i] = value[i] | ~mask[i];
      return words;
    }
  };
  // The patterns with the same key, in order of their rules.
  struct Bucket {
    Words key;
    uint32_t tuple;
    uint32_t best;   // rule
    uint32_t first;  // of patterns_
    uint32_t count;
  };

  static std::vector<Prefix<Number>> PrefixesOf(
      const std::vector<IpPrefix>& prefixes) {
    if (prefixes.empty()) return {{}};
    constexpr bool kIsIpv4 = sizeof(Number) == 4;
    std::vector<Prefix<Number>> own;
    for (const IpPrefix& prefix : prefixes) {
      if (prefix.is_ipv4() != kIsIpv4) continue;
      own.push_back({NumberOf(prefix.address, Number{}),
                     size_t{prefix.length} - (kIsIpv4 ? 96 : 0)});
    }
    return own;
  }

  void Add(const Prefix<Number>& source, const Prefix<Number>& destination,
           const Ports& source_ports, const Ports& destination_ports,
           const PacketRule& rule, const SetNumbers& sets, uint32_t number) {
    const uint64_t vlan_mask = rule.vlan ? kVlanMask : 0;
    const uint8_t protocol_mask = rule.protocol ? 0xff : 0;
    const uint16_t vlan = rule.vlan.value_or(0);
    const auto protocol =
        static_cast<uint8_t>(rule.protocol.value_or(IpProtocol{}));
    const auto flags = rule.flags.value_or(PacketRule::TcpFlags());
    const uint64_t has =
        (rule.has_ports() ? kHasPorts : 0) | (rule.flags ? kHasFlags : 0);
    Pattern pattern;
    pattern.source_ports = source_ports.range;
    pattern.destination_ports = destination_ports.range;
    pattern.rule = number;
    pattern.sets = sets;
    pattern.has_sets = sets != kNoSets;
    Pack(source.mask(), destination.mask(),
         has | Rest(0, 0, vlan_mask, protocol_mask, flags.mask), pattern.mask);
    Pack(source.value, destination.value,
         has | Rest(0, 0, vlan, protocol, flags.set), pattern.value);

    const auto source_mask = MaskOf<Number>(HashedLength(source.length));
    const auto destination_mask =
        MaskOf<Number>(HashedLength(destination.length));
    const Prefix<uint16_t>& source_block = source_ports.block;
    const Prefix<uint16_t>& destination_block = destination_ports.block;
    Words mask, key;
    Pack(source_mask, destination_mask,
         Rest(source_block.mask(), destination_block.mask(), vlan_mask,
              protocol_mask, 0),
         mask);
    Pack(source.value & source_mask, destination.value & destination_mask,
         Rest(source_block.value, destination_block.value, vlan, protocol, 0),
         key);
    const auto [tuple, is_new] =
        tuple_of_mask_.try_emplace(mask, static_cast<uint32_t>(tuples_.size()));
    if (is_new) tuples_.push_back({mask, number});
    added_.push_back({tuple->second, key, pattern});
  }

  void FinishRows() {
    const size_t row_words = std::min((tuples_.size() + 63) / 64, kMaxRowWords);
    const auto finish = [this, row_words](auto& rows, auto interval_of) {
      for (const Added& one : added_) {
        const auto [first, last] = interval_of(one.pattern);
        rows.Add(first, last, one.tuple % (64 * kMaxRowWords));
      }
      rows.Finish(row_words);
    };
    finish(sources_, [](const Pattern& p) {
      return std::pair(SourceIn(p.value), SourceIn(p.last()));
    });
    finish(destinations_, [](const Pattern& p) {
      return std::pair(DestinationIn(p.value), DestinationIn(p.last()));
    });
    finish(source_ports_, [](const Pattern& p) {
      return std::pair(p.source_ports.first, p.source_ports.last);
    });
    finish(destination_ports_, [](const Pattern& p) {
      return std::pair(p.destination_ports.first, p.destination_ports.last);
    });
    finish(protocols_, [](const Pattern& p) {
      return std::pair(ProtocolIn(p.value), ProtocolIn(p.last()));
    });
  }

  // The index is at most half full, so that a search for a missing key ends
  // soon.
  void FinishBuckets() {
    index_ = SlotIndex(static_cast<uint32_t>(2 * added_.size()));
    std::vector<uint32_t> bucket_of(added_.size());
    for (size_t i = 0; i < added_.size(); ++i) {
      const Added& one = added_[i];
      const uint64_t hash = HashOf(one.tuple, one.key);
      bucket_of[i] = BucketOf(hash, one.tuple, one.key);
      if (bucket_of[i] == SlotIndex::kNotFound) {
        bucket_of[i] = static_cast<uint32_t>(buckets_.size());
        buckets_.push_back({one.key, one.tuple, one.pattern.rule, 0, 0});
        index_.Insert(hash, bucket_of[i]);
      }
      ++buckets_[bucket_of[i]].count;
    }
    buckets_.shrink_to_fit();
    uint32_t first = 0;
    for (Bucket& bucket : buckets_) {
      bucket.first = first;
      first += std::exchange(bucket.count, 0);
    }
    patterns_.resize(added_.size());
    for (size_t i = 0; i < added_.size(); ++i) {
      Bucket& bucket = buckets_[bucket_of[i]];
      patterns_[bucket.first + bucket.count++] = added_[i].pattern;
    }
  }

  static uint64_t HashOf(size_t tuple, const Words& key) {
    uint64_t hash = tuple * 0x9e37'79b9'7f4a'7c15;
    for (const uint64_t word : key) {
      hash = Fold(hash ^ word ^ 0x243f'6a88'85a3'08d3, 0x1319'8a2e'0370'7345);
    }
    return hash;
  }
  uint32_t BucketOf(uint64_t hash, size_t tuple, const Words& key) const {
    return index_.Find(hash, [&](uint32_t at) {
      return buckets_[at].tuple == tuple && buckets_[at].key == key;
    });
  }

  // Returns the first rule of this tuple that matches, if it is before `found`
  // and not before `first`, else `found`.
  uint32_t FindIn(size_t tuple, const PacketFields& fields, const Words& words,
                  uint32_t first, uint32_t found, SetRows& set_rows) const {
    Words key;
    for (size_t i = 0; i < kWords; ++i) {
      key[i] = words[i] & tuples_[tuple].mask[i];
    }
    const uint32_t at = BucketOf(HashOf(tuple, key), tuple, key);
    if (at == SlotIndex::kNotFound || buckets_[at].best >= found) return found;
    const Bucket& bucket = buckets_[at];
    for (uint32_t i = bucket.first; i < bucket.first + bucket.count; ++i) {
      const Pattern& pattern = patterns_[i];
      if (pattern.rule >= found) break;
      if (pattern.rule < first || !Matches(pattern, fields, words)) continue;
      if (!pattern.has_sets || IsInSets(pattern, fields, set_rows)) {
        return pattern.rule;
      }
    }
    return found;
  }
  static bool Matches(const Pattern& pattern, const PacketFields& fields,
                      const Words& words) {
    uint64_t difference = 0;
    for (size_t i = 0; i < kWords; ++i) {
      difference |= (words[i] ^ pattern.value[i]) & pattern.mask[i];
    }
    return difference == 0 && Has(pattern.source_ports, fields.source_port) &&
           Has(pattern.destination_ports, fields.destination_port);
  }

  bool IsInSets(const Pattern& pattern, const PacketFields& fields,
                SetRows& rows) const {
    for (size_t part = 0; part < rows.size(); ++part) {
      const uint16_t set = pattern.sets[part];
      if (set == kNoSet) continue;
      if (rows[part] == nullptr) rows[part] = RowOf(part, fields);
      if ((rows[part][set / 64] >> set % 64 & 1) == 0) return false;
    }
    return true;
  }
  const uint64_t* RowOf(size_t part, const PacketFields& fields) const {
    if (part >= 2) {
      return port_sets_.Find(part == 2 ? fields.source_port
                                       : fields.destination_port);
    }
    return address_sets_.Find(
        NumberOf(part == 0 ? fields.source : fields.destination, Number{}));
  }

  // For each value, the sets that have it.
  IntervalRows<Number> address_sets_;
  IntervalRows<uint16_t> port_sets_;

  // Tuples in the order of the first rule that each has.
  std::vector<Tuple> tuples_;
  // For each value, the tuples that have a pattern with it.
  IntervalRows<Number> sources_;
  IntervalRows<Number> destinations_;
  IntervalRows<uint16_t> source_ports_;
  IntervalRows<uint16_t> destination_ports_;
  IntervalRows<uint8_t> protocols_;
  std::vector<Bucket> buckets_;
  std::vector<Pattern> patterns_;
  SlotIndex index_;

  // The patterns added so far, until Finish.
  struct Added {
    uint32_t tuple;
    Words key;
    Pattern pattern;
  };
  std::vector<Added> added_;
  std::map<Words, uint32_t> tuple_of_mask_;
};

}  // namespace

namespace {

// Returns the number of the set of this name, or kNoSet for none. The set is to
// have addresses, or ports.
absl::StatusOr<uint16_t> NumberOf(const std::string& name, bool of_ports,
                                  std::span<const RuleSet> sets) {
  if (name.empty()) return kNoSet;
  const auto set = std::ranges::find(sets, name, &RuleSet::name);
  if (set == sets.end()) {
    return WrongWord("$" + name, "there is no set of this name");
  }
  if (of_ports && !set->prefixes.empty()) {
    return WrongWord("$" + name, "a set of addresses; want one of ports");
  }
  if (!of_ports && !set->ports.empty()) {
    return WrongWord("$" + name, "a set of ports; want one of addresses");
  }
  return static_cast<uint16_t>(set - sets.begin());
}

absl::StatusOr<SetNumbers> SetsOf(const PacketRule& rule,
                                  std::span<const RuleSet> sets) {
  SetNumbers numbers = kNoSets;
  const std::array<const std::string*, numbers.size()> names = {
      &rule.from_set, &rule.to_set, &rule.from_port_set, &rule.to_port_set};
  for (size_t part = 0; part < names.size(); ++part) {
    const auto number = NumberOf(*names[part], part >= 2, sets);
    if (!number.ok()) return number.status();
    numbers[part] = *number;
  }
  return numbers;
}

}  // namespace

struct RuleTable::Spaces {
  RuleSpace<Ipv4Number> ipv4;
  RuleSpace<Ipv6Number> ipv6;
};

RuleTable::RuleTable() : spaces_(std::make_unique<Spaces>()) {}
RuleTable::RuleTable(RuleTable&&) noexcept = default;
RuleTable& RuleTable::operator=(RuleTable&&) noexcept = default;
RuleTable::~RuleTable() = default;

absl::StatusOr<RuleTable> RuleTable::Build(std::span<const PacketRule> rules,
                                           const Options& options) {
  RuleList list;
  list.rules.assign(rules.begin(), rules.end());
  return Build(list, options);
}

absl::StatusOr<RuleTable> RuleTable::Build(const RuleList& list,
                                           const Options& options) {
  if (list.rules.size() > kMaxRules) {
    return absl::InvalidArgumentError(absl::StrCat(
        list.rules.size(), " rules: there may be at most ", kMaxRules));
  }
  RuleTable table;
  Spaces& spaces = *table.spaces_;
  spaces.ipv4.AddSets(list.sets);
  spaces.ipv6.AddSets(list.sets);
  uint64_t left = options.max_patterns;
  for (uint32_t number = 0; number < list.rules.size(); ++number) {
    const PacketRule& rule = list.rules[number];
    const uint64_t needed =
        RuleSpace<Ipv4Number>::CountOf(rule, options.max_patterns) +
        RuleSpace<Ipv6Number>::CountOf(rule, options.max_patterns);
    if (needed > left) {
      return absl::InvalidArgumentError(absl::StrCat(
          list.PlaceOf(number), ": \"", ToString(rule).substr(0, 200),
          "\" needs ", needed, " patterns, and ", left, " of ",
          options.max_patterns, " are left; want shorter lists"));
    }
    left -= needed;
    const auto sets = SetsOf(rule, list.sets);
    if (!sets.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          list.PlaceOf(number), ": ", std::string(sets.status().message())));
    }
    spaces.ipv4.Add(rule, *sets, number);
    spaces.ipv6.Add(rule, *sets, number);
  }
  spaces.ipv4.Finish();
  spaces.ipv6.Finish();
  return table;
}

uint32_t RuleTable::Find(const PacketFields& fields, uint32_t first) const {
  switch (fields.l3) {
    case L3::kIpv4:
      return spaces_->ipv4.Find(fields, first);
    case L3::kIpv6:
      return spaces_->ipv6.Find(fields, first);
    default:
      return kNoRule;
  }
}

size_t RuleTable::patterns() const {
  return spaces_->ipv4.patterns() + spaces_->ipv6.patterns();
}

size_t RuleTable::tuples() const {
  return spaces_->ipv4.tuples() + spaces_->ipv6.tuples();
}

}  // namespace snf
