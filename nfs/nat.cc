// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/packet/endpoint.h"
#include "base/packet/rewrite.h"
#include "nfs/nat_options.h"
#include "nfs/nat_other.h"
#include "nfs/nat_packet.h"
#include "nfs/nat_peers.h"
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

  explicit operator bool() const { return external_port != be16(0); }
  NatEnd inside() const { return {inside_address, inside_port}; }
  NatEnd external() const { return {external_address, external_port}; }
};
static_assert(sizeof(Mapping) == 16);

FlowKey KeyOf(NatEnd end, IpProtocol protocol) {
  return EndpointKey(IpAddress::FromIpv4(end.address), end.port, protocol,
                     FlowKeyForm::kIpv4Endpoint);
}

// Theory of operation. A network address and port translator for IPv4: TCP,
// UDP, ICMP queries, and errors about them (RFC 4787, 5382, 5508, 7857;
// nfs/nat.md says how each of their requirements is met).
//
// A flow is one inside endpoint, so endpoint-independent mapping is simply the
// flow's state: the mapping that the endpoint's first packet makes. Its
// external port is a piece of the pool of its external address and protocol;
// its external endpoint is the flow's alias, by which the answers find it. The
// mapping ends with the flow, or when an inbound packet finds it expired. With
// other=pass, a flow of IPv6 has no mapping, and its own end is its alias.
//
// Example: 10.0.0.1:5000 sends UDP to 192.0.2.9:53. The NF takes port 5000 of
// 198.51.100.1, or the next even port that its unit has, say 5002, sets the
// alias 198.51.100.1:5002, and rewrites the source. A packet that comes to that
// endpoint within the next 300 s is rewritten to 10.0.0.1:5000.
class Nat final : public NetworkFunction {
 public:
  explicit Nat(NfOptions& options) : options_(options) {
    DeclarePools();
    // The kept packet is only needed to answer for a refused alias.
    if (options_.host_ports > 0) {
      refused_ = declare_blob("refused", kRefusedBytes);
    }
    // Records and reports do not grow without the option.
    if (options_.passes_other) {
      other_seen_ = declare<uint8_t>("other_seen");
      passed_ = declare_counter("passed", "packets of IPv6, as they came");
    }
  }

  FlowScope flow_scope() const override { return FlowScope::kInsideEndpoint; }

  bool is_barrier() const override { return true; }

  std::span<const std::string_view> drop_reasons() const override {
    return std::span(kNatDropNames).subspan(1);
  }

  Verdict process_packet(Packet& packet, FlowState& flow) override {
    if (options_.passes_other && packet.headers().l3 != L3::kIpv4) {
      return Drop(PassOther(packet, flow));
    }
    NatView view;
    if (const NatDrop drop = ReadPacket(packet, view); drop != NatDrop::kNone) {
      return Drop(drop);
    }
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
    const bool is_other = other_seen_.has_value() && flow.has(*other_seen_);
    return !is_other && !flow.get(mapping_);
  }

  void on_end(FlowState& flow) override { GiveBack(flow); }

  void on_alias_refused(FlowState& flow, AliasResult why) override {
    if (why == AliasResult::kGroupFull) count(over_host_ports_);
    if (refused_.has_value()) {
      if (why == AliasResult::kGroupFull) RefuseKept(flow);
      flow.erase(*refused_);
    }
    Forget(flow);
  }

 private:
  static constexpr size_t kProtocols = 3;
  static constexpr uint32_t kWellKnownPorts = 1024;
  static constexpr uint32_t kRefusedBytes = 128;

  static Verdict Drop(NatDrop drop) {
    if (drop == NatDrop::kNone) return Verdict::forward();
    return Verdict::drop(static_cast<uint8_t>(drop) - 1);
  }

  // --- Pools ---------------------------------------------------------------

  // Declares a pool for each address, protocol, and half of the ports (RFC 4787
  // REQ-3a).
  void DeclarePools() {
    static constexpr std::array<const char*, kProtocols> kNames = {"tcp", "udp",
                                                                   "icmp"};
    const uint32_t first = options_.first_port, last = options_.last_port;
    for (const be32 address : options_.addresses) {
      const uint32_t a = address.host();
      for (const char* const protocol : kNames) {
        const auto declare_half = [&](uint32_t from, uint32_t to) {
          if (from > to) return pools_.emplace_back();
          return pools_.emplace_back(declare_pool(
              absl::StrCat(protocol, " ", a >> 24, ".", a >> 16 & 255, ".",
                           a >> 8 & 255, ".", a & 255, " ", from, "-", to),
              from, to, address));
        };
        declare_half(first, std::min(last, kWellKnownPorts - 1));
        declare_half(std::max(first, kWellKnownPorts), last);
      }
    }
  }

  // Returns the pool, or nothing if that half has no ports.
  std::optional<PoolId> PoolOf(size_t address, IpProtocol protocol,
                               bool high) const {
    const size_t kind = protocol == IpProtocol::kTcp   ? 0
                        : protocol == IpProtocol::kUdp ? 1
                                                       : 2;
    return pools_[(address * kProtocols + kind) * 2 + (high ? 1 : 0)];
  }

  bool IsExternal(be32 address) const {
    return std::ranges::binary_search(options_.addresses, address);
  }

  // Returns the index of the external address for the packet's source.
  size_t AddressOf(const NatView& view) const {
    if (options_.addresses.size() == 1) return 0;
    const std::vector<uint16_t>& indexes =
        options_.PoolOf(view.source.address).indexes;
    NatEnd end = view.source;
    IpProtocol protocol = view.protocol;
    if (options_.is_paired) {
      end.port = be16(0);
      protocol = {};
    }
    return indexes[Hash(KeyOf(end, protocol)) % indexes.size()];
  }

  // Takes the port nearest to the inside one: that port itself, then one of its
  // parity, then any (RFC 4787 REQ-4).
  static std::optional<uint32_t> TakePort(PoolId pool, bool high,
                                          const NatView& view,
                                          FlowState& flow) {
    const uint32_t port = view.source.port.host();
    PiecePreference wish = {.first = high ? kWellKnownPorts : 0,
                            .last = high ? 0xffff : kWellKnownPorts - 1,
                            .preferred = port};
    if (view.protocol != IpProtocol::kIcmp) {
      wish.parity = port % 2 == 0 ? PiecePreference::Parity::kEven
                                  : PiecePreference::Parity::kOdd;
      const std::optional<uint32_t> taken = flow.take(pool, wish);
      if (taken.has_value()) return taken;
      wish.parity = PiecePreference::Parity::kAny;
    }
    return flow.take(pool, wish);
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
    const size_t address = AddressOf(view);
    std::optional<PoolId> pool;
    std::optional<uint32_t> port;
    const bool is_high = view.source.port.host() >= kWellKnownPorts;
    for (const bool high : {is_high, !is_high}) {
      pool = PoolOf(address, view.protocol, high);
      if (!pool.has_value()) continue;
      port = TakePort(*pool, high, view, flow);
      if (port.has_value()) break;
      if (!flow.is_exhausted(*pool)) return Verdict::wait(*pool);
    }
    if (!port.has_value()) {
      Refuse(packet, options_.addresses[address], flow);
      return Drop(NatDrop::kPortsExhausted);
    }
    mapping = {
        .inside_address = view.source.address,
        .external_address = options_.addresses[address],
        .inside_port = view.source.port,
        .external_port = be16(static_cast<uint16_t>(*port)),
        .pool = static_cast<uint16_t>(*pool),
        .protocol = view.protocol,
        .lifetime = view.protocol == IpProtocol::kTcp ? Lifetime::kTcpTransitory
                    : view.protocol == IpProtocol::kUdp ? Lifetime::kUdp
                                                        : Lifetime::kIcmp};
    flow.put(mapping_, mapping);
    flow.set_alias(KeyOf(mapping.external(), mapping.protocol),
                   view.source.address.host(), options_.host_ports);
    flow.set_idle_timeout(TimeoutOf(mapping.lifetime));
    KeepForRefusal(packet, flow);
    return std::nullopt;
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
    if (!mapping) return NatDrop::kNoMapping;
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
    if (!Admits(peers, view.source, view)) return NatDrop::kFiltered;
    if (options_.inbound_refreshes) {
      flow.put(refreshed_, packet.arrival().ns);
    }
    if (KeepsPeers(view)) {
      Follow(peers.Received(view, options_.inbound_refreshes), peers, mapping,
             flow);
    }
    RewriteDestination(packet.bytes(), packet.headers(), mapping.inside_address,
                       mapping.inside_port);
    return NatDrop::kNone;
  }

  // Translates an ICMP error from the outside (RFC 5508 REQ-4). It ends no
  // mapping, not even an old one (RFC 4787 REQ-12).
  NatDrop InboundError(Packet& packet, const NatView& view,
                       const Mapping& mapping, FlowState& flow) const {
    NatView quoted;
    const NatDrop drop = ReadQuoted(packet, quoted);
    if (drop != NatDrop::kNone) return drop;
    if (view.destination.address != mapping.external_address ||
        !IsEnd(quoted.source, mapping.external(), quoted, mapping)) {
      return NatDrop::kQuotedNotOurs;
    }
    if (IsExpired(packet, mapping, flow)) return NatDrop::kMappingExpired;
    const NatPeers peers(flow, peers_, packet.arrival());
    if (!Admits(peers, quoted.destination, quoted)) return NatDrop::kFiltered;
    RewriteDestination(packet.bytes(), packet.headers(), mapping.inside_address,
                       mapping.inside_port);
    return NatDrop::kNone;
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
    count(*passed_);
    const bool is_known = flow.has(*other_seen_);
    if (!view.has_end() || (!is_known && !is_inside)) return NatDrop::kNone;
    if (!is_known) flow.set_alias(view.from);
    const IpProtocol protocol = packet.headers().l4_protocol;
    const uint8_t before = flow.get(*other_seen_);
    const uint8_t seen = protocol == IpProtocol::kTcp
                             ? NatTcp::After(before, view.tcp_flags, is_inside)
                             : NatTcp::kInside;
    if (is_known && seen == before) return NatDrop::kNone;
    flow.put(*other_seen_, seen);
    const bool was_established = NatTcp::IsEstablished(before);
    if (!is_known || NatTcp::IsEstablished(seen) != was_established) {
      SetOtherTimeout(protocol, seen, flow);
    }
    return NatDrop::kNone;
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
    } else if (protocol == IpProtocol::kIcmpv6) {
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
  bool Admits(const NatPeers& peers, NatEnd from, const NatView& view) const {
    if (options_.filtering == NatFiltering::kEndpointIndependent) return true;
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
    if (!mapping) return;
    flow.give_back(PoolId{mapping.pool}, mapping.external_port.host());
  }

  void Forget(FlowState& flow) const {
    GiveBack(flow);
    flow.erase(mapping_);
    flow.erase(refreshed_);
    flow.erase(peers_);
    if (other_seen_.has_value()) flow.erase(*other_seen_);
  }

  // --- Refusals (RFC 5508 REQ-8) -------------------------------------------

  // Returns true if a refusal may be sent: at most one per second and flow (RFC
  // 1812 §4.3.2.8).
  bool MayRefuse(Instant now, const FlowState& flow) const {
    return !flow.has(answered_) ||
           now - Instant{flow.get(answered_)} >= kAnswerPeriod;
  }

  void Refuse(const Packet& packet, be32 source, FlowState& flow) const {
    if (!MayRefuse(packet.arrival(), flow)) return;
    const IcmpError refusal =
        IcmpError::Prohibited(packet.link(), packet.bytes(), packet.headers(),
                              IpAddress::FromIpv4(source));
    if (flow.emit(refusal.frame())) flow.put(answered_, packet.arrival().ns);
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
    const auto link = static_cast<LinkType>(kept[0]);
    const std::span<const std::byte> frame = kept.subspan(1);
    const IcmpError refusal = IcmpError::Prohibited(
        link, frame, Parse(link, frame),
        IpAddress::FromIpv4(flow.get(mapping_).external_address));
    if (flow.emit(refusal.frame())) {
      flow.put(answered_, flow.get(refreshed_));
    }
  }

  NatOptions options_;
  std::vector<std::optional<PoolId>> pools_;  // see PoolOf

  Slot<Mapping> mapping_ = declare<Mapping>("mapping");
  // The arrival of the last packet that kept the mapping alive, as Instant::ns.
  Slot<int64_t> refreshed_ = declare<int64_t>("refreshed");
  Slot<int64_t> answered_ = declare<int64_t>("answered");
  Blob peers_ = declare_blob("peers", options_.peers * sizeof(NatPeer));
  std::optional<Blob> refused_;
  // NatTcp of a flow of IPv6 whose alias is set; kInside of other protocols.
  std::optional<Slot<uint8_t>> other_seen_;
  std::optional<Counter> passed_;
  Counter over_host_ports_ = declare_counter(
      "over_host_ports",
      "packets that got no mapping, as their host has host_ports of them");
};
SNF_REGISTER_NF(Nat, "nat",
                "IPv4 address and port translation: TCP, UDP, ICMP");

}  // namespace
}  // namespace snf
