// SPDX-License-Identifier: Apache-2.0
#include "base/rule_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/byte_order.h"
#include "base/prefix_lengths.h"
#include "base/slot_index.h"

namespace snf {
namespace {

using Ipv4Number = uint32_t;
using Ipv6Number = unsigned __int128;

// --- Patterns
// -----------------------------------------------------------------

template <typename Value>
struct Prefix {
  Value value{};
  size_t length = 0;

  Value mask() const {
    return length == 0
               ? Value{0}
               : static_cast<Value>(PrefixLengths<Value>::kMax
                                    << (PrefixLengths<Value>::kBits - length));
  }
};

// The fewest prefixes that together are the ranges.
std::vector<Prefix<uint16_t>> Split(std::span<const PortRange> ranges) {
  std::vector<Prefix<uint16_t>> prefixes;
  for (const PortRange& range : ranges) {
    uint32_t begin = range.first;
    const uint32_t end = range.last + 1u;
    while (begin < end) {
      const int aligned = begin == 0 ? 16 : std::countr_zero(begin);
      const int fits = std::bit_width(end - begin) - 1;
      const int bits = std::min(aligned, fits);
      prefixes.push_back(
          {static_cast<uint16_t>(begin), static_cast<size_t>(16 - bits)});
      begin += 1u << bits;
    }
  }
  if (ranges.empty()) prefixes.push_back({});
  return prefixes;
}

// All of a pattern but addresses, as one word.
constexpr uint16_t kVlanMask = 0xfff;
constexpr uint64_t kHasPorts = uint64_t{1} << 31;
constexpr uint64_t kHasFlags = uint64_t{1} << 30;
uint64_t Rest(uint16_t source_port, uint16_t destination_port, uint16_t vlan,
              uint8_t protocol, uint8_t flags) {
  return uint64_t{source_port} << 48 | uint64_t{destination_port} << 32 |
         (uint64_t{vlan} & kVlanMask) << 16 | uint64_t{protocol} << 8 | flags;
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

Ipv4Number NumberOf(const IpAddress& address, Ipv4Number) {
  return address.ipv4().host();
}
Ipv6Number NumberOf(const IpAddress& address, Ipv6Number) {
  const auto half = [&address](size_t at) {
    return SwapToBigEndian(LoadAs<uint64_t>(&address.bytes[at]));
  };
  return Ipv6Number{half(0)} << 64 | half(8);
}

// Both halves of the product, folded (flow_key.cc).
uint64_t Fold(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// --- All rules of one version of IP
// -------------------------------------------

template <typename Number>
class RuleSpace {
 public:
  // Adds the patterns of a rule; rules come in order.
  void Add(const PacketRule& rule, uint32_t number) {
    const std::vector<Prefix<Number>> from = PrefixesOf(rule.from);
    const std::vector<Prefix<Number>> to = PrefixesOf(rule.to);
    const std::vector<Prefix<uint16_t>> from_ports = Split(rule.from_ports);
    const std::vector<Prefix<uint16_t>> to_ports = Split(rule.to_ports);
    for (const Prefix<Number>& source : from) {
      for (const Prefix<Number>& destination : to) {
        for (const Prefix<uint16_t>& source_port : from_ports) {
          for (const Prefix<uint16_t>& destination_port : to_ports) {
            Add({source, destination, source_port, destination_port, &rule},
                number);
          }
        }
      }
    }
  }
  // How many patterns Add would add; if more than `max`, some number above.
  static uint64_t CountOf(const PacketRule& rule, uint64_t max) {
    uint64_t count = 1;
    for (const size_t factor :
         {PrefixesOf(rule.from).size(), PrefixesOf(rule.to).size(),
          Split(rule.from_ports).size(), Split(rule.to_ports).size()}) {
      count = std::min(count, max + 1) * factor;
    }
    return count;
  }

  // Once, behind the last Add.
  void Finish() {
    sources_.Finish();
    destinations_.Finish();
    source_ports_.Finish();
    destination_ports_.Finish();
    row_words_ = (tuples_.size() + 63) / 64;
    source_rows_.resize(sources_.classes() * row_words_);
    destination_rows_.resize(destinations_.classes() * row_words_);
    source_port_rows_.resize(source_ports_.classes() * row_words_);
    destination_port_rows_.resize(destination_ports_.classes() * row_words_);
    for (const auto& [mask, tuple] : tuple_of_mask_) {
      const Lengths& l = lengths_[tuple];
      SetBit(source_rows_, sources_.class_of(l.source), tuple);
      SetBit(destination_rows_, destinations_.class_of(l.destination), tuple);
      SetBit(source_port_rows_, source_ports_.class_of(l.source_port), tuple);
      SetBit(destination_port_rows_,
             destination_ports_.class_of(l.destination_port), tuple);
    }
    FinishProtocols();
    FinishIndex();
    tuple_of_mask_.clear();
    lengths_ = {};
  }

  uint32_t Find(const PacketFields& fields) const {
    const Number source = NumberOf(fields.source, Number{});
    const Number destination = NumberOf(fields.destination, Number{});
    Words words;
    Pack(source, destination,
         Rest(fields.source_port, fields.destination_port, fields.vlan,
              static_cast<uint8_t>(fields.protocol), fields.tcp_flags) |
             (fields.has_ports ? kHasPorts : 0) |
             (fields.has_tcp_flags ? kHasFlags : 0),
         words);
    if (tuples_.empty()) return RuleTable::kNoRule;
    const uint64_t by_source = sources_.Find(source);
    const uint64_t by_destination = destinations_.Find(destination);
    const uint64_t by_source_port = source_ports_.Find(fields.source_port);
    const uint64_t by_destination_port =
        destination_ports_.Find(fields.destination_port);
    const size_t protocol =
        row_of_protocol_[static_cast<uint8_t>(fields.protocol)];
    uint32_t found = RuleTable::kNoRule;
    for (size_t word = 0; word < row_words_; ++word) {
      if (tuples_[64 * word].best >= found) break;
      uint64_t candidates =
          protocol_rows_[protocol * row_words_ + word] &
          Any(source_rows_, by_source, word) &
          Any(destination_rows_, by_destination, word) &
          Any(source_port_rows_, by_source_port, word) &
          Any(destination_port_rows_, by_destination_port, word);
      for (; candidates != 0; candidates &= candidates - 1) {
        const size_t tuple =
            64 * word + static_cast<size_t>(std::countr_zero(candidates));
        if (tuples_[tuple].best >= found) return found;
        found = std::min(found, FindIn(tuple, words));
      }
    }
    return found;
  }

  size_t patterns() const { return entries_.size(); }
  size_t tuples() const { return tuples_.size(); }

 private:
  static constexpr size_t kWords = sizeof(Number) / 4 + 1;
  using Words = std::array<uint64_t, kWords>;
  using Rows = std::vector<uint64_t>;  // row_words_ for each class

  struct Pattern {
    const Prefix<Number>& source;
    const Prefix<Number>& destination;
    const Prefix<uint16_t>& source_port;
    const Prefix<uint16_t>& destination_port;
    const PacketRule* rule;
  };
  struct Lengths {
    size_t source;
    size_t destination;
    size_t source_port;
    size_t destination_port;
  };
  struct Tuple {
    Words mask;
    uint32_t best;  // rule
  };
  struct Entry {
    Words value;
    uint32_t tuple;
    uint32_t rule;
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

  void Add(const Pattern& pattern, uint32_t number) {
    const PacketRule& rule = *pattern.rule;
    const auto flags = rule.flags.value_or(PacketRule::TcpFlags());
    const uint64_t has =
        (rule.from_ports.empty() && rule.to_ports.empty() ? 0 : kHasPorts) |
        (rule.flags ? kHasFlags : 0);
    const auto& [source, destination, source_port, destination_port, _] =
        pattern;
    Words mask;
    Pack(source.mask(), destination.mask(),
         has | Rest(source_port.mask(), destination_port.mask(),
                    rule.vlan ? kVlanMask : 0, rule.protocol ? 0xff : 0,
                    flags.mask),
         mask);
    Entry entry;
    entry.rule = number;
    Pack(source.value, destination.value,
         has | Rest(source_port.value, destination_port.value,
                    rule.vlan.value_or(0),
                    static_cast<uint8_t>(rule.protocol.value_or(IpProtocol{})),
                    flags.set),
         entry.value);
    const auto [tuple, is_new] =
        tuple_of_mask_.try_emplace(mask, static_cast<uint32_t>(tuples_.size()));
    if (is_new) {
      tuples_.push_back({mask, number});
      lengths_.push_back({source.length, destination.length, source_port.length,
                          destination_port.length});
    }
    entry.tuple = tuple->second;
    entries_.push_back(entry);
    sources_.Add(source.value, source.length);
    destinations_.Add(destination.value, destination.length);
    source_ports_.Add(source_port.value, source_port.length);
    destination_ports_.Add(destination_port.value, destination_port.length);
  }

  void SetBit(Rows& rows, size_t row, size_t tuple) const {
    rows[row * row_words_ + tuple / 64] |= uint64_t{1} << tuple % 64;
  }
  // The OR of the rows of these classes, one word of it.
  uint64_t Any(const Rows& rows, uint64_t classes, size_t word) const {
    uint64_t any = 0;
    for (; classes != 0; classes &= classes - 1) {
      const auto row = static_cast<size_t>(std::countr_zero(classes));
      any |= rows[row * row_words_ + word];
    }
    return any;
  }

  // Row 0 has the tuples of any protocol, which are in all others too.
  void FinishProtocols() {
    size_t rows = 1;
    for (const Entry& entry : entries_) {
      uint16_t& row = row_of_protocol_[ProtocolOf(entry.value)];
      if (HasProtocol(entry) && row == 0) row = static_cast<uint16_t>(rows++);
    }
    protocol_rows_.resize(rows * row_words_);
    for (const Entry& entry : entries_) {
      if (HasProtocol(entry)) {
        SetBit(protocol_rows_, row_of_protocol_[ProtocolOf(entry.value)],
               entry.tuple);
        continue;
      }
      for (size_t row = 0; row < rows; ++row) {
        SetBit(protocol_rows_, row, entry.tuple);
      }
    }
  }
  bool HasProtocol(const Entry& entry) const {
    return ProtocolOf(tuples_[entry.tuple].mask) != 0;
  }
  static uint8_t ProtocolOf(const Words& words) {
    return static_cast<uint8_t>(words.back() >> 8);
  }

  // Of equal patterns the first rule's alone can be found. Half empty, so that
  // what is not there shows soon.
  void FinishIndex() {
    index_ = SlotIndex(static_cast<uint32_t>(2 * entries_.size()));
    uint32_t kept = 0;
    for (const Entry& entry : entries_) {
      const uint64_t hash = HashOf(entry.tuple, entry.value);
      if (IndexOf(hash, entry.tuple, entry.value) != SlotIndex::kNotFound) {
        continue;
      }
      entries_[kept] = entry;
      index_.Insert(hash, kept++);
    }
    entries_.resize(kept);
    entries_.shrink_to_fit();
  }

  static uint64_t HashOf(size_t tuple, const Words& value) {
    uint64_t hash = tuple * 0x9e37'79b9'7f4a'7c15;
    for (const uint64_t word : value) {
      hash = Fold(hash ^ word ^ 0x243f'6a88'85a3'08d3, 0x1319'8a2e'0370'7345);
    }
    return hash;
  }
  uint32_t IndexOf(uint64_t hash, size_t tuple, const Words& value) const {
    return index_.Find(hash, [&](uint32_t at) {
      return entries_[at].tuple == tuple && entries_[at].value == value;
    });
  }
  uint32_t FindIn(size_t tuple, const Words& words) const {
    Words value;
    for (size_t i = 0; i < kWords; ++i) {
      value[i] = words[i] & tuples_[tuple].mask[i];
    }
    const uint32_t at = IndexOf(HashOf(tuple, value), tuple, value);
    return at == SlotIndex::kNotFound ? RuleTable::kNoRule : entries_[at].rule;
  }

  // By the first rule that each has.
  std::vector<Tuple> tuples_;
  size_t row_words_ = 0;  // a bit for each tuple
  PrefixLengths<Number> sources_;
  PrefixLengths<Number> destinations_;
  PrefixLengths<uint16_t> source_ports_;
  PrefixLengths<uint16_t> destination_ports_;
  Rows source_rows_;
  Rows destination_rows_;
  Rows source_port_rows_;
  Rows destination_port_rows_;
  Rows protocol_rows_;
  std::array<uint16_t, 256> row_of_protocol_{};
  std::vector<Entry> entries_;
  SlotIndex index_;
  // Until Finish.
  std::map<Words, uint32_t> tuple_of_mask_;
  std::vector<Lengths> lengths_;  // by tuple
};

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
  uint64_t left = options.max_patterns;
  for (uint32_t number = 0; number < list.rules.size(); ++number) {
    const PacketRule& rule = list.rules[number];
    const uint64_t needed =
        RuleSpace<Ipv4Number>::CountOf(rule, options.max_patterns) +
        RuleSpace<Ipv6Number>::CountOf(rule, options.max_patterns);
    if (needed > left) {
      return absl::InvalidArgumentError(absl::StrCat(
          list.lines.empty() ? absl::StrCat("rule ", number + 1)
                             : absl::StrCat(list.name, ":", list.lines[number]),
          ": \"", ToString(rule).substr(0, 200), "\" needs ", needed,
          " patterns, and ", left, " of ", options.max_patterns,
          " are left; want shorter lists, or ranges of ports that begin and "
          "end at multiples of powers of two"));
    }
    left -= needed;
    spaces.ipv4.Add(rule, number);
    spaces.ipv6.Add(rule, number);
  }
  spaces.ipv4.Finish();
  spaces.ipv6.Finish();
  return table;
}

uint32_t RuleTable::Find(const PacketFields& fields) const {
  switch (fields.l3) {
    case L3::kIpv4:
      return spaces_->ipv4.Find(fields);
    case L3::kIpv6:
      return spaces_->ipv6.Find(fields);
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
