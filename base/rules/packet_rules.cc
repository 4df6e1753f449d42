// SPDX-License-Identifier: Apache-2.0
#include "base/rules/packet_rules.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/packet/flow_key_text.h"
#include "base/packet/headers.h"
#include "base/text_file.h"

namespace snf {
namespace {

constexpr std::string_view kBlanks = " \t\r\f\v";
constexpr char kFlagLetters[] = "FSRPAUEW";  // from bit 0
constexpr char kProtocols[] =
    "any, ip, ip6, tcp, udp, icmp, icmp6 or a number from 0 to 255";
constexpr size_t kMaxQuoted = 60;

std::string Quoted(std::string_view word) {
  const bool is_long = word.size() > kMaxQuoted;
  return absl::StrCat(
      "\"", absl::Utf8SafeCEscape(std::string(word.substr(0, kMaxQuoted))),
      is_long ? "…\"" : "\"");
}

template <typename... Parts>
absl::Status Wrong(std::string_view word, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(Quoted(word), ": ", parts...));
}

// Removes the next word from the text and returns it; the word is empty at the
// end of the text.
std::string_view NextWord(std::string_view& text) {
  const size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  text.remove_prefix(begin);
  const size_t end = std::min(text.find_first_of(kBlanks), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

std::optional<uint16_t> NumberIn(std::string_view text, uint16_t max) {
  uint16_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end || number > max) {
    return std::nullopt;
  }
  return number;
}

absl::StatusOr<PortRange> RangeIn(std::string_view text) {
  const size_t dash = std::min(text.find('-'), text.size());
  const auto first = NumberIn(text.substr(0, dash), 0xffff);
  const auto last =
      dash == text.size() ? first : NumberIn(text.substr(dash + 1), 0xffff);
  if (!first || !last) {
    return Wrong(text, "want a port from 0 to 65535, or a range as 8000-8999");
  }
  if (*first > *last) return Wrong(text, "the range ends before it begins");
  return PortRange{*first, *last};
}

absl::Status ReadPorts(std::string_view word, std::vector<PortRange>& ports) {
  for (size_t begin = 0; begin <= word.size();) {
    const size_t end = std::min(word.find(',', begin), word.size());
    const auto range = RangeIn(word.substr(begin, end - begin));
    if (!range.ok()) return range.status();
    ports.push_back(*range);
    begin = end + 1;
  }
  return absl::OkStatus();
}

absl::Status ReadAddresses(std::string_view word,
                           std::vector<IpPrefix>& prefixes) {
  if (word == "any") return absl::OkStatus();
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
    return Wrong(word, "want flags SET/MASK of the letters ", kFlagLetters,
                 ", for example S/SA");
  }
  if ((*set & ~*mask) != 0) {
    return Wrong(word,
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

// Makes `from` match packets of one version of IP alone, which `word` names:
// "ip" or "ip6".
absl::Status KeepVersion(std::string_view word, PacketRule& rule) {
  const bool ipv4 = word == "ip";
  if (!Has(rule.from, ipv4) || !Has(rule.to, ipv4)) {
    return ipv4 ? Wrong(word, "is of IPv4; want ip6 with addresses of IPv6")
                : Wrong(word, "is of IPv6; want ip with addresses of IPv4");
  }
  std::erase_if(rule.from, [ipv4](const IpPrefix& prefix) {
    return prefix.is_ipv4() != ipv4;
  });
  if (!rule.from.empty()) return absl::OkStatus();
  constexpr uint8_t kAnyIpv4 = 96;  // the length of the prefix of all mapped
  rule.from.push_back(ipv4 ? IpPrefix{.address = IpAddress::FromIpv4(be32(0)),
                                      .length = kAnyIpv4}
                           : IpPrefix{.address = IpAddress{}, .length = 0});
  return absl::OkStatus();
}

absl::Status CheckCanMatch(const PacketRule& rule) {
  const bool ipv4 = Has(rule.from, true) && Has(rule.to, true);
  const bool ipv6 = Has(rule.from, false) && Has(rule.to, false);
  if (!ipv4 && !ipv6) {
    return Wrong(FormatPrefixes(rule.to),
                 "can never match: the addresses behind \"from\" are of "
                 "another version of IP than those behind \"to\"");
  }
  if (rule.protocol == IpProtocol::kIcmp && !ipv4) {
    return Wrong("icmp", "is of IPv4; want icmp6 with addresses of IPv6");
  }
  if (rule.protocol == IpProtocol::kIcmpv6 && !ipv6) {
    return Wrong("icmp6", "is of IPv6; want icmp with addresses of IPv4");
  }
  const bool ports = !rule.from_ports.empty() || !rule.to_ports.empty();
  if (ports && rule.protocol && !HasPorts(*rule.protocol)) {
    return Wrong(
        ToString(*rule.protocol),
        "has no ports; want tcp, udp, or any for all protocols with ports");
  }
  if (rule.flags && rule.protocol != IpProtocol::kTcp) {
    return Wrong(rule.protocol ? ToString(*rule.protocol) : "any",
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
      return Wrong(word,
                   "want from, to, port, vlan or flags, and no blanks "
                   "in lists");
    }
    const unsigned bit = 1u << (name - kNames);
    if ((seen_ & bit) != 0) return Wrong(word, "stands twice");
    seen_ |= bit;
    const std::string_view value = NextWord(text_);
    if (word == "from" || word == "to") {
      if (value.empty()) {
        return Wrong(word,
                     "want addresses behind it, for example "
                     "10.0.0.0/8,2001:db8::/32, or any");
      }
      return ReadAddresses(value, word == "from" ? rule_.from : rule_.to);
    }
    if (word == "flags") return ReadFlags(value, rule_.flags);
    rule_.vlan = NumberIn(value, 4095);
    if (rule_.vlan) return absl::OkStatus();
    return Wrong(value, "want a VLAN from 0 to 4095 behind vlan");
  }

  absl::Status ReadPort() {
    if (before_ != "from" && before_ != "to") {
      return Wrong("port", "want it right behind the addresses of from or to");
    }
    return ReadPorts(NextWord(text_),
                     before_ == "from" ? rule_.from_ports : rule_.to_ports);
  }

  std::string_view text_;
  PacketRule& rule_;
  unsigned seen_ = 0;
  std::string_view before_;  // the clause
};

void AppendEnd(std::string_view name, const std::vector<IpPrefix>& prefixes,
               const std::vector<PortRange>& ports, std::string& text) {
  absl::StrAppend(&text, " ", std::string(name), " ",
                  prefixes.empty() ? "any" : FormatPrefixes(prefixes));
  const char* before = " port ";
  for (const PortRange& range : ports) {
    absl::StrAppend(&text, before, range.first);
    if (range.last != range.first) absl::StrAppend(&text, "-", range.last);
    before = ",";
  }
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
      return Wrong(word, "a rule begins with its protocol: ", kProtocols);
    }
  }
  absl::Status status = Clauses(text, rule).Read();
  if (status.ok() && has_version) status = KeepVersion(name, rule);
  if (status.ok()) status = CheckCanMatch(rule);
  if (!status.ok()) return status;
  return rule;
}

std::string ToString(const PacketRule& rule) {
  std::string text = rule.protocol ? ToString(*rule.protocol) : "any";
  AppendEnd("from", rule.from, rule.from_ports, text);
  AppendEnd("to", rule.to, rule.to_ports, text);
  if (rule.vlan) absl::StrAppend(&text, " vlan ", *rule.vlan);
  if (rule.flags) {
    absl::StrAppend(&text, " flags ", LettersOf(rule.flags->set), "/",
                    LettersOf(rule.flags->mask));
  }
  return text;
}

absl::StatusOr<RuleList> ParseRules(std::string_view text,
                                    const std::string& name,
                                    std::span<const std::string_view> actions) {
  RuleList list;
  list.name = name;
  for (uint32_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view rest = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    rest = rest.substr(0, rest.find('#'));
    const std::string_view action = NextWord(rest);
    if (action.empty()) continue;
    const auto fail = [&](const absl::Status& why) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ":", line, ": ", std::string(why.message())));
    };
    const auto known = std::ranges::find(actions, action);
    if (known == actions.end()) {
      return fail(
          Wrong(action, "a line begins with what to do: ", Join(actions)));
    }
    if (list.rules.size() == kMaxRules) {
      return fail(Wrong(action, "more than ", kMaxRules, " rules"));
    }
    absl::StatusOr<PacketRule> rule = ParsePacketRule(rest);
    if (!rule.ok()) return fail(rule.status());
    list.rules.push_back(*std::move(rule));
    list.actions.push_back(static_cast<uint16_t>(known - actions.begin()));
    list.lines.push_back(line);
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
