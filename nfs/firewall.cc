// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/answers/answers.h"
#include "base/packet/flow_key.h"
#include "base/packet/ip_headers.h"
#include "base/packet/l4_headers.h"
#include "base/rules/packet_rules.h"
#include "nfs/firewall_log.h"
#include "nfs/firewall_rules.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

using Tcp = TcpHeader<const std::byte>;

using Action = FirewallAction;

// The state of a flow; all zeros for a flow without a connection.
struct Connection {
  enum State : uint8_t { kNone, kTakenUp, kOpen, kEnded };

  int64_t ended_ns = 0;   // valid in kEnded
  uint16_t denied = 0;    // a bit for each Place
  uint16_t rejected = 0;  // a bit for each Place, which `denied` has too
  uint8_t fins = 0;       // a bit for each direction that had its FIN
  uint8_t sent = 0;       // of TCP: a bit for each direction, kAnswered
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
// A packet that is rejected is denied, and its sender is told, at most once a
// second and flow: by a reset of TCP, or else by an ICMP error. Both come from
// the packet's destination, as the firewall has no address. An answer leaves as
// it is, without going through a chain, so packets from the outside of a NAT
// are not answered: the answer would show inside addresses.
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
// With `counts`, a flow knows the rule of its connection and of each direction
// that was denied, and what rules were applied to is summed in a table of all
// units. Decisions of rules with `log` are collected in a table too, and are
// limited by rule and second when the report is made.
//
// Example: allow=tcp to any port 80,default=deny. The SYN of 10.0.0.1:5000 to
// 192.0.2.9:80 is allowed by the rule, the answer to port 5000 by the
// connection.
class Firewall final : public NetworkFunction {
 public:
  explicit Firewall(NfOptions& o)
      : rules_(FirewallRules::Of(o)),
        otherwise_(static_cast<Action>(
            o.Choice("default", 0, std::span(kFirewallActions).first(3),
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
            "end")),
        counted_rules_(static_cast<size_t>(
            o.Integer("counts", 0, 0, kMaxRules,
                      "most rules in the report, those with most packets; 0: "
                      "the packets of rules are not counted"))),
        log_(o.Text("log", "", "FILE, written",
                    "file to write decisions of rules with log to, as EVE JSON "
                    "lines, when the run ends")),
        log_rate_(static_cast<uint64_t>(
            o.Integer("log_rate", 10, 1, 1'000'000,
                      "most decisions of one rule that are logged in a second; "
                      "others are counted"))) {
    const auto max_log = static_cast<uint32_t>(
        o.Integer("max_log", 65'536, 1, 1 << 24,
                  "most logged decisions that are kept; others are counted"));
    if (rules_->has(Action::kReject) || otherwise_ == Action::kReject) {
      answered_.emplace(declare<int64_t>("answered"));
    }
    if (counted_rules_ > 0) {
      rules_of_.emplace(declare<RulesOfFlow>("rules"));
      hits_.emplace(declare_shared<uint64_t, FirewallHits>(
          "rule_hits", rules_->size() + 1,
          [](FirewallHits& sum, const FirewallHits& more) { sum.Add(more); },
          TableReader::kReport));
    }
    if (rules_->has_logged()) {
      log_id_ = declare_log("decisions",
                            "decisions of rules with log, as EVE JSON lines");
      logged_.emplace(declare_shared<FirewallLogKey, FirewallLogged>(
          "log", max_log, SumOfWords{}, TableReader::kReport));
    }
  }

  bool is_barrier() const override { return true; }
  bool takes_merged() const override { return true; }

  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::string_view kReasons[] = {"denied", "no_connection",
                                                    "rejected"};
    return kReasons;
  }
  std::span<const std::string_view> labels() const override {
    static constexpr std::string_view kLabels[] = {"clean", "suspicious"};
    return kLabels;
  }

  std::vector<std::string> warnings() const override {
    return rules_->warnings();
  }

  Verdict process_packet(Packet& packet, FlowState& flow) override {
    const auto [kind, is_tcp, flags] = Look(packet);
    if (kind == Kind::kLink)
      return VerdictOf(DecideOnLink(packet, flow).action);
    const Connection before = flow.get(connection_);
    Connection now = before;
    if (Has(before, kind, packet.arrival())) {
      CountAgain(packet, kConnection, flow);
    } else {
      if (strict_ && kind != Kind::kBegins) return Verdict::drop(kNoConnection);
      if (kind == Kind::kOther) return PassOther(packet, before, flow);
      const Place place = PlaceOf(packet, kind);
      const auto bit = static_cast<uint16_t>(1u << place);
      if ((before.denied & bit) != 0) {
        CountAgain(packet, place, flow);
        return Refuse((before.rejected & bit) != 0, packet, flow);
      }
      const Decision decision = Decide(packet, flow);
      const bool rejects = decision.action == Action::kReject;
      if (rejects || decision.action == Action::kDeny) {
        NoteRule(decision.rule, place, flow);
        now.denied |= bit;
        if (rejects) now.rejected |= bit;
        flow.put(connection_, now);
        return Refuse(rejects, packet, flow);
      }
      NoteRule(decision.rule, kConnection, flow);
      count(connections_);
      now = {.state = kind == Kind::kBegins ? Connection::kOpen
                                            : Connection::kTakenUp,
             .is_marked = static_cast<uint8_t>(
                 decision.action == Action::kMark ? 1 : 0)};
    }
    if (is_tcp) Follow(packet, flags, now);
    if (now != before) {
      flow.put(connection_, now);
      if (is_tcp) Keep(before, now, flow);
    }
    return VerdictOf(now.is_marked != 0 ? Action::kMark : Action::kAllow);
  }

  void write_record(const LogRecord& record, std::string& lines) override {
    FirewallLogRecord one;
    if (record.bytes.size() != sizeof one) return;
    std::memcpy(&one, record.bytes.data(), sizeof one);
    if (one.key.rule >= rules_->size()) return;
    const std::optional<uint64_t> held_back = log_limit_.Passes(one.key);
    if (!held_back.has_value()) return;
    lines += LogLine(*rules_, one.key, one.logged, *held_back);
  }

  NfReport report() const override {
    NfReport report;
    if (hits_.has_value()) {
      std::vector<FirewallHits> hits(rules_->size() + 1);
      hits_->for_each([&](uint64_t rule, const FirewallHits& of) {
        if (rule < hits.size()) hits[static_cast<size_t>(rule)] = of;
      });
      report.tables.push_back(RuleHitsTable(
          *rules_, kFirewallActions[static_cast<size_t>(otherwise_)],
          counted_rules_, hits));
    }
    if (logged_.has_value()) ReportLog(report);
    return report;
  }

 private:
  enum Drop : uint8_t { kDenied, kNoConnection, kRejected };
  static constexpr Nanos kLinger = Seconds(30);

  // The answer of the rules; `rule` is their number if none matched.
  struct Decision {
    Action action;
    uint32_t rule;
  };
  // The subject of a decision: packets that begin a connection or take one up,
  // in each direction, or the connection.
  enum Place : uint8_t {
    kBeginsForward,
    kTakesUpForward,
    kBeginsReverse,
    kTakesUpReverse,
    kConnection,
    kPlaces
  };
  // The rule of each decision.
  struct RulesOfFlow {
    std::array<uint32_t, kPlaces> rules;
  };

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

  // `kind` is kBegins or kTakesUp.
  static Place PlaceOf(const Packet& packet, Kind kind) {
    const int begins = IsReverse(packet) ? kBeginsReverse : kBeginsForward;
    return static_cast<Place>(begins + (kind == Kind::kTakesUp ? 1 : 0));
  }

  static Verdict VerdictOf(Action action) {
    if (action == Action::kDeny) return Verdict::drop(kDenied);
    if (action == Action::kReject) return Verdict::drop(kRejected);
    return Verdict::forward(action == Action::kMark ? 1 : 0);
  }

  // Decides about a packet that is in no connection and makes none.
  Verdict PassOther(const Packet& packet, const Connection& connection,
                    FlowState& flow) {
    if (connection.denied != 0) return Verdict::drop(kDenied);
    const Decision decision = Decide(packet, flow);
    if (decision.action != Action::kReject) return VerdictOf(decision.action);
    return Refuse(true, packet, flow);
  }

  Verdict Refuse(bool rejects, const Packet& packet, FlowState& flow) {
    if (!rejects) return Verdict::drop(kDenied);
    Answer(packet, flow);
    return Verdict::drop(kRejected);
  }

  // Tells the sender that the packet was rejected, if it may be told.
  void Answer(const Packet& packet, FlowState& flow) {
    if (packet.side() == Side::kOutside) return;
    const int64_t now_ns = packet.arrival().ns;
    if (flow.has(*answered_) &&
        now_ns - flow.get(*answered_) < kAnswerPeriod.ns) {
      return;
    }
    const LinkType link = packet.link();
    const bool is_tcp = packet.headers().l4_protocol == IpProtocol::kTcp;
    const bool is_sent =
        is_tcp ? flow.emit(
                     TcpReset(link, packet.bytes(), packet.headers()).frame())
               : flow.emit(IcmpError::Prohibited(link, packet.bytes(),
                                                 packet.headers())
                               .frame());
    if (!is_sent) return;
    count(is_tcp ? resets_ : errors_);
    flow.put(*answered_, now_ns);
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

  // Returns what the first rule that matches says, or else the default.
  Decision Decide(const Packet& packet, FlowState& flow) {
    const Decision decision = AskRules(packet, otherwise_, flow);
    if (decision.rule == rules_->size()) count(by_default_);
    return decision;
  }

  Decision DecideOnLink(const Packet& packet, FlowState& flow) {
    const Decision decision = AskRules(packet, Action::kAllow, flow);
    if (decision.rule == rules_->size()) count(link_);
    return decision;
  }

  Decision AskRules(const Packet& packet, Action otherwise, FlowState& flow) {
    const uint32_t rule =
        rules_->Find(FieldsOf(packet.bytes(), packet.headers()));
    Decision decision = {.action = otherwise, .rule = rules_->size()};
    if (rule != RuleTable::kNoRule) {
      decision = {.action = rules_->action(rule), .rule = rule};
      count(by_rule_[static_cast<size_t>(decision.action)]);
      if (rules_->is_logged(rule)) Log(packet, rule, flow);
    }
    if (hits_.has_value()) {
      hits_->update(decision.rule, HitOf(1, packet));
    }
    return decision;
  }

  void Log(const Packet& packet, uint32_t rule, FlowState& flow) {
    const FirewallLogRecord record = {
        {.ends = FiveTuple(packet.bytes(), packet.headers(), false),
         .time_ns = static_cast<uint64_t>(packet.arrival().ns),
         .rule = rule},
        {.times = packet.wire_packets(), .bytes = packet.wire_bytes()}};
    flow.log(*log_id_, std::as_bytes(std::span(&record, 1)));
    logged_->update(record.key, record.logged);
  }

  void NoteRule(uint32_t rule, Place place, FlowState& flow) const {
    if (!rules_of_.has_value()) return;
    RulesOfFlow of = flow.get(*rules_of_);
    of.rules[place] = rule;
    flow.put(*rules_of_, of);
  }

  // Counts a packet about which the rules are not asked again.
  void CountAgain(const Packet& packet, Place place, const FlowState& flow) {
    if (!hits_.has_value()) return;
    const uint64_t rule = flow.get(*rules_of_).rules[place];
    hits_->update(rule, HitOf(0, packet));
  }

  static FirewallHits HitOf(uint64_t times, const Packet& packet) {
    return {.times = times,
            .packets = packet.wire_packets(),
            .bytes = packet.wire_bytes(),
            .last_ns = static_cast<uint64_t>(packet.arrival().ns)};
  }

  void ReportLog(NfReport& report) const {
    FirewallLog log;
    logged_->for_each(
        [&log](const FirewallLogKey& key, const FirewallLogged& logged) {
          log.emplace_back(key, logged);
        });
    const uint64_t over_rate = LimitLog(log_rate_, log);
    report.tables.push_back(
        {.title = "Log of rules",
         .columns = {"decisions", "over_log_rate", "over_max_log"},
         .rows = {{uint64_t{log.size()}, over_rate, logged_->rest().times}}});
    if (log_.empty()) return;
    std::string lines;
    for (const auto& [key, logged] : log)
      lines += LogLine(*rules_, key, logged);
    report.files.push_back({log_, std::move(lines)});
  }

  std::shared_ptr<const FirewallRules> rules_;
  Action otherwise_;
  bool strict_;
  Nanos tcp_timeout_;
  Nanos tcp_transitory_timeout_;
  size_t counted_rules_;
  std::string log_;
  uint64_t log_rate_;
  Slot<Connection> connection_ = declare<Connection>("connection");
  // When the flow's sender was told last, as Instant::ns; only with reject.
  std::optional<Slot<int64_t>> answered_;
  std::optional<Slot<RulesOfFlow>> rules_of_;  // with counts
  std::optional<SharedTable<uint64_t, FirewallHits>> hits_;
  std::optional<SharedTable<FirewallLogKey, FirewallLogged>> logged_;
  std::optional<LogId> log_id_;  // with logged_
  FirewallLogLimit log_limit_{log_rate_};
  std::array<Counter, 4> by_rule_ = {
      declare_counter("allowed", "times that a rule allowed"),
      declare_counter("denied", "times that a rule denied"),
      declare_counter("rejected", "times that a rule rejected"),
      declare_counter("marked", "times that a rule marked")};
  Counter by_default_ = declare_counter("by_default", "no rule matched");
  Counter link_ = declare_counter(
      "ipv6_link", "ICMPv6 of the link that passed, as no rule matched");
  Counter resets_ = declare_counter("resets", "TCP resets sent");
  Counter errors_ =
      declare_counter("icmp_errors", "ICMP errors sent: prohibited");
  Counter connections_ = declare_counter("connections", "begun or taken up");
};
SNF_REGISTER_NF(
    Firewall, "firewall",
    "stateful packet filter: ordered rules, allow, deny, reject, mark");

}  // namespace
}  // namespace snf
