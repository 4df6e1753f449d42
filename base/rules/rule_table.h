// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_RULES_RULE_TABLE_H_
#define SNF_BASE_RULES_RULE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "base/packet/packet_parser.h"
#include "base/rules/packet_rules.h"

namespace snf {

// Theory of operation. Finds the first of many rules (packet_rules.h) that a
// packet matches, by tuple space search (Srinivasan et al., "Packet
// Classification using Tuple Space Search", SIGCOMM 1999), pruned as in Open
// vSwitch (Pfaff et al., NSDI 2015, §5), with few and coarse tuples (Daly et
// al., "TupleMerge", 2019).
//
// The fields of a packet are a few words: 2 of IPv4, 5 of IPv6, with tables of
// their own for each. A rule becomes patterns, one for each combination of its
// prefixes and ports. A pattern is hashed by a key that is coarser than itself:
// - of a prefix, the bits of its length rounded down to a multiple of 4, and
//   none of one shorter than 8;
// - of a port, all bits; of a range of ports, those of each block of 256 ports
//   that it meets, or none if it meets more than 8;
// - VLAN and protocol, if it has them.
// All patterns whose keys have the same mask are a tuple. Those with the same
// key are a bucket, which is searched one by one in the order of the rules.
//
// Tuples are in the order of the first rule that each has, so the search ends
// at the first tuple whose best rule is not better than the one found. Most
// tuples need no look at all: the borders of all prefixes cut the addresses
// into segments, and for each segment the table has a row of bits, one for each
// tuple with a prefix there (interval_rows.h). It has such rows for ports and
// protocols too. The tuples to search are the AND of five rows. A row has at
// most 512 bits: tuples whose numbers differ by a multiple of 512 share theirs.
//
// Worked example:
//
//   0  tcp from any to 10.0.0.0/8 port 22
//   1  tcp from any to 10.1.0.0/16 port 80
//   2  tcp from any to 10.2.0.0/18 port 80
//   3  any
//
// has tuples A = (tcp, to /8, port) with rule 0, B = (tcp, to /16, port) with
// rules 1 and 2, C = () with rule 3. A packet to 10.9.0.1 port 80 is in no
// prefix of B and to no port of A, so only C is searched. For a packet to
// 10.2.0.1 port 80, A is skipped because of its port, and B has a bucket for
// 10.2.0.0/16 port 80, in which rule 2 matches; C, whose best rule is 3, is not
// searched.
//
// A set (rule_sets.h) is one pattern, however many entries it has. The borders
// of all entries of all sets make rows as above, with a bit for each set. A
// packet's row is searched when the first pattern with a set is met, and serves
// all further ones, so the cost grows with the logarithm of the entries.
//
// Many rules that differ only in ranges of more than 2,048 ports, in flags or
// in sets are one bucket and are searched one by one.
//
// Never changes once built; any number of threads may look up. Deterministic.
class RuleTable {
 public:
  static constexpr uint32_t kNoRule = 0xffff'ffff;

  struct Options {
    // The limit on the patterns of all rules together. It bounds memory: a
    // pattern takes up to 400 bytes, with IPv6 500, and twice that while the
    // table is built.
    size_t max_patterns = 1'000'000;
  };

  // Builds a table of at most kMaxRules rules. If they need more than
  // max_patterns, or name a set that is not there or of the wrong kind,
  // InvalidArgument names the rule by its number (from 1), or by file and line.
  static absl::StatusOr<RuleTable> Build(std::span<const PacketRule> rules,
                                         const Options& options);
  static absl::StatusOr<RuleTable> Build(const RuleList& list,
                                         const Options& options);
  static absl::StatusOr<RuleTable> Build(std::span<const PacketRule> rules) {
    return Build(rules, Options());
  }
  static absl::StatusOr<RuleTable> Build(const RuleList& list) {
    return Build(list, Options());
  }

  RuleTable();  // without rules
  RuleTable(RuleTable&&) noexcept;
  RuleTable& operator=(RuleTable&&) noexcept;
  ~RuleTable();

  // Returns the index of the first rule that matches, from the rule `first` on,
  // or kNoRule. No
  // allocation. Budget, for the rules in rule_table_bench.cc: a third of the
  // time of a linear scan at 1,000 rules, a tenth at 10,000.
  uint32_t Find(const PacketFields& fields, uint32_t first = 0) const;
  uint32_t Find(std::span<const std::byte> frame,
                const ParsedPacket& packet) const {
    return Find(FieldsOf(frame, packet));
  }

  // The numbers of patterns and tuples, of IPv4 and IPv6 together, for reports.
  size_t patterns() const;
  size_t tuples() const;

 private:
  struct Spaces;
  std::unique_ptr<Spaces> spaces_;
};

}  // namespace snf

#endif  // SNF_BASE_RULES_RULE_TABLE_H_
