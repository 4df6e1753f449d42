// SPDX-License-Identifier: Apache-2.0
#include "base/rules/packet_rules.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/packet/flow_key_text.h"
#include "base/packet/headers.h"
#include "base/rules/rule_text.h"
#include "base/text_file.h"

namespace snf {
namespace {

constexpr char kFlagLetters[] = "FSRPAUEW";  // from bit 0
constexpr char kProtocols[] =
    "any, ip, ip6, tcp, udp, icmp, icmp6 or a number from 0 to 255";

std::optional<uint16_t> VlanIn(std::string_view text) {
  uint16_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end || number > 4095) {
    return std::nullopt;
  }
  return number;
}

// Reads "$bad".
absl::Status ReadSet(std::string_view word, std::string& set) {
  const std::string_view name = word.substr(1);
  if (!IsSetName(name)) {
    return WrongWord(word, "want one set, as $bad, and no list with it");
  }
  set = std::string(name);
  return absl::OkStatus();
}

absl::Status ReadPorts(std::string_view word, std::vector<PortRange>& ports,
                       std::string& set) {
  if (word.starts_with('$')) return ReadSet(word, set);
  for (size_t begin = 0; begin <= word.size();) {
    const size_t end = std::min(word.find(',', begin), word.size());
    const auto range = ParsePortRange(word.substr(begin, end - begin));
    if (!range.ok()) return range.status();
    ports.push_back(*range);
    begin = end + 1;
  }
  return absl::OkStatus();
}

absl::Status ReadAddresses(std::string_view word,
                           std::vector<IpPrefix>& prefixes, std::string& set) {
  if (word == "any") return absl::OkStatus();
  if (word.starts_with('$')) return ReadSet(word, set);
  absl::StatusOr<std::vector<IpPrefix>> read = ParsePrefixes(word);
  if (!read.ok()) return read.status();
  prefixes = *std::move(read);
  return absl::OkStatus();
}

// Returns a bit for each letter, or nothing if a letter is no flag.
std::optional<uint8_t> FlagsIn(std::string_view letters) {
  unsigned flags = 0;
  for (const char letter : letters) {
    const size_t bit = std::string_view(kFlagLetters).find(letter);
    if (bit == std::string_view::npos) return std::nullopt;
    flags |= 1u << bit;
  }
  return static_cast<uint8_t>(flags);
}

absl::Status ReadFlags(std::string_view word,
                       std::optional<PacketRule::TcpFlags>& flags) {
  const size_t slash = std::min(word.find('/'), word.size());
  const auto set = FlagsIn(word.substr(0, slash));
  const auto mask = FlagsIn(word.substr(std::min(slash + 1, word.size())));
  if (!set || !mask || *mask == 0) {
    return WrongWord(word, "want flags SET/MASK of the letters ", kFlagLetters,
                     ", for example S/SA");
  }
  if ((*set & ~*mask) != 0) {
    return WrongWord(word,
                     "can never match: the set has flags that are not in "
                     "the mask behind the slash");
  }
  flags = {*set, *mask};
  return absl::OkStatus();
}

// --- Rules that can match nothing --------------------------------------------

bool Has(const std::vector<IpPrefix>& prefixes, bool ipv4) {
  return prefixes.empty() ||
         std::ranges::any_of(prefixes, [ipv4](const IpPrefix& prefix) {
           return prefix.is_ipv4() == ipv4;
         });
}

// Returns the prefix of all addresses of one version of IP.
IpPrefix AllOf(bool ipv4) {
  constexpr uint8_t kAnyIpv4 = 96;  // the length of the prefix of all mapped
  return ipv4 ? IpPrefix{.address = IpAddress::FromIpv4(be32(0)),
                         .length = kAnyIpv4}
              : IpPrefix{.address = IpAddress{}, .length = 0};
}

// Makes `from` match packets of one version of IP alone, which `word` names:
// "ip" or "ip6".
absl::Status KeepVersion(std::string_view word, PacketRule& rule) {
  const bool ipv4 = word == "ip";
  if (!Has(rule.from, ipv4) || !Has(rule.to, ipv4)) {
    return ipv4 ? WrongWord(word, "is of IPv4; want ip6 with addresses of IPv6")
                : WrongWord(word, "is of IPv6; want ip with addresses of IPv4");
  }
  std::erase_if(rule.from, [ipv4](const IpPrefix& prefix) {
    return prefix.is_ipv4() != ipv4;
  });
  if (!rule.from.empty()) return absl::OkStatus();
  rule.from.push_back(AllOf(ipv4));
  return absl::OkStatus();
}

absl::Status CheckCanMatch(const PacketRule& rule) {
  const bool ipv4 = Has(rule.from, true) && Has(rule.to, true);
  const bool ipv6 = Has(rule.from, false) && Has(rule.to, false);
  if (!ipv4 && !ipv6) {
    return WrongWord(FormatPrefixes(rule.to),
                     "can never match: the addresses behind \"from\" are of "
                     "another version of IP than those behind \"to\"");
  }
  if (rule.protocol == IpProtocol::kIcmp && !ipv4) {
    return WrongWord("icmp", "is of IPv4; want icmp6 with addresses of IPv6");
  }
  if (rule.protocol == IpProtocol::kIcmpv6 && !ipv6) {
    return WrongWord("icmp6", "is of IPv6; want icmp with addresses of IPv4");
  }
  if (rule.has_ports() && rule.protocol && !HasPorts(*rule.protocol)) {
    return WrongWord(
        ToString(*rule.protocol),
        "has no ports; want tcp, udp, or any for all protocols with ports");
  }
  if (rule.flags && rule.protocol != IpProtocol::kTcp) {
    return WrongWord(rule.protocol ? ToString(*rule.protocol) : "any",
                     "has no flags; want tcp");
  }
  return absl::OkStatus();
}

// --- A rule ------------------------------------------------------------------

// The clauses of one rule, from behind its protocol on.
class Clauses {
 public:
  Clauses(std::string_view text, PacketRule& rule) : text_(text), rule_(rule) {}

  absl::Status Read() {
    for (std::string_view word = NextWord(text_); !word.empty();
         word = NextWord(text_)) {
      const absl::Status status = ReadOne(word);
      if (!status.ok()) return status;
      before_ = word;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status ReadOne(std::string_view word) {
    static constexpr std::string_view kNames[] = {"from", "to", "vlan",
                                                  "flags"};
    if (word == "port") return ReadPort();
    const auto name = std::ranges::find(kNames, word);
    if (name == std::end(kNames)) {
      return WrongWord(word,
                       "want from, to, port, vlan or flags, and no blanks "
                       "in lists");
    }
    const unsigned bit = 1u << (name - kNames);
    if ((seen_ & bit) != 0) return WrongWord(word, "stands twice");
    seen_ |= bit;
    const std::string_view value = NextWord(text_);
    if (word == "from" || word == "to") {
      if (value.empty()) {
        return WrongWord(word,
                         "want addresses behind it, for example "
                         "10.0.0.0/8,2001:db8::/32, or any");
      }
      return word == "from" ? ReadAddresses(value, rule_.from, rule_.from_set)
                            : ReadAddresses(value, rule_.to, rule_.to_set);
    }
    if (word == "flags") return ReadFlags(value, rule_.flags);
    rule_.vlan = VlanIn(value);
    if (rule_.vlan) return absl::OkStatus();
    return WrongWord(value, "want a VLAN from 0 to 4095 behind vlan");
  }

  absl::Status ReadPort() {
    if (before_ != "from" && before_ != "to") {
      return WrongWord("port",
                       "want it right behind the addresses of from or to");
    }
    const std::string_view value = NextWord(text_);
    return before_ == "from"
               ? ReadPorts(value, rule_.from_ports, rule_.from_port_set)
               : ReadPorts(value, rule_.to_ports, rule_.to_port_set);
  }

  std::string_view text_;
  PacketRule& rule_;
  unsigned seen_ = 0;
  std::string_view before_;  // the clause
};

void AppendEnd(std::string_view name, const std::vector<IpPrefix>& prefixes,
               const std::string& set, const std::vector<PortRange>& ports,
               const std::string& port_set, std::string& text) {
  absl::StrAppend(&text, " ", std::string(name), " ",
                  !set.empty()       ? "$" + set
                  : prefixes.empty() ? "any"
                                     : FormatPrefixes(prefixes));
  if (!port_set.empty()) absl::StrAppend(&text, " port $", port_set);
  const char* before = " port ";
  for (const PortRange& range : ports) {
    absl::StrAppend(&text, before, range.first);
    if (range.last != range.first) absl::StrAppend(&text, "-", range.last);
    before = ",";
  }
}

// Returns the first word of a rule. Beside a set, `from` has the version of IP.
std::string ProtocolOf(const PacketRule& rule) {
  if (rule.protocol) return ToString(*rule.protocol);
  if (rule.from_set.empty() || rule.from.empty()) return "any";
  return rule.from.front().is_ipv4() ? "ip" : "ip6";
}

std::string LettersOf(uint8_t flags) {
  std::string letters;
  for (size_t bit = 0; kFlagLetters[bit] != 0; ++bit) {
    if ((flags >> bit & 1) != 0) letters += kFlagLetters[bit];
  }
  return letters;
}

std::string Join(std::span<const std::string_view> names) {
  std::string joined;
  for (const std::string_view name : names) {
    joined += (joined.empty() ? "" : ", ") + std::string(name);
  }
  return joined;
}

}  // namespace

absl::StatusOr<PacketRule> ParsePacketRule(std::string_view text) {
  PacketRule rule;
  const std::string_view word = NextWord(text);
  const std::string name = absl::AsciiStrToLower(std::string(word));
  const bool has_version = name == "ip" || name == "ip6";
  if (word != "any" && !has_version) {
    rule.protocol = ParseProtocol(word);
    if (!rule.protocol) {
      return WrongWord(word, "a rule begins with its protocol: ", kProtocols);
    }
  }
  absl::Status status = Clauses(text, rule).Read();
  if (status.ok() && has_version) status = KeepVersion(name, rule);
  if (status.ok()) status = CheckCanMatch(rule);
  if (!status.ok()) return status;
  return rule;
}

std::string ToString(const PacketRule& rule) {
  std::string text = ProtocolOf(rule);
  AppendEnd("from", rule.from, rule.from_set, rule.from_ports,
            rule.from_port_set, text);
  AppendEnd("to", rule.to, rule.to_set, rule.to_ports, rule.to_port_set, text);
  if (rule.vlan) absl::StrAppend(&text, " vlan ", *rule.vlan);
  if (rule.flags) {
    absl::StrAppend(&text, " flags ", LettersOf(rule.flags->set), "/",
                    LettersOf(rule.flags->mask));
  }
  return text;
}

std::string RuleList::PlaceOf(size_t rule) const {
  if (lines.empty() || lines[rule] == 0) return absl::StrCat("rule ", rule + 1);
  return absl::StrCat(name, ":", lines[rule]);
}

void RuleList::Append(RuleList more) {
  name = std::move(more.name);
  std::ranges::move(more.rules, std::back_inserter(rules));
  actions.insert(actions.end(), more.actions.begin(), more.actions.end());
  is_logged.insert(is_logged.end(), more.is_logged.begin(),
                   more.is_logged.end());
  lines.insert(lines.end(), more.lines.begin(), more.lines.end());
}

absl::Status AddRule(std::string_view text,
                     std::span<const std::string_view> actions,
                     RuleList& list) {
  const std::string_view action = NextWord(text);
  const auto known = std::ranges::find(actions, action);
  if (known == actions.end()) {
    return WrongWord(action, "a line begins with what to do: ", Join(actions));
  }
  if (list.rules.size() == kMaxRules) {
    return WrongWord(action, "more than ", kMaxRules, " rules");
  }
  std::string_view rest = text;
  const bool is_logged = NextWord(rest) == "log";
  absl::StatusOr<PacketRule> rule = ParsePacketRule(is_logged ? rest : text);
  if (!rule.ok()) return rule.status();
  list.rules.push_back(*std::move(rule));
  list.actions.push_back(static_cast<uint16_t>(known - actions.begin()));
  list.is_logged.push_back(is_logged);
  list.lines.push_back(0);
  return absl::OkStatus();
}

absl::StatusOr<RuleList> ParseRules(std::string_view text,
                                    const std::string& name,
                                    std::span<const std::string_view> actions) {
  RuleList list;
  list.name = name;
  for (uint32_t line = 1; !text.empty(); ++line) {
    const std::string_view rule = NextLine(text);
    std::string_view rest = rule;
    if (NextWord(rest).empty()) continue;
    const absl::Status status = AddRule(rule, actions, list);
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ":", line, ": ", std::string(status.message())));
    }
    list.lines.back() = line;
  }
  return list;
}

absl::StatusOr<RuleList> LoadRules(const std::string& file,
                                   std::span<const std::string_view> actions) {
  const absl::StatusOr<std::string> text =
      ReadTextFile(file, kMaxRuleFileBytes);
  if (!text.ok()) return text.status();
  return ParseRules(*text, file, actions);
}

PacketFields FieldsOf(std::span<const std::byte> frame,
                      const ParsedPacket& packet) {
  using Byte = const std::byte;
  PacketFields fields;
  fields.l3 = packet.l3;
  fields.vlan = packet.outer_vlan;
  fields.protocol = packet.l4_protocol;
  if (packet.l3 == L3::kIpv4) {
    const auto ip = Ipv4Header<Byte>::At(frame, packet.l3_offset);
    fields.source = IpAddress::FromIpv4(ip.source());
    fields.destination = IpAddress::FromIpv4(ip.destination());
  } else if (packet.l3 == L3::kIpv6) {
    const auto ip = Ipv6Header<Byte>::At(frame, packet.l3_offset);
    fields.source = ip.source();
    fields.destination = ip.destination();
  }
  if (!packet.has_ip() || packet.fragment == Fragment::kLater ||
      !HasPorts(packet.l4_protocol)) {
    return fields;
  }
  const auto whole = frame.first(packet.end_offset);
  if (const auto ports = PortsView<Byte>::At(whole, packet.l4_offset)) {
    fields.has_ports = true;
    fields.source_port = ports.source_port().host();
    fields.destination_port = ports.destination_port().host();
  }
  if (packet.l4_protocol == IpProtocol::kTcp) {
    if (const auto tcp = TcpHeader<Byte>::At(whole, packet.l4_offset)) {
      fields.has_tcp_flags = true;
      fields.tcp_flags = tcp.flags();
    }
  }
  return fields;
}

}  // namespace snf
