// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_RULES_PACKET_RULES_H_
#define SNF_BASE_RULES_PACKET_RULES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/packet/ip_address.h"
#include "base/packet/ip_prefix.h"
#include "base/packet/packet_parser.h"
#include "base/packet/protocol_numbers.h"
#include "base/rules/rule_sets.h"

namespace snf {

// Theory of operation. A rule says which packets are meant, in the manner of
// pf.conf(5):
//
//   tcp from 10.0.0.0/8 to any port 80,443,8000-8999 vlan 12 flags S/SA
//
//   rule      = protocol [from] [to] [vlan] [flags]    in any order from `from`
//   protocol  = any | ip | ip6 | tcp | udp | icmp | icmp6 | …
//             | a number from 0 to 255
//   from, to  = ("from" | "to") addresses [ "port" ports ]
//   addresses = any | set | prefix { "," prefix }      10.0.0.0/8,2001:db8::/32
//   ports     = set | range { "," range }              80  or  8000-8999
//   set       = "$" name                               $bad (rule_sets.h)
//   vlan      = "vlan" id                              0: no tag
//   flags     = "flags" [set] "/" mask                 of FSRPAUEW
//
// A packet matches if all parts that the rule has do:
// - "ip" matches IPv4 packets and "ip6" matches IPv6 packets, whatever their
//   protocol. Each is short for "any" with a prefix of that version.
// - The protocol is that of the header at which the parser stops: with IPv6 the
//   one behind all extension headers, in a later IPv6 fragment the one that its
//   fragment header names.
// - A prefix of IPv4 matches IPv4 packets only, one of IPv6 only IPv6 packets
//   (one of mapped addresses, ::ffff:0:0/96, is one of IPv4); "any" both.
// - A rule with ports matches only packets whose ports can be read: those of a
//   protocol that has ports, but not later fragments, nor packets cut off
//   before the ports. So a later fragment never matches a rule with ports.
// - The VLAN is that of the outermost tag. A tag with only a priority counts as
//   none.
// - Flags match TCP packets whose header is whole: of the flags in the mask,
//   those in the set are on and the others off. "S/SA" matches a packet that
//   begins a connection, "/SA" one with neither flag.
//
// A value, not for the packet path, which uses rule_table.h.
struct PacketRule {
  struct TcpFlags {
    uint8_t set = 0;
    uint8_t mask = 0;  // has all of `set`
    friend bool operator==(const TcpFlags&, const TcpFlags&) = default;
  };

  // A part without a value, or empty, matches any packet. Sets are given by
  // name. Beside a set, the list of the same part is empty or, of `from`, has
  // all addresses of one version of IP.
  std::optional<IpProtocol> protocol;
  std::vector<IpPrefix> from;
  std::vector<PortRange> from_ports;
  std::vector<IpPrefix> to;
  std::vector<PortRange> to_ports;
  std::string from_set;
  std::string from_port_set;
  std::string to_set;
  std::string to_port_set;
  std::optional<uint16_t> vlan;
  std::optional<TcpFlags> flags;

  bool has_ports() const {
    return !from_ports.empty() || !to_ports.empty() || !from_port_set.empty() ||
           !to_port_set.empty();
  }
  friend bool operator==(const PacketRule&, const PacketRule&) = default;
};

// Reads a rule. InvalidArgument quotes the wrong word and says what is right.
// Rules that can match nothing are refused too, as ports of ICMP.
absl::StatusOr<PacketRule> ParsePacketRule(std::string_view text);
// Writes the rule as ParsePacketRule reads it, always with "from" and "to".
std::string ToString(const PacketRule& rule);

// Rules in order, each with its action.
struct RuleList {
  std::string name;  // of the file
  std::vector<PacketRule> rules;
  // For each rule an index into the names of actions, whether it is logged, and
  // its line in the file, 0 for a rule that is in no file.
  std::vector<uint16_t> actions;
  std::vector<bool> is_logged;
  std::vector<uint32_t> lines;
  std::vector<RuleSet> sets;  // that rules name

  // Returns "fw.rules:12", or "rule 3" for a rule that is in no file.
  std::string PlaceOf(size_t rule) const;
  // Adds the rules of a file behind rules that are in no file.
  void Append(RuleList more);
};

inline constexpr size_t kMaxRules = 100'000;
inline constexpr size_t kMaxRuleFileBytes = 32 * 1024 * 1024;

// Adds one rule: an action, "log" if its packets are logged, and the rule, as
// "deny log tcp from any to any port 23". Errors quote the wrong word.
absl::Status AddRule(std::string_view text,
                     std::span<const std::string_view> actions, RuleList& list);
// Reads rules, one a line. "#" begins a comment, and empty lines are skipped.
// Errors name the file, as `name`, and the line: `fw.rules:12: "prot": …`.
absl::StatusOr<RuleList> ParseRules(std::string_view text,
                                    const std::string& name,
                                    std::span<const std::string_view> actions);
// Reads the rules of a file of at most kMaxRuleFileBytes. A file that cannot be
// read gives NotFound and the like.
absl::StatusOr<RuleList> LoadRules(const std::string& file,
                                   std::span<const std::string_view> actions);

// The fields of a packet that rules see. Without a packet they can be filled in
// from a FlowKey of FlowKeyKind::k5Tuple.
struct PacketFields {
  IpAddress source;
  IpAddress destination;
  uint16_t source_port = 0;
  uint16_t destination_port = 0;
  uint16_t vlan = 0;
  IpProtocol protocol{};
  uint8_t tcp_flags = 0;
  L3 l3 = L3::kNone;  // kNone matches no rule
  bool has_ports = false;
  bool has_tcp_flags = false;
};
// Returns the fields of a packet, which may be any frame. Budget: ≤ 10 ns.
PacketFields FieldsOf(std::span<const std::byte> frame,
                      const ParsedPacket& packet);

}  // namespace snf

#endif  // SNF_BASE_RULES_PACKET_RULES_H_
