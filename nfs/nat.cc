// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/answers/answers.h"
#include "base/ipfix/ipfix_log.h"
#include "base/packet/endpoint.h"
#include "base/packet/ip_headers.h"
#include "base/packet/rewrite.h"
#include "nfs/nat_ipv6.h"
#include "nfs/nat_log.h"
#include "nfs/nat_options.h"
#include "nfs/nat_other.h"
#include "nfs/nat_packet.h"
#include "nfs/nat_peers.h"
#include "nfs/nat_ports.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

// The rule for the lifetime of a mapping. kTcpPinned means that an established
// connection has lost its place among the peers.
enum class Lifetime : uint8_t {
  kUdp,
  kIcmp,
  kTcpTransitory,
  kTcpEstablished,
  kTcpPinned,
};

struct Mapping {
  be32 inside_address;
  be32 external_address;
  be16 inside_port;
  be16 external_port;  // 0: there is no mapping
  uint16_t pool = 0;
  IpProtocol protocol{};
  Lifetime lifetime{};

  static constexpr uint16_t kFixed = 0xffff;  // the pool of forwards

  explicit operator bool() const { return external_port != be16(0); }
  bool is_fixed() const { return pool == kFixed; }
  NatEnd inside() const { return {inside_address, inside_port}; }
  NatEnd external() const { return {external_address, external_port}; }
};
static_assert(sizeof(Mapping) == 16);

// Theory of operation. A network address and port translator for IPv4: TCP,
// UDP, ICMP queries, and errors about them (RFC 4787, 5382, 5508, 7857;
// nfs/nat.md says how each of their requirements is met).
//
// A flow is one inside endpoint, so endpoint-independent mapping is simply the
// flow's state: the mapping that the endpoint's first packet makes. Its
// external port is a piece of the pool of its external address and protocol;
// its external endpoint is the flow's alias, by which the answers find it. The
// mapping ends with the flow, or when an inbound packet finds it expired. With
// other=pass, a flow of IPv6 has no mapping, and its own end is its alias. With
// nat64, one has (nat_ipv6.h).
//
// Options may give external ends to inside ends, and exempt networks from
// translation (nat_static.h). flow_key then tells the flow of a packet from the
// outside, without an alias.
//
// Example: 10.0.0.1:5000 sends UDP to 192.0.2.9:53. The NF takes port 5000 of
// 198.51.100.1, or the next even port that its unit has, say 5002, sets the
// alias 198.51.100.1:5002, and rewrites the source. A packet that comes to that
// endpoint within the next 300 s is rewritten to 10.0.0.1:5000.
class Nat final : public NetworkFunction, public IpfixLog {
 public:
  explicit Nat(NfOptions& options) : options_(options) {
    // The kept packet is only needed to answer for a refused alias.
    if (options_.host_ports > 0) {
      refused_ = declare_blob("refused", kRefusedBytes, BlobUse::kSeldom);
    }
    // Records and reports do not grow without the option.
    if (options_.passes_other || options_.fixed.has_exempt()) {
      untranslated_ = declare<uint8_t>("untranslated");
      passed_ = declare_counter("passed", "packets that are left untranslated");
    }
    if (options_.nat64.has_value()) {
      inside6_ = declare<IpAddress>("inside6");
      too_big_ = declare_counter(
          "too_big", "senders told that NAT64 makes their packets too long");
    }
    if (options_.logs_bindings)
      log_ = declare_log("bindings",
                         "mappings that begin, end or are refused, as JSON");
  }

  FlowScope flow_scope() const override { return FlowScope::kInsideEndpoint; }

  // Options tell the inside end of a packet to a forward, and between exempt
  // networks.
  bool tells_inside_ends() const override {
    return options_.fixed.has_forwards() || options_.fixed.has_exempt();
  }
  OwnFlow flow_key(const KeyedPacket& packet) const override {
    const FlowKey& connection = packet.connection;
    if (!tells_inside_ends() || connection.form != FlowKeyForm::kIpv4) {
      return {.key = connection};
    }
    const Endpoints ends = EndpointsOf(connection, packet.direction);
    const NatEnd to = {ends.to.source.ipv4(), ends.to.source_port};
    if (options_.fixed.IsExempt(to.address, ends.from.source.ipv4())) {
      return {.key = ends.to, .side = Side::kOutside};
    }
    const auto inside = options_.fixed.InsideOf(to, connection.protocol);
    if (!inside.has_value()) return {.key = connection};
    OwnFlow flow = {.key = ends.to, .side = Side::kOutside};
    flow.key.source = IpAddress::FromIpv4(inside->address);
    flow.key.source_port = inside->port;
    return flow;
  }

  bool is_barrier() const override { return true; }
  // A packet that changes its version of IP changes its size.
  bool takes_merged() const override { return !options_.nat64.has_value(); }

  std::span<const std::string_view> drop_reasons() const override {
    return std::span(kNatDropNames).subspan(1);
  }

  Verdict process_packet(Packet& packet, FlowState& flow) override {
    if (options_.nat64.has_value() && packet.side() == Side::kInside &&
        GoesTo(*options_.nat64, packet)) {
      return OutboundIpv6(packet, flow);
    }
    if (options_.passes_other && packet.headers().l3 != L3::kIpv4) {
      return Drop(PassOther(packet, flow));
    }
    NatView view;
    const NatDrop drop = ReadPacket(packet, view);
    if (IsExempt(packet, view, drop)) {
      FollowUntranslated(packet, view.tcp_flags, flow);
      return Verdict::forward();
    }
    if (drop != NatDrop::kNone) return Drop(drop);
    switch (packet.side()) {
      case Side::kInside:
        return Outbound(packet, view, flow);
      case Side::kOutside:
        return Drop(Inbound(packet, view, flow));
      default:
        return Drop(NatDrop::kSideUnknown);
    }
  }

  bool may_wait(const FlowState& flow) const override {
    const bool is_untranslated = !options_.fixed.has_exempt() &&
                                 untranslated_.has_value() &&
                                 flow.has(*untranslated_);
    return !is_untranslated && !flow.get(mapping_);
  }

  void on_end(FlowState& flow) override { GiveBack(flow); }
  void write_record(const LogRecord& record, std::string& lines) override {
    WriteBinding(record, lines);
  }
  bool has_ipfix() const override { return log_.has_value(); }
  std::span<const IpfixField> write_ipfix(const LogRecord& record,
                                          std::string& values) const override {
    return WriteBindingIpfix(record, values);
  }

  void on_alias_refused(FlowState& flow, AliasResult why) override {
    if (why == AliasResult::kGroupFull) count(over_host_ports_);
    if (refused_.has_value()) {
      if (why == AliasResult::kGroupFull) RefuseKept(flow);
      flow.erase(*refused_);
    }
    Forget(flow);
  }

 private:
  static constexpr uint32_t kRefusedBytes = 128;
  static constexpr uint32_t kMaxIpv4Bytes = 65'535;

  static Verdict Drop(NatDrop drop) {
    if (drop == NatDrop::kNone) return Verdict::forward();
    return Verdict::drop(static_cast<uint8_t>(drop) - 1);
  }

  // --- External addresses --------------------------------------------------

  bool IsExternal(be32 address) const {
    return std::ranges::binary_search(options_.addresses, address) ||
           options_.fixed.IsExternal(address);
  }

  // --- From the inside -----------------------------------------------------

  Verdict Outbound(Packet& packet, const NatView& view, FlowState& flow) {
    Mapping mapping = flow.get(mapping_);
    if (view.is_icmp_error) return Drop(OutboundError(packet, view, mapping));
    if (!mapping) {
      const NatDrop drop = MayMap(view);
      if (drop != NatDrop::kNone) return Drop(drop);
      const std::optional<Verdict> failed = Map(packet, view, flow, mapping);
      if (failed.has_value()) return *failed;
    } else if (refused_.has_value() && flow.has(*refused_)) {
      flow.erase(*refused_);  // it was granted
    }
    // A reset usually answers a packet from outside, so it does not keep the
    // mapping (RFC 7857 §7.1).
    if (!view.is_reset()) flow.put(refreshed_, packet.arrival().ns);
    if (KeepsPeers(view)) {
      NatPeers peers(flow, peers_, packet.arrival());
      Follow(peers.Sent(view), peers, mapping, flow);
    }
    if (packet.headers().l3 == L3::kIpv6) {
      const NatDrop drop = Translate(packet, mapping, flow, kMaxIpv4Bytes);
      if (drop != NatDrop::kNone) return Drop(drop);
    }
    RewriteSource(packet.bytes(), packet.headers(), mapping.external_address,
                  mapping.external_port);
    return Verdict::forward();
  }

  NatDrop MayMap(const NatView& view) const {
    if (IsExternal(view.source.address)) return NatDrop::kFromExternal;
    const bool is_answer =
        view.protocol == IpProtocol::kIcmp && !view.is_icmp_request;
    return view.is_later_fragment || view.is_reset() || is_answer
               ? NatDrop::kNoMapping
               : NatDrop::kNone;
  }

  // Makes the mapping, or returns the verdict on a packet that gets none.
  std::optional<Verdict> Map(const Packet& packet, const NatView& view,
                             FlowState& flow, Mapping& mapping) {
    if (MapFixed(view.source, view.protocol, flow, mapping)) {
      return std::nullopt;
    }
    const std::optional<size_t> found = ports_.AddressOf(view);
    if (!found.has_value()) return Drop(NatDrop::kNotSubscriber);
    const size_t address = *found;
    const NatPorts::Taken taken = ports_.Take(address, view, flow);
    if (!taken.port.has_value()) {
      if (taken.pool.has_value()) return Verdict::wait(*taken.pool);
      RefuseForWantOfPorts(packet, view, options_.addresses[address], flow);
      return Drop(NatDrop::kPortsExhausted);
    }
    mapping = {.inside_address = view.source.address,
               .external_address = options_.addresses[address],
               .inside_port = view.source.port,
               .external_port = *taken.port,
               .pool = static_cast<uint16_t>(*taken.pool),
               .protocol = view.protocol,
               .lifetime = FirstLifetime(view.protocol)};
    flow.put(mapping_, mapping);
    if (IsStandIn(mapping.inside_address)) {
      flow.put(*inside6_, Ipv6SourceOf(packet));
    }
    flow.set_alias(KeyOf(mapping.external(), mapping.protocol),
                   view.source.address.host(), options_.host_ports);
    flow.set_idle_timeout(TimeoutOf(mapping.lifetime));
    LogBinding(NatBindingRecord::kCreated, mapping, flow);
    KeepForRefusal(packet, flow);
    return std::nullopt;
  }

  static Lifetime FirstLifetime(IpProtocol protocol) {
    return protocol == IpProtocol::kTcp   ? Lifetime::kTcpTransitory
           : protocol == IpProtocol::kUdp ? Lifetime::kUdp
                                          : Lifetime::kIcmp;
  }

  // Makes the mapping that a forward gives the inside end; returns false if no
  // forward has the end. The options keep the mapping, the flow a copy.
  bool MapFixed(NatEnd inside, IpProtocol protocol, FlowState& flow,
                Mapping& mapping) const {
    const auto external = options_.fixed.ExternalOf(inside, protocol);
    if (!external.has_value()) return false;
    mapping = {.inside_address = inside.address,
               .external_address = external->address,
               .inside_port = inside.port,
               .external_port = external->port,
               .pool = Mapping::kFixed,
               .protocol = protocol,
               .lifetime = FirstLifetime(protocol)};
    flow.put(mapping_, mapping);
    flow.set_alias(KeyOf(mapping.external(), protocol));
    flow.set_idle_timeout(TimeoutOf(mapping.lifetime));
    return true;
  }

  // Translates an ICMP error from the inside. Its outer source becomes the
  // external address, regardless of the sender of the error (RFC 5508 REQ-5).
  // It neither makes nor refreshes a mapping (REQ-6).
  NatDrop OutboundError(Packet& packet, const NatView& view,
                        const Mapping& mapping) const {
    if (!mapping) return NatDrop::kNoMapping;
    if (IsExternal(view.source.address)) return NatDrop::kFromExternal;
    NatView quoted;
    const NatDrop drop = ReadQuoted(packet, quoted);
    if (drop != NatDrop::kNone) return drop;
    if (!IsEnd(quoted.destination, mapping.inside(), quoted, mapping)) {
      return NatDrop::kQuotedNotOurs;
    }
    RewriteSource(packet.bytes(), packet.headers(), mapping.external_address,
                  mapping.external_port);
    return NatDrop::kNone;
  }

  // --- From the outside ----------------------------------------------------

  NatDrop Inbound(Packet& packet, const NatView& view, FlowState& flow) {
    Mapping mapping = flow.get(mapping_);
    if (!mapping && !MapInbound(view, flow, mapping)) {
      return NatDrop::kNoMapping;
    }
    if (view.is_icmp_error) return InboundError(packet, view, mapping, flow);
    if (!IsEnd(view.destination, mapping.external(), view, mapping)) {
      return NatDrop::kNoMapping;
    }
    if (IsExpired(packet, mapping, flow)) {
      Forget(flow);
      flow.end();
      return NatDrop::kMappingExpired;
    }
    NatPeers peers(flow, peers_, packet.arrival());
    if (!Admits(mapping, peers, view.source, view)) return NatDrop::kFiltered;
    if (options_.inbound_refreshes) {
      flow.put(refreshed_, packet.arrival().ns);
    }
    if (KeepsPeers(view)) {
      Follow(peers.Received(view, options_.inbound_refreshes), peers, mapping,
             flow);
    }
    return Deliver(packet, mapping, flow);
  }

  // Makes the mapping of a forward that the packet comes to, if it does.
  bool MapInbound(const NatView& view, FlowState& flow,
                  Mapping& mapping) const {
    if (view.is_icmp_error || view.is_later_fragment) return false;
    const auto inside =
        options_.fixed.InsideOf(view.destination, view.protocol);
    return inside.has_value() &&
           MapFixed(*inside, view.protocol, flow, mapping);
  }

  // Translates an ICMP error from the outside (RFC 5508 REQ-4). It ends no
  // mapping, not even an old one (RFC 4787 REQ-12).
  NatDrop InboundError(Packet& packet, const NatView& view,
                       const Mapping& mapping, FlowState& flow) {
    NatView quoted;
    const NatDrop drop = ReadQuoted(packet, quoted);
    if (drop != NatDrop::kNone) return drop;
    if (view.destination.address != mapping.external_address ||
        !IsEnd(quoted.source, mapping.external(), quoted, mapping)) {
      return NatDrop::kQuotedNotOurs;
    }
    if (IsExpired(packet, mapping, flow)) return NatDrop::kMappingExpired;
    const NatPeers peers(flow, peers_, packet.arrival());
    if (!Admits(mapping, peers, quoted.destination, quoted))
      return NatDrop::kFiltered;
    return Deliver(packet, mapping, flow);
  }

  // Rewrites a packet for the inside end of the mapping.
  NatDrop Deliver(Packet& packet, const Mapping& mapping, FlowState& flow) {
    RewriteDestination(packet.bytes(), packet.headers(), mapping.inside_address,
                       mapping.inside_port);
    if (!IsStandIn(mapping.inside_address)) return NatDrop::kNone;
    const NatDrop drop = Translate(packet, mapping, flow, options_.mtu);
    if (drop == NatDrop::kTooLong) TellTooBig(packet, mapping, flow);
    return drop;
  }

  // --- NAT64 ---------------------------------------------------------------

  Verdict OutboundIpv6(Packet& packet, FlowState& flow) {
    NatView view;
    NatDrop drop = ReadIpv6(*options_.nat64, packet, view);
    if (drop != NatDrop::kNone) return Drop(drop);
    if (!view.is_icmp_error) return Outbound(packet, view, flow);
    const Mapping mapping = flow.get(mapping_);
    if (!mapping) return Drop(NatDrop::kNoMapping);
    drop = Translate(packet, mapping, flow, kMaxIpv4Bytes);
    if (drop != NatDrop::kNone) return Drop(drop);
    return Drop(OutboundError(packet, view, mapping));
  }

  // Translates a packet of a mapping of IPv6 to the other version.
  NatDrop Translate(Packet& packet, const Mapping& mapping,
                    const FlowState& flow, uint32_t mtu) const {
    return DropOf(packet.translate({.prefix = *options_.nat64,
                                    .stand_in = mapping.inside_address,
                                    .inside = flow.get(*inside6_)},
                                   mtu));
  }

  // Tells the sender on the outside the most bytes, if it has asked for that
  // by DF (RFC 7915 §1.4).
  void TellTooBig(Packet& packet, const Mapping& mapping, FlowState& flow) {
    constexpr uint32_t kGrowth = 20;
    const auto ip = Ipv4Header<const std::byte>::At(packet.bytes(),
                                                    packet.headers().l3_offset);
    if (!ip.dont_fragment() || !MayRefuse(packet.arrival(), flow)) return;
    RewriteDestination(packet.bytes(), packet.headers(),
                       mapping.external_address, mapping.external_port);
    const IcmpError answer =
        IcmpError::TooBig(packet.link(), packet.bytes(), packet.headers(),
                          options_.mtu - kGrowth);
    if (!flow.emit(answer.frame())) return;
    count(*too_big_);
    flow.put(answered_, packet.arrival().ns);
  }

  // --- Other than IPv4 -----------------------------------------------------

  // Lets an IPv6 packet pass as it came, or returns why not. The sender's own
  // end is the alias of a flow from the inside, so that answers find the flow.
  NatDrop PassOther(const Packet& packet, FlowState& flow) {
    NatOtherView view;
    const NatDrop drop = ReadOther(packet, view);
    if (drop != NatDrop::kNone) return drop;
    const bool is_inside = packet.side() == Side::kInside;
    if (!is_inside && packet.side() != Side::kOutside) {
      return NatDrop::kSideUnknown;
    }
    const bool is_known = flow.has(*untranslated_);
    if (!view.has_end() || (!is_known && !is_inside)) {
      count(*passed_);
      return NatDrop::kNone;
    }
    if (!is_known) flow.set_alias(view.from);
    FollowUntranslated(packet, view.tcp_flags, flow);
    return NatDrop::kNone;
  }

  // Returns true if the packet, or its quoted packet, goes between exempt
  // networks. `drop` is why it cannot be translated.
  bool IsExempt(const Packet& packet, const NatView& view, NatDrop drop) const {
    if (!options_.fixed.has_exempt()) return false;
    if (drop != NatDrop::kNone && drop != NatDrop::kProtocol) return false;
    const bool is_inside = packet.side() == Side::kInside;
    if (!is_inside && packet.side() != Side::kOutside) return false;
    if (!view.is_icmp_error) {
      return IsExempt(is_inside ? view.source : view.destination,
                      is_inside ? view.destination : view.source);
    }
    NatView quoted;
    if (ReadQuoted(packet, quoted) != NatDrop::kNone) return false;
    return IsExempt(is_inside ? quoted.destination : quoted.source,
                    is_inside ? quoted.source : quoted.destination);
  }
  bool IsExempt(NatEnd inside, NatEnd outside) const {
    return options_.fixed.IsExempt(inside.address, outside.address);
  }

  // Counts a packet that leaves as it came. A mapping of the same end tells
  // how long the flow lives.
  void FollowUntranslated(const Packet& packet, uint8_t tcp_flags,
                          FlowState& flow) {
    count(*passed_);
    const bool is_known = flow.has(*untranslated_);
    const bool is_inside = packet.side() == Side::kInside;
    const IpProtocol protocol = packet.headers().l4_protocol;
    const uint8_t before = flow.get(*untranslated_);
    const uint8_t seen = protocol == IpProtocol::kTcp
                             ? NatTcp::After(before, tcp_flags, is_inside)
                             : NatTcp::kInside;
    if (is_known && seen == before) return;
    flow.put(*untranslated_, seen);
    const bool was_established = NatTcp::IsEstablished(before);
    const bool is_established = NatTcp::IsEstablished(seen);
    if ((!is_known || is_established != was_established) &&
        !flow.get(mapping_)) {
      SetOtherTimeout(protocol, seen, flow);
    }
  }

  // Protocols without a timeout of their own have that of all flows.
  void SetOtherTimeout(IpProtocol protocol, uint8_t seen,
                       FlowState& flow) const {
    if (protocol == IpProtocol::kTcp) {
      flow.set_idle_timeout(NatTcp::IsEstablished(seen)
                                ? options_.tcp_timeout
                                : options_.tcp_transitory_timeout);
    } else if (protocol == IpProtocol::kUdp) {
      flow.set_idle_timeout(options_.udp_timeout);
    } else if (IsIcmp(protocol)) {
      flow.set_idle_timeout(options_.icmp_timeout);
    }
  }

  // --- State ---------------------------------------------------------------

  // Returns true if an end of `view` is that of the mapping, as far as the
  // packet shows it.
  static bool IsEnd(NatEnd end, NatEnd of_mapping, const NatView& view,
                    const Mapping& mapping) {
    return view.protocol == mapping.protocol &&
           end.address == of_mapping.address &&
           (view.is_later_fragment || end.port == of_mapping.port);
  }

  Nanos TimeoutOf(Lifetime lifetime) const {
    switch (lifetime) {
      case Lifetime::kUdp:
        return options_.udp_timeout;
      case Lifetime::kIcmp:
        return options_.icmp_timeout;
      case Lifetime::kTcpTransitory:
        return options_.tcp_transitory_timeout;
      default:
        return options_.tcp_timeout;
    }
  }

  bool IsExpired(const Packet& packet, const Mapping& mapping,
                 const FlowState& flow) const {
    if (mapping.is_fixed()) return false;
    return packet.arrival() - Instant{flow.get(refreshed_)} >
           TimeoutOf(mapping.lifetime);
  }

  NatPeers::Timeouts PeerTimeouts(IpProtocol protocol) const {
    if (protocol == IpProtocol::kTcp) {
      return {options_.tcp_timeout, options_.tcp_transitory_timeout};
    }
    const Nanos timeout = protocol == IpProtocol::kUdp ? options_.udp_timeout
                                                       : options_.icmp_timeout;
    return {timeout, timeout};
  }

  bool KeepsPeers(const NatView& view) const {
    return !view.is_later_fragment &&
           (view.protocol == IpProtocol::kTcp ||
            options_.filtering != NatFiltering::kEndpointIndependent);
  }

  // Returns true if the filter lets packets from `from` in. A later fragment
  // shows no port, but its first fragment did.
  bool Admits(const Mapping& mapping, const NatPeers& peers, NatEnd from,
              const NatView& view) const {
    if (mapping.is_fixed() ||
        options_.filtering == NatFiltering::kEndpointIndependent) {
      return true;
    }
    const NatPeers::Timeouts timeouts = PeerTimeouts(view.protocol);
    if (options_.filtering == NatFiltering::kAddressDependent ||
        view.is_later_fragment) {
      return peers.HasAddress(from.address, timeouts);
    }
    return peers.Has(NatPeers::PeerOf(from, view.protocol), timeouts);
  }

  // Makes the mapping live as long as its longest-lived connection.
  void Follow(const NatPeers::Change& change, const NatPeers& peers,
              Mapping& mapping, FlowState& flow) const {
    if (!change.established_changed && !change.forgot_established) return;
    Lifetime lifetime = mapping.lifetime;
    if (change.forgot_established) {
      lifetime = Lifetime::kTcpPinned;
    } else if (lifetime != Lifetime::kTcpPinned) {
      lifetime = peers.HasEstablished(PeerTimeouts(mapping.protocol))
                     ? Lifetime::kTcpEstablished
                     : Lifetime::kTcpTransitory;
    }
    if (lifetime == mapping.lifetime) return;
    const Nanos before = TimeoutOf(mapping.lifetime);
    mapping.lifetime = lifetime;
    flow.put(mapping_, mapping);
    const Nanos timeout = TimeoutOf(lifetime);
    if (timeout != before) flow.set_idle_timeout(timeout);
  }

  void GiveBack(FlowState& flow) const {
    const Mapping mapping = flow.get(mapping_);
    if (!mapping || mapping.is_fixed()) return;
    flow.give_back(PoolId{mapping.pool}, mapping.external_port.host());
    LogBinding(NatBindingRecord::kReleased, mapping, flow);
  }

  void LogBinding(NatBindingRecord::Event event, const Mapping& mapping,
                  FlowState& flow) const {
    const bool is_refused = event == NatBindingRecord::kOverHostPorts;
    if (options_.logs_overflow_alone && !is_refused &&
        mapping.external_port.host() < options_.first_overflow()) {
      return;
    }
    const bool is_ipv6 = IsStandIn(mapping.inside_address);
    Log({.inside = is_ipv6 ? flow.get(*inside6_)
                           : IpAddress::FromIpv4(mapping.inside_address),
         .external = mapping.external_address,
         .inside_port = mapping.inside_port,
         .external_port = is_refused ? be16(0) : mapping.external_port,
         .event = event,
         .protocol = mapping.protocol,
         .is_ipv6 = is_ipv6 ? uint8_t{1} : uint8_t{0},
         .host_ports = is_refused ? options_.host_ports : 0},
        flow);
  }
  void Log(const NatBindingRecord& record, FlowState& flow) const {
    if (!log_.has_value()) return;
    flow.log(*log_, std::as_bytes(std::span(&record, 1)));
  }

  void Forget(FlowState& flow) const {
    GiveBack(flow);
    flow.erase(mapping_);
    flow.erase(refreshed_);
    flow.erase(peers_);
    if (untranslated_.has_value()) flow.erase(*untranslated_);
    if (inside6_.has_value()) flow.erase(*inside6_);
  }

  // --- Refusals (RFC 5508 REQ-8) -------------------------------------------

  // Returns true if a refusal may be sent: at most one per second and flow (RFC
  // 1812 §4.3.2.8).
  bool MayRefuse(Instant now, const FlowState& flow) const {
    return !flow.has(answered_) ||
           now - Instant{flow.get(answered_)} >= kAnswerPeriod;
  }

  // A packet of IPv6 is refused by its destination, as the NAT has no address
  // of IPv6.
  static IcmpError RefusalOf(LinkType link, std::span<const std::byte> frame,
                             const ParsedPacket& headers, be32 source) {
    return headers.l3 == L3::kIpv6
               ? IcmpError::Prohibited(link, frame, headers)
               : IcmpError::Prohibited(link, frame, headers,
                                       IpAddress::FromIpv4(source));
  }

  void RefuseForWantOfPorts(const Packet& packet, const NatView& view,
                            be32 external, FlowState& flow) const {
    if (!MayRefuse(packet.arrival(), flow)) return;
    const IcmpError refusal =
        RefusalOf(packet.link(), packet.bytes(), packet.headers(), external);
    // The log's limit holds without a buffer for the answer, too.
    if (flow.emit(refusal.frame()) || log_.has_value()) {
      flow.put(answered_, packet.arrival().ns);
    }
    const bool is_ipv6 = IsStandIn(view.source.address);
    Log({.inside = is_ipv6 ? Ipv6SourceOf(packet)
                           : IpAddress::FromIpv4(view.source.address),
         .external = external,
         .inside_port = view.source.port,
         .external_port = be16(0),
         .event = NatBindingRecord::kPortsExhausted,
         .protocol = view.protocol,
         .is_ipv6 = is_ipv6 ? uint8_t{1} : uint8_t{0}},
        flow);
  }

  // Keeps a copy of the packet: an alias is refused only after the packet has
  // been rewritten.
  void KeepForRefusal(const Packet& packet, FlowState& flow) const {
    if (!refused_.has_value()) return;
    if (!MayRefuse(packet.arrival(), flow)) return flow.erase(*refused_);
    std::array<std::byte, kRefusedBytes> kept;
    const size_t bytes =
        std::min<size_t>(packet.bytes().size(), kept.size() - 1);
    kept[0] = static_cast<std::byte>(packet.link());
    std::ranges::copy(packet.bytes().first(bytes), &kept[1]);
    flow.put(*refused_, std::span(kept).first(bytes + 1));
  }

  void RefuseKept(FlowState& flow) const {
    const std::span<const std::byte> kept = flow.get(*refused_);
    if (kept.empty()) return;
    LogBinding(NatBindingRecord::kOverHostPorts, flow.get(mapping_), flow);
    const auto link = static_cast<LinkType>(kept[0]);
    const std::span<const std::byte> frame = kept.subspan(1);
    const IcmpError refusal = RefusalOf(link, frame, Parse(link, frame),
                                        flow.get(mapping_).external_address);
    if (flow.emit(refusal.frame()) || log_.has_value()) {
      flow.put(answered_, flow.get(refreshed_));
    }
  }

  NatOptions options_;
  NatPorts ports_{options_, [this](std::string name, uint32_t first,
                                   uint32_t last, be32 address) {
                    return declare_pool(std::move(name), first, last, address);
                  }};

  Slot<Mapping> mapping_ = declare<Mapping>("mapping");
  // The arrival of the last packet that kept the mapping alive, as Instant::ns.
  Slot<int64_t> refreshed_ = declare<int64_t>("refreshed");
  Slot<int64_t> answered_ = declare<int64_t>("answered");
  Blob peers_ = declare_blob("peers", options_.peers * sizeof(NatPeer));
  std::optional<Blob> refused_;
  // NatTcp of what a flow has left untranslated; kInside of other protocols. A
  // flow of IPv6 that has it has an alias.
  std::optional<Slot<uint8_t>> untranslated_;
  std::optional<Counter> passed_;
  // The address of the inside host of a mapping of IPv6.
  std::optional<Slot<IpAddress>> inside6_;
  std::optional<Counter> too_big_;
  std::optional<LogId> log_;  // with log_bindings
  Counter over_host_ports_ = declare_counter(
      "over_host_ports",
      "packets that got no mapping, as their host has host_ports of them");
};
SNF_REGISTER_NF(Nat, "nat",
                "IPv4 address and port translation: TCP, UDP, ICMP; NAT64");

}  // namespace
}  // namespace snf
