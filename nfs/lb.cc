// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/answers/answers.h"
#include "base/packet/flow_key.h"
#include "base/packet/l4_headers.h"
#include "base/packet/rewrite.h"
#include "nfs/lb_checked_nf.h"
#include "nfs/lb_options.h"
#include "nfs/lb_packet.h"
#include "nfs/lb_probe.h"
#include "nfs/lb_tunnel.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

using Tcp = TcpHeader<const std::byte>;

enum LbDrop : uint8_t {
  kMalformed,      // layer 4 is malformed, or ends in the midst of its header
  kFragmentEarly,  // a later fragment of an unknown packet
  kNoService,      // to a virtual address, but to no service
  kNoServer,       // no server is up
  kServerRemoved,  // a TCP connection whose server is removed or down
  kTooLong,        // for the MTU, behind outer headers
  kNoRoom,         // for outer headers, in the packet's buffer
  kLinkUnsuited,   // the link header cannot stand in front of outer headers
};
constexpr std::array<std::string_view, 8> kDropNames = {
    "malformed",      "fragment_early", "no_service", "no_server",
    "server_removed", "too_long",       "no_room",    "link_unsuited"};

// The state of a flow, which is a connection as its client sees it.
struct Connection {
  enum Seen : uint8_t {
    kClientSpoke = 1,  // a packet other than the first SYN
    kServerSpoke = 2,
    kClientFin = 4,
    kServerFin = 8,
    kReset = 16,
    kHasSequence = 32,
  };

  uint32_t syn_sequence = 0;  // of the client, if kHasSequence
  uint16_t server = 0;        // its index
  uint16_t seen = 0;          // a sum of Seen

  bool has(uint16_t what) const { return (seen & what) == what; }
  friend bool operator==(const Connection&, const Connection&) = default;
};
static_assert(sizeof(Connection) == 8);

// Theory of operation. A load balancer of layer 4, for TCP and UDP over IPv4
// and IPv6. Clients send to a virtual end, an address and port; each connection
// goes to one of the service's servers. Packets are rewritten both ways: the
// destination to the server's end, the source of the answers to the virtual
// end.
//
// A flow is a connection as the client sees it: the key of an answer has the
// virtual end in place of the server's. It depends on the options
// alone, so answers, ICMP errors and fragments find their connection at any
// controller, and no table of ports is needed.
//
// The first packet of a connection chooses the server, by Maglev hashing
// (lb_maglev.h), and the flow's state keeps it. A packet without state, as
// after a failure, finds the same server by the same hash, as long as the
// servers have not changed.
//
// With forward=ipip or gue, packets reach servers unchanged behind outer
// headers (lb_tunnel.h), and servers answer clients themselves, as of the
// virtual end. Then half of each connection is seen, and no answer.
//
// With check=tcp or http, clients' packets carry health checks along
// (lb_health.h, lb_probe.h): beside one of them, a check leaves for each server
// once a round. A new connection whose server is down is hashed again, until a
// server is up, so that connections of other servers stay where they are.
//
// Example: virtual=192.0.2.10:80, servers=10.0.0.1:8080+10.0.0.2:8080. The SYN
// of 203.0.113.9:5000 to 192.0.2.10:80 goes to 10.0.0.2:8080, say. Its answer
// from there to 203.0.113.9:5000 leaves as of 192.0.2.10:80. From the time that
// drain=10.0.0.2 is given, new connections go to 10.0.0.1, and this one stays.
class LoadBalancer final : public CheckedNf {
 public:
  explicit LoadBalancer(NfOptions& options) : options_(options) {
    if (options_.health.is_on()) DeclareHealth();
    std::vector<std::string> names;
    for (const LbServer& server : options_.servers) {
      names.push_back(NameOf(server.end));
    }
    by_server_ = DeclareForEach(names, "connections begun at the server");
  }

  FlowScope flow_scope() const override { return FlowScope::kOwnKey; }

  // An answer that was not rewritten would show the server's address.
  bool is_barrier() const override { return true; }
  // Through a tunnel packets get longer.
  bool takes_merged() const override { return !is_direct(); }

  OwnFlow flow_key(const KeyedPacket& packet) const override {
    const FlowKey& key = packet.connection;
    const bool is_forward = packet.direction == Direction::kForward;
    const LbEnd source = EndOf(key.source, key.source_port, key);
    const LbEnd destination = EndOf(key.destination, key.destination_port, key);
    const LbEnd& from = is_forward ? source : destination;
    const LbEnd& to = is_forward ? destination : source;
    if (options_.IsVirtual(to.address)) {
      return {.key = key, .side = Side::kInside};
    }
    OwnFlow flow = {.key = key, .is_answer = IsToChecker(from, to)};
    if (is_direct() || !options_.IsServer(from.address)) return flow;
    if (IsFragment(key)) return {.key = key, .side = Side::kOutside};
    const std::optional<uint16_t> server = options_.ServerOf(from);
    if (!server.has_value()) return flow;
    const LbEnd& virtual_end =
        options_.services[options_.servers[*server].service].end;
    flow.side = Side::kOutside;
    (is_forward ? flow.key.source : flow.key.destination) = virtual_end.address;
    (is_forward ? flow.key.source_port : flow.key.destination_port) =
        virtual_end.port;
    Canonicalize(flow.key);
    return flow;
  }

  std::span<const std::string_view> drop_reasons() const override {
    return kDropNames;
  }

  Verdict process_packet(Packet& packet, FlowState& flow) override {
    const LbView view = ReadLbPacket(packet);
    if (IsToChecker(view.from, view.to)) {
      return CheckAnswer(packet, view, flow);
    }
    if (options_.IsVirtual(view.to.address)) {
      return ToServer(packet, view, flow);
    }
    if (is_direct() || !options_.IsServer(view.from.address)) return PassBy();
    return ToClient(packet, view, flow);
  }

  bool has_states() const override { return true; }

  std::vector<NfState> states(Instant now) const override {
    std::vector<NfState> states;
    for (uint16_t i = 0; i < options_.servers.size(); ++i) {
      states.push_back(StateOf(i, now));
    }
    // If there are too many states, the last ones are left out.
    std::ranges::stable_partition(
        states, [](const NfState& one) { return one.state != "up"; });
    return states;
  }

 private:
  // Returns true if servers answer their clients themselves.
  bool is_direct() const { return options_.forward != LbForward::kRewrite; }

  static bool IsFragment(const FlowKey& key) {
    return key.form == FlowKeyForm::kIpv4Fragment ||
           key.form == FlowKeyForm::kIpv6Fragment;
  }
  static LbEnd EndOf(const IpAddress& address, be16 port, const FlowKey& key) {
    const bool is_ipv6 = key.form == FlowKeyForm::kIpv6 ||
                         key.form == FlowKeyForm::kIpv6Fragment;
    return {address, port, key.protocol, is_ipv6};
  }

  Verdict PassBy() {
    count(passed_by_);
    return Verdict::forward();
  }

  // --- From clients --------------------------------------------------------

  Verdict ToServer(Packet& packet, const LbView& view, FlowState& flow) {
    if (view.is_malformed) return Verdict::drop(kMalformed);
    const bool has_state = flow.has(connection_);
    if (view.is_error) return ErrorToServer(packet, view, flow);
    if (has_checks()) SendChecks(packet, flow);
    if (view.is_later_fragment) {
      if (!has_state) return Verdict::drop(kFragmentEarly);
      return Forward(packet, view, flow.get(connection_).server, flow);
    }
    const std::optional<uint16_t> service = options_.ServiceOf(view.to);
    if (!service.has_value()) return Verdict::drop(kNoService);
    const LbServers& servers = options_.AsOf(packet.arrival());
    const Connection before = flow.get(connection_);
    Connection now = before;
    bool is_known = has_state;
    if (is_known && view.is_syn() && !IsRepeated(view, before)) {
      is_known = false;
      count(reused_);
    }
    if (is_known && servers.use(before.server) == LbServers::Use::kNone) {
      if (view.has_tcp && !view.is_syn()) {
        if (options_.resets) return Reset(packet, before, flow);
      } else {
        is_known = false;
        count(moved_);
      }
    }
    if (is_known && !view.has_tcp && has_checks() &&
        Choose(servers, *service, view, packet.arrival(), before.server) !=
            before.server) {
      is_known = false;
      count(moved_);
    }
    const std::optional<uint16_t> by_id =
        ByConnectionId(packet, view, *service, servers);
    if (by_id.has_value() && (!is_known || *by_id != before.server)) {
      now = {.server = *by_id};
      count(by_connection_id_);
      Begin(now);
    } else if (!is_known) {
      const MaglevTable& table = servers.table(*service);
      if (table.empty()) return Verdict::drop(kNoServer);
      now = {.server = Choose(servers, *service, view, packet.arrival())};
      if (servers.uses_draining(*service)) count(draining_used_);
      // A reset begins nothing.
      if (view.has_tcp && (view.tcp_flags & Tcp::kRst) != 0) {
        return Forward(packet, view, now.server, flow);
      }
      Begin(now);
    }
    if (view.has_tcp) {
      if (view.is_syn()) {
        now.syn_sequence = view.tcp_sequence;
        now.seen |= Connection::kHasSequence;
      } else {
        now.seen |= Connection::kClientSpoke;
      }
      Follow(view, Connection::kClientFin, now);
    }
    Keep(before, has_state, now, view, flow);
    return Forward(packet, view, now.server, flow);
  }

  // Brings an error about an answer to the server that sent it; it begins and
  // changes nothing.
  Verdict ErrorToServer(Packet& packet, const LbView& view, FlowState& flow) {
    uint16_t server = flow.get(connection_).server;
    if (!flow.has(connection_)) {
      const std::optional<uint16_t> service = options_.ServiceOf(view.to);
      if (!service.has_value()) return Verdict::drop(kNoService);
      const LbServers& servers = options_.AsOf(packet.arrival());
      if (servers.table(*service).empty()) return Verdict::drop(kNoServer);
      server = Choose(servers, *service, view, packet.arrival());
    }
    count(errors_);
    return Forward(packet, view, server, flow);
  }

  Verdict Forward(Packet& packet, const LbView& view, uint16_t server,
                  FlowState& flow) {
    const LbEnd& end = options_.servers[server].end;
    if (is_direct()) return Encapsulate(packet, view, end, flow);
    if (packet.headers().l3 == L3::kIpv4) {
      RewriteDestination(packet.bytes(), packet.headers(), end.address.ipv4(),
                         end.port);
    } else {
      RewriteDestination(packet.bytes(), packet.headers(), end.address,
                         end.port);
    }
    return Verdict::forward();
  }

  Verdict Encapsulate(Packet& packet, const LbView& view, const LbEnd& server,
                      FlowState& flow) {
    const LbOuterHeaders outer(options_, server, packet,
                               EntropyOf(view.from, view.to));
    switch (packet.prepend(outer.bytes(), options_.mtu)) {
      case PacketResize::kDone:
        return Verdict::forward();
      case PacketResize::kTooLong: {
        const size_t outer_bytes = LbOuterBytes(options_, server.is_ipv6);
        const IcmpError answer = IcmpError::TooBig(
            packet.link(), packet.bytes(), packet.headers(),
            options_.mtu - static_cast<uint32_t>(outer_bytes));
        if (flow.emit(answer.frame())) count(too_big_);
        return Verdict::drop(kTooLong);
      }
      case PacketResize::kNoRoom:
        return Verdict::drop(kNoRoom);
      default:
        return Verdict::drop(kLinkUnsuited);
    }
  }

  static uint64_t EntropyOf(const LbEnd& client, const LbEnd& virtual_end) {
    FlowKey key;
    key.source = client.address;
    key.destination = virtual_end.address;
    key.source_port = client.port;
    key.destination_port = virtual_end.port;
    key.form = client.is_ipv6 ? FlowKeyForm::kIpv6 : FlowKeyForm::kIpv4;
    return Hash(key);
  }

  // Returns true if the connection's own SYN was sent once more.
  static bool IsRepeated(const LbView& view, const Connection& connection) {
    return connection.has(Connection::kHasSequence) &&
           connection.syn_sequence == view.tcp_sequence;
  }

  Verdict Reset(const Packet& packet, const Connection& before,
                FlowState& flow) {
    const TcpReset reset(packet.link(), packet.bytes(), packet.headers());
    if (flow.emit(reset.frame())) count(resets_);
    if (!before.has(Connection::kReset)) {
      Connection now = before;
      now.seen |= Connection::kReset;
      flow.put(connection_, now);
      flow.set_idle_timeout(options_.tcp_closing_timeout);
    }
    return Verdict::drop(kServerRemoved);
  }

  std::optional<uint16_t> ByConnectionId(const Packet& packet,
                                         const LbView& view, uint16_t service,
                                         const LbServers& servers) const {
    if (options_.quic_id_bytes == 0 || view.to.protocol != IpProtocol::kUdp) {
      return std::nullopt;
    }
    const ParsedPacket& headers = packet.headers();
    const std::optional<uint32_t> id = QuicServerId(
        packet.bytes().subspan(headers.payload_offset, headers.payload_bytes()),
        options_.quic_id_bytes);
    if (!id.has_value()) return std::nullopt;
    const std::optional<uint16_t> server = options_.ServerOf(service, *id);
    if (!server.has_value() || servers.use(*server) == LbServers::Use::kNone) {
      return std::nullopt;
    }
    if (!IsUp(packet.arrival(), *server)) return std::nullopt;
    return server;
  }

  uint64_t HashOf(const LbEnd& client, const LbEnd& virtual_end) const {
    FlowKey key;
    key.source = client.address;
    key.form = client.is_ipv6 ? FlowKeyForm::kIpv6 : FlowKeyForm::kIpv4;
    if (options_.affinity == LbAffinity::kNone) {
      key.source_port = client.port;
      key.destination = virtual_end.address;
      key.destination_port = virtual_end.port;
      key.protocol = virtual_end.protocol;
    }
    return Hash(key);
  }

  // --- Health --------------------------------------------------------------

  void DeclareHealth() {
    std::vector<LbEnd> targets;
    for (const LbServer& server : options_.servers) {
      targets.push_back(Target(server.end));
    }
    DeclareChecks(
        options_.health, std::move(targets),
        {.many = "servers", .one = "a server", .other = "another server"});
  }

  // The end to which a server's checks go.
  LbEnd Target(LbEnd end) const {
    end.protocol = IpProtocol::kTcp;
    if (options_.health.port != 0) end.port = be16(options_.health.port);
    return end;
  }
  NfState StateOf(uint16_t server, Instant now) const {
    NfState state = {.object = NameOf(options_.servers[server].end),
                     .state = "up",
                     .since = options_.UseSince(server, now)};
    const LbServers::Use use = options_.AsOf(now).use(server);
    if (use == LbServers::Use::kNone) {
      state.state = "down";
      state.why = "removed, or down by option";
      return state;
    }
    if (use == LbServers::Use::kDraining) state.state = "draining";
    AddHealth(now, server, use == LbServers::Use::kDraining, state);
    return state;
  }

  static std::string NameOf(const LbEnd& end) {
    return absl::StrCat(end.protocol == IpProtocol::kTcp ? "tcp " : "udp ",
                        InWords(end));
  }

  // Chooses the server of a connection. A server that is down is chosen only if
  // all of the service's are. Without health checks, and while `preferred` is
  // up, `preferred` stays.
  uint16_t Choose(const LbServers& servers, uint16_t service,
                  const LbView& view, Instant now,
                  std::optional<uint16_t> preferred = std::nullopt) {
    const uint64_t hash = HashOf(view.from, view.to);
    const MaglevTable& table = servers.table(service);
    const uint16_t first = preferred.value_or(table.Find(hash));
    if (IsUp(now, first)) return first;
    const std::optional<uint16_t> other =
        FindUp(now, table, hash, [&](uint16_t server) {
          return options_.servers[server].service == service &&
                 servers.use(server) == servers.use(first);
        });
    if (other.has_value()) {
      CountAvoided();
    } else {
      CountAllDown();
    }
    return other.value_or(first);
  }

  void SendChecks(const Packet& packet, FlowState& flow) {
    const LbServers& servers = options_.AsOf(packet.arrival());
    const auto is_used = [&servers](uint16_t server) {
      return servers.use(server) != LbServers::Use::kNone;
    };
    CheckedNf::SendChecks(packet, LbProbe::Way::kOn, is_used, flow);
  }

  // Returns true for what a server sends to the source of checks.
  bool IsToChecker(const LbEnd& from, const LbEnd& to) const {
    return IsToChecks(to) && options_.IsServer(from.address);
  }

  Verdict CheckAnswer(const Packet& packet, const LbView& view,
                      FlowState& flow) {
    flow.end();
    if (view.is_error) return Verdict::consume();
    return TakeAnswer(packet, view.from, flow);
  }

  // --- From servers --------------------------------------------------------

  Verdict ToClient(Packet& packet, const LbView& view, FlowState& flow) {
    const bool has_state = flow.has(connection_);
    const Connection before = flow.get(connection_);
    std::optional<uint16_t> server = options_.ServerOf(view.from);
    // Only a connection with a service has state.
    if (view.is_later_fragment && has_state) server = before.server;
    if (!server.has_value()) return PassBy();
    if (view.is_malformed) return Verdict::drop(kMalformed);
    const bool is_followed =
        has_state && *server == before.server && !view.is_later_fragment;
    // The later fragments show no port.
    const bool begins_fragments =
        !has_state && packet.headers().fragment == Fragment::kFirst;
    if (!view.is_error && (is_followed || begins_fragments)) {
      Connection now = before;
      now.server = *server;
      now.seen |= Connection::kServerSpoke;
      if (view.has_tcp) Follow(view, Connection::kServerFin, now);
      Keep(before, has_state, now, view, flow);
    }
    const LbEnd& end = options_.services[options_.servers[*server].service].end;
    if (packet.headers().l3 == L3::kIpv4) {
      RewriteSource(packet.bytes(), packet.headers(), end.address.ipv4(),
                    end.port);
    } else {
      RewriteSource(packet.bytes(), packet.headers(), end.address, end.port);
    }
    return Verdict::forward();
  }

  // --- State ---------------------------------------------------------------

  void Begin(const Connection& connection) {
    count(connections_);
    if (!by_server_.empty()) count(by_server_[connection.server]);
  }

  static void Follow(const LbView& view, Connection::Seen fin,
                     Connection& connection) {
    if ((view.tcp_flags & Tcp::kFin) != 0) connection.seen |= fin;
    if ((view.tcp_flags & Tcp::kRst) != 0) {
      connection.seen |= Connection::kReset;
    }
  }

  Nanos TimeoutOf(const Connection& connection, bool is_tcp) const {
    // Direct answers of servers are not seen.
    const uint16_t open =
        is_direct() ? Connection::kClientSpoke
                    : Connection::kClientSpoke | Connection::kServerSpoke;
    const uint16_t over = is_direct()
                              ? Connection::kClientFin
                              : Connection::kClientFin | Connection::kServerFin;
    if (!is_tcp) return options_.udp_timeout;
    if (connection.has(Connection::kReset) || connection.has(over)) {
      return options_.tcp_closing_timeout;
    }
    return connection.has(open) ? options_.tcp_timeout
                                : options_.tcp_opening_timeout;
  }

  void Keep(const Connection& before, bool has_state, const Connection& now,
            const LbView& view, FlowState& flow) const {
    if (has_state && now == before) return;
    flow.put(connection_, now);
    const Nanos timeout = TimeoutOf(now, view.has_tcp);
    if (!has_state || timeout != TimeoutOf(before, view.has_tcp)) {
      flow.set_idle_timeout(timeout);
    }
  }

  LbOptions options_;
  Slot<Connection> connection_ = declare<Connection>("connection");
  Counter connections_ = declare_counter("connections", "begun");
  Counter reused_ = declare_counter(
      "reused", "begun again by a SYN with the ends of an older connection");
  Counter moved_ = declare_counter(
      "moved", "given another server, since theirs was removed or down");
  Counter resets_ = declare_counter(
      "resets", "sent to clients whose server was removed or down");
  Counter too_big_ = declare_counter(
      "too_big", "ICMP errors sent about packets too long for the servers");
  Counter by_connection_id_ =
      declare_counter("by_connection_id",
                      "begun at the server that a QUIC connection id names");
  Counter draining_used_ =
      declare_counter("draining_used", "begun while no server was active");
  Counter errors_ =
      declare_counter("icmp_errors", "ICMP errors brought to servers");
  Counter passed_by_ = declare_counter(
      "passed_by", "packets neither to a virtual address nor from a server");
  std::vector<Counter> by_server_;  // empty if there are many
};
SNF_REGISTER_NF(LoadBalancer, "lb",
                "load balancer of TCP and UDP, by Maglev hashing");

}  // namespace
}  // namespace snf
