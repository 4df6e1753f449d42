// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/packet/flow_key.h"
#include "base/packet/ip_headers.h"
#include "base/packet/l4_headers.h"
#include "base/rules/packet_rules.h"
#include "base/rules/rule_table.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

using Tcp = TcpHeader<const std::byte>;

enum Action : uint16_t { kAllow, kDeny, kMark };
constexpr std::array<std::string_view, 3> kActions = {"allow", "deny", "mark"};

struct FirewallRules {
  RuleTable table;
  std::vector<uint16_t> actions;  // by rule
};

absl::StatusOr<FirewallRules> RulesOf(absl::StatusOr<RuleList> list) {
  if (!list.ok()) return list.status();
  absl::StatusOr<RuleTable> table = RuleTable::Build(*list);
  if (!table.ok()) return table.status();
  return FirewallRules{*std::move(table), std::move(list->actions)};
}

using RulesPtr = std::shared_ptr<const FirewallRules>;

RulesPtr RulesOfFile(NfOptions& o) {
  const RulesPtr rules = o.Load<FirewallRules>(
      "rules",
      "file of rules in order, one a line: allow, deny or mark, and a "
      "condition, such as \"deny tcp from any to 10.0.0.0/8 port 22-23\"",
      [](const std::string& f) { return RulesOf(LoadRules(f, kActions)); });
  return rules != nullptr ? rules : std::make_shared<const FirewallRules>();
}

// Returns the rules of the options "deny" and "allow".
RulesPtr RulesInLine(NfOptions& o) {
  RuleList list;
  for (const Action action : {kDeny, kAllow}) {
    const std::string key(kActions[action]);
    std::string text = o.Text(key, "", "RULE[;RULE…]",
                              "rules that precede the rules of the file, deny "
                              "first; write + for commas");
    std::ranges::replace(text, '+', ',');
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find(';', begin), text.size());
      absl::StatusOr<PacketRule> rule =
          ParsePacketRule(std::string_view(text).substr(begin, end - begin));
      begin = end + 1;
      if (rule.ok()) {
        list.rules.push_back(*std::move(rule));
        list.actions.push_back(action);
      } else {
        o.Fail(key, absl::StrCat("rules with semicolons between them; ",
                                 std::string(rule.status().message())));
      }
    }
  }
  absl::StatusOr<FirewallRules> rules = RulesOf(std::move(list));
  if (!rules.ok()) o.Fail("allow", std::string(rules.status().message()));
  return std::make_shared<const FirewallRules>(rules.ok() ? *std::move(rules)
                                                          : FirewallRules());
}

// The state of a flow; all zeros for a flow without a connection.
struct Connection {
  enum State : uint8_t { kNone, kTakenUp, kOpen, kEnded };

  int64_t ended_ns = 0;  // valid in kEnded
  uint32_t denied = 0;   // a bit for each direction and kind of packet
  uint8_t fins = 0;      // a bit for each direction that had its FIN
  uint8_t sent = 0;      // of TCP: a bit for each direction, kAnswered
  uint8_t state = kNone;
  uint8_t is_marked = 0;

  // The bit of `sent` for a packet without SYN, so one after the handshake's
  // first two.
  static constexpr uint8_t kAnswered = 4;
  bool is_established() const {
    constexpr uint8_t kAll = 1 | 2 | kAnswered;
    return sent == kAll && state != kEnded;
  }

  friend bool operator==(const Connection&, const Connection&) = default;
};
static_assert(sizeof(Connection) == 16);

// Theory of operation. A stateful filter: the rules are asked once, about the
// packet that begins a connection (with TCP, a packet with SYN and without ACK,
// FIN or RST). If they allow it, all packets of the connection pass, in both
// directions; if they mark it, the packets pass too, with the label
// "suspicious". If they deny it, further packets in that direction are denied,
// but the other end may still begin a connection.
//
// Without a connection, `strict` drops all other packets. Otherwise the rules
// are asked once about a TCP packet with other flags, which takes up a
// connection in its midst, until a SYN asks again; and each time about packets
// that never make a connection: ICMP errors, later fragments, headers cut off.
// These packets pass if their connection was allowed, and are denied if it was
// denied.
//
// A TCP connection is over at a reset, or when both directions had their FIN;
// sequence numbers are ignored. Then a SYN begins a new one, and any other
// packet belongs to the old one for 30 s. It is forgotten without packets for
// `tcp_timeout`, or, before both directions have spoken and after its end,
// `tcp_transitory_timeout` (RFC 5382 REQ-5). Connections of other protocols
// last as long as their flow.
//
// Without neighbour discovery and multicast listeners there is no IPv6 on a
// link. So ICMPv6 messages that are for the link alone (KeepsLinkAlive) pass,
// unless a rule matches them: neither the default nor `strict` stops them, and
// they make no connection (RFC 4890 §4.4.1).
//
// Example: allow=tcp to any port 80,default=deny. The SYN of 10.0.0.1:5000 to
// 192.0.2.9:80 is allowed by the rule, the answer to port 5000 by the
// connection.
class Firewall final : public NetworkFunction {
 public:
  explicit Firewall(NfOptions& o)
      : rules_{RulesInLine(o), RulesOfFile(o)},
        otherwise_(static_cast<Action>(
            o.Choice("default", kAllow, std::span(kActions).first(2),
                     "action for packets that no rule matches"))),
        strict_(o.Flag(
            "strict", false,
            "drop packets that belong to no connection and cannot begin one")),
        tcp_timeout_(o.Duration(
            "tcp_timeout", Seconds(7'440), Milliseconds(1), Seconds(31'536'000),
            "life of an established TCP connection without packets")),
        tcp_transitory_timeout_(o.Duration(
            "tcp_transitory_timeout", Seconds(240), Milliseconds(1),
            Seconds(31'536'000),
            "life of a TCP connection before it is established and after its "
            "end")) {}

  bool is_barrier() const override { return true; }

  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::string_view kReasons[] = {"denied", "no_connection"};
    return kReasons;
  }
  std::span<const std::string_view> labels() const override {
    static constexpr std::string_view kLabels[] = {"clean", "suspicious"};
    return kLabels;
  }

  Verdict process_packet(Packet& packet, FlowState& flow) override {
    const auto [kind, is_tcp, flags] = Look(packet);
    if (kind == Kind::kLink) return VerdictOf(DecideOnLink(packet));
    const Connection before = flow.get(connection_);
    Connection now = before;
    if (!Has(before, kind, packet.arrival())) {
      if (strict_ && kind != Kind::kBegins) return Verdict::drop(kNoConnection);
      if (kind == Kind::kOther) {
        return VerdictOf(before.denied != 0 ? kDeny : Decide(packet));
      }
      const uint32_t bit = 1u << (IsReverse(packet) ? 2 : 0)
                              << static_cast<int>(kind);
      if ((before.denied & bit) != 0) return Verdict::drop(kDenied);
      const Action action = Decide(packet);
      if (action == kDeny) {
        now.denied |= bit;
        flow.put(connection_, now);
        return Verdict::drop(kDenied);
      }
      count(connections_);
      now = {.state = kind == Kind::kBegins ? Connection::kOpen
                                            : Connection::kTakenUp,
             .is_marked = static_cast<uint8_t>(action == kMark ? 1 : 0)};
    }
    if (is_tcp) Follow(packet, flags, now);
    if (now != before) {
      flow.put(connection_, now);
      if (is_tcp) Keep(before, now, flow);
    }
    return VerdictOf(now.is_marked != 0 ? kMark : kAllow);
  }

 private:
  enum Drop : uint8_t { kDenied, kNoConnection };
  static constexpr Nanos kLinger = Seconds(30);

  // The effect that a packet can have: it begins a connection, takes one up in
  // its midst, or does neither. kLink has no connection.
  enum class Kind : uint8_t { kBegins, kTakesUp, kOther, kLink };
  struct Looked {
    Kind kind = Kind::kOther;
    bool is_tcp = false;
    uint8_t tcp_flags = 0;
  };

  static Looked Look(const Packet& packet) {
    using Byte = const std::byte;
    const ParsedPacket& headers = packet.headers();
    const std::span<Byte> bytes =
        std::span<Byte>(packet.bytes()).first(headers.end_offset);
    if (headers.result != ParseResult::kComplete) return {};
    if (headers.l4_protocol == IpProtocol::kTcp) {
      const uint8_t flags = Tcp::At(bytes, headers.l4_offset).flags();
      const uint8_t ends = flags & (Tcp::kFin | Tcp::kRst);
      const bool begins = (flags & (Tcp::kSyn | Tcp::kAck | ends)) == Tcp::kSyn;
      return {begins ? Kind::kBegins : Kind::kTakesUp, true, flags};
    }
    if (KeepsLinkAlive(bytes, headers)) return {Kind::kLink};
    const bool is_error =
        IsIcmp(headers.l4_protocol) &&
        IcmpHeader<Byte>::At(bytes, headers.l4_offset, headers.l4_protocol)
            .is_error();
    return {is_error ? Kind::kOther : Kind::kBegins};
  }

  // Returns true for neighbour discovery (RFC 4861; inverse, RFC 3122; secure,
  // RFC 3971) and for multicast listeners and routers (RFC 2710, 3810, 4286),
  // if the packet comes from the link itself, as these demand. Redirects and
  // node information are not among them.
  static bool KeepsLinkAlive(std::span<const std::byte> bytes,
                             const ParsedPacket& headers) {
    if (headers.l3 != L3::kIpv6 || headers.l4_protocol != IpProtocol::kIcmpv6) {
      return false;
    }
    const auto ip = Ipv6Header<const std::byte>::At(bytes, headers.l3_offset);
    const auto icmp = IcmpHeader<const std::byte>::At(bytes, headers.l4_offset,
                                                      headers.l4_protocol);
    if (icmp.code() != 0) return false;
    switch (icmp.type()) {
      case 133:  // router solicitation
      case 134:  // router advertisement
      case 135:  // neighbour solicitation
      case 136:  // neighbour advertisement
      case 141:  // inverse neighbour discovery solicitation
      case 142:  // inverse neighbour discovery advertisement
      case 148:  // certification path solicitation
      case 149:  // certification path advertisement
        return ip.hop_limit() == 255;
      case 130:  // multicast listener query
      case 131:  // multicast listener report
      case 132:  // multicast listener done
      case 143:  // multicast listener report, version 2
      case 151:  // multicast router advertisement
      case 152:  // multicast router solicitation
      case 153:  // multicast router termination
        return ip.hop_limit() == 1 && IsOfLink(ip.source());
      default:
        return false;
    }
  }

  // Returns true for fe80::/10, and for ::, which a host without an address has
  // (RFC 3590).
  static bool IsOfLink(const IpAddress& address) {
    const uint16_t first = LoadBe16(address.bytes.data()).host();
    return (first & 0xffc0) == 0xfe80 || address == IpAddress{};
  }

  // Returns true if the packet goes from the larger end to the smaller.
  static bool IsReverse(const Packet& packet) {
    FlowKey ends;
    return ConnectionKey(packet.bytes(), packet.headers(), false, ends);
  }

  static Verdict VerdictOf(Action action) {
    if (action == kDeny) return Verdict::drop(kDenied);
    return Verdict::forward(action == kMark ? 1 : 0);
  }

  // Returns true if the packet belongs to a connection that was allowed.
  static bool Has(const Connection& connection, Kind kind, Instant arrival) {
    if (connection.state == Connection::kOpen) return true;
    if (kind == Kind::kBegins) return false;
    return connection.state == Connection::kTakenUp ||
           (connection.state == Connection::kEnded &&
            arrival - Instant{connection.ended_ns} <= kLinger);
  }

  static void Follow(const Packet& packet, uint8_t flags,
                     Connection& connection) {
    if (connection.state == Connection::kEnded ||
        (connection.is_established() &&
         (flags & (Tcp::kFin | Tcp::kRst)) == 0)) {
      return;
    }
    const uint8_t direction = IsReverse(packet) ? 2 : 1;
    connection.sent |= direction;
    if ((flags & Tcp::kSyn) == 0) connection.sent |= Connection::kAnswered;
    if ((flags & Tcp::kFin) != 0) connection.fins |= direction;
    if ((flags & Tcp::kRst) != 0 || connection.fins == 3) {
      connection.state = Connection::kEnded;
      connection.ended_ns = packet.arrival().ns;
    }
  }

  // Makes the flow live as long as its TCP connection may be silent.
  void Keep(const Connection& before, const Connection& now,
            FlowState& flow) const {
    const bool is_new = before.state == Connection::kNone;
    if (!is_new && before.is_established() == now.is_established()) return;
    flow.set_idle_timeout(now.is_established() ? tcp_timeout_
                                               : tcp_transitory_timeout_);
  }

  // Returns the action of the first rule that matches, or else the default.
  Action Decide(const Packet& packet) {
    const std::optional<Action> action = AskRules(packet);
    if (action.has_value()) return *action;
    count(by_default_);
    return otherwise_;
  }

  Action DecideOnLink(const Packet& packet) {
    const std::optional<Action> action = AskRules(packet);
    if (action.has_value()) return *action;
    count(link_);
    return kAllow;
  }

  // Returns the action of the first rule that matches.
  std::optional<Action> AskRules(const Packet& packet) {
    const PacketFields fields = FieldsOf(packet.bytes(), packet.headers());
    for (const RulesPtr& rules : rules_) {
      const uint32_t rule = rules->table.Find(fields);
      if (rule == RuleTable::kNoRule) continue;
      const auto action = static_cast<Action>(rules->actions[rule]);
      count(by_rule_[action]);
      return action;
    }
    return std::nullopt;
  }

  std::array<RulesPtr, 2> rules_;  // of the options, then of the file
  Action otherwise_;
  bool strict_;
  Nanos tcp_timeout_;
  Nanos tcp_transitory_timeout_;
  Slot<Connection> connection_ = declare<Connection>("connection");
  std::array<Counter, 3> by_rule_ = {
      declare_counter("allowed", "times that a rule allowed"),
      declare_counter("denied", "times that a rule denied"),
      declare_counter("marked", "times that a rule marked")};
  Counter by_default_ = declare_counter("by_default", "no rule matched");
  Counter link_ = declare_counter(
      "ipv6_link", "ICMPv6 of the link that passed, as no rule matched");
  Counter connections_ = declare_counter("connections", "begun or taken up");
};
SNF_REGISTER_NF(Firewall, "firewall",
                "stateful packet filter: ordered rules, allow, deny, mark");

}  // namespace
}  // namespace snf
