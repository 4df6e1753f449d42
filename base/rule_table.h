// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_RULE_TABLE_H_
#define SNF_BASE_RULE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "base/packet_parser.h"
#include "base/packet_rules.h"

namespace snf {

// Theory of operation. Finds the first of many rules (packet_rules.h) that a
// packet matches, by tuple space search (Srinivasan et al., "Packet
// Classification using Tuple Space Search", SIGCOMM 1999) with what Open
// vSwitch adds (Pfaff et al., NSDI 2015, §5).
//
// The fields of a packet are a few words: 2 of IPv4, 5 of IPv6, with a table
// for each of the two. A rule becomes patterns (mask, value): one for each
// combination of its prefixes and ports, a range of ports being split into at
// most 30 prefixes. All patterns with one mask are a tuple; of a tuple at most
// one value is that of a packet, and a hash table finds it. All tuples share
// one hash table.
//
// Tuples are in the order of the first rule that each has, so the search ends
// at the first tuple whose best rule is not better than the one found. And most
// need no look: for either address and port the table knows, by bisecting the
// borders of all prefixes, which prefix lengths have a match there at all, for
// each length and each protocol which tuples have it, as bits. The tuples to
// look at are the AND of these.
//
// Worked example:
//
//   0  tcp from any to 10.0.0.0/8 port 22
//   1  tcp from any to 10.1.0.0/16 port 80
//   2  tcp from any to 10.2.0.0/16 port 80
//   3  any
//
// has tuples A = (tcp, to /8, port /16) with rule 0, B = (tcp, to /16, port
// /16) with rules 1 and 2, C = () with rule 3. A packet to 10.9.0.1 port 80 has
// a prefix of /8 but none of /16, so B is not looked at. Of a packet to
// 10.2.0.1 port 80 A is looked at in vain, and B finds rule 2; C, whose best
// rule is 3, is not looked at.
//
// Never changes once built; any number of threads may look up. Deterministic.
class RuleTable {
 public:
  static constexpr uint32_t kNoRule = 0xffff'ffff;

  struct Options {
    // Of all rules together: bounds memory, some 50 (IPv6: 70) bytes each.
    size_t max_patterns = 1'000'000;
  };

  // At most kMaxRules rules. InvalidArgument where they need more patterns than
  // there may be, naming the rule by its number (from 1), or file and line.
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

  // The index of the first rule that matches, or kNoRule. No allocation.
  // Budget: a twentieth of a linear scan's time at 10,000 rules.
  uint32_t Find(const PacketFields& fields) const;
  uint32_t Find(std::span<const std::byte> frame,
                const ParsedPacket& packet) const {
    return Find(FieldsOf(frame, packet));
  }

  // For reports: how many there are, of IPv4 and IPv6 together.
  size_t patterns() const;
  size_t tuples() const;

 private:
  struct Spaces;
  std::unique_ptr<Spaces> spaces_;
};

}  // namespace snf

#endif  // SNF_BASE_RULE_TABLE_H_
