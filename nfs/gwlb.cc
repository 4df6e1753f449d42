// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/answers/answers.h"
#include "base/packet/flow_key.h"
#include "base/packet/ip_address_text.h"
#include "base/packet/link_reversal.h"
#include "nfs/gwlb_options.h"
#include "nfs/gwlb_packet.h"
#include "nfs/lb_checked_nf.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

enum GwlbDrop : uint8_t {
  kFragmentEarly,   // a later fragment of an unknown packet
  kNotUnicast,      // for a group of hosts
  kNoAppliance,     // all are unhealthy, with all_unhealthy=drop
  kReset,           // of a TCP connection that is answered by a reset
  kTooLong,         // for the MTU, behind outer headers
  kNoRoom,          // for outer headers, or for a frame that goes back
  kLinkUnsuited,    // the link header cannot serve for the way on
  kToBalancer,      // for the balancer's address, but nothing that it takes
  kNotAnAppliance,  // GENEVE of another host
  kOuterFragment,   // GENEVE in fragments
  kWrongEndpoint,   // the option is not as the balancer sent it
  kWrongAttachment,
  kWrongCookie,
  kUnknownFlow,     // an inner packet of no flow
  kInnerMalformed,  // the inner packet cannot be read, or is cut
  kFirstRefusal,    // a GwlbRefusal other than kNone, and the others behind it
};
constexpr size_t kDrops = kFirstRefusal + kGwlbRefusals - 1;
static_assert(kDrops <= NetworkFunction::kMaxDropReasons);

std::array<std::string_view, kDrops> MakeDropNames() {
  std::array<std::string_view, kDrops> names = {
      "fragment_early", "not_unicast",    "no_appliance",
      "reset",          "too_long",       "no_room",
      "link_unsuited",  "to_balancer",    "not_an_appliance",
      "outer_fragment", "wrong_endpoint", "wrong_attachment",
      "wrong_cookie",   "unknown_flow",   "inner_malformed"};
  for (size_t i = 1; i < kGwlbRefusals; ++i) {
    names[kFirstRefusal + i - 1] = Name(static_cast<GwlbRefusal>(i));
  }
  return names;
}

uint8_t DropOf(GwlbRefusal refusal) {
  return static_cast<uint8_t>(kFirstRefusal + static_cast<size_t>(refusal) - 1);
}

// The state of a flow.
struct Entry {
  enum Seen : uint16_t {
    kTcp = 1,
    // The side of the flow's ends is known …
    kHasSides = 2,
    // … and the inside has the end that stands first in the connection's key.
    kFirstIsInside = 4,
    kWasReset = 8,
  };

  uint32_t cookie = 0;
  uint16_t appliance = 0;  // its index
  uint16_t seen = 0;       // a sum of Seen

  bool has(uint16_t what) const { return (seen & what) == what; }
  friend bool operator==(const Entry&, const Entry&) = default;
};
static_assert(sizeof(Entry) == 8);

// Theory of operation. A gateway load balancer, as AWS's: packets between the
// inside and the outside go through one of several appliances, in GENEVE, and
// come back from there with the same options (base/tunnels/gwlb_header.h).
//
//   inside ──► gwlb ──GENEVE──► appliance
//                               │
//   outside ◄── gwlb ◄──GENEVE──┘           and the same from the outside
//
// Appliances are at the outside. So a packet from the outside goes back there
// in GENEVE, and so does an inner packet from the inside that an appliance has
// returned: both leave as packets of the NF's own, with the link header
// reversed. The others are forwarded.
//
// A flow is a connection, or all packets between two hosts (`stickiness`). The
// key of a returned packet is that of its inner one, so the flow's state is
// where both are processed: its appliance, its cookie, and which end is inside.
// The cookie is a hash of the flow.
//
// The first packet of a flow chooses the appliance, by Maglev hashing. A packet
// without state, as after a failure, finds the same one as long as the
// appliances have not changed.
//
// Later fragments show no ports. Outward they follow their first fragment, with
// a cookie of the fragments' own. Returned, they are checked by that cookie
// alone, and the attachment id says from which side they came.
//
// Example: address=10.0.2.1, appliances=10.0.2.11+10.0.2.12. A SYN of
// 10.1.0.9:5000 to 192.0.2.7:80 goes from 10.0.2.1 to 10.0.2.12, say, with
// cookie 7. It comes back with cookie 7, and leaves to 192.0.2.7. The answer,
// from the outside, goes to 10.0.2.12 as well, and then to 10.1.0.9.
class GatewayBalancer final : public CheckedNf {
 public:
  explicit GatewayBalancer(NfOptions& options) : options_(options) {
    if (options_.health.is_on()) DeclareHealth();
    std::vector<std::string> names;
    for (const IpAddress& appliance : options_.appliances) {
      names.push_back(Ipv4Text(appliance));
    }
    by_appliance_ = DeclareForEach(names, "flows begun at the appliance");
  }

  FlowScope flow_scope() const override { return FlowScope::kOwnKey; }

  // No packet may leave past the appliances.
  bool is_barrier() const override { return true; }

  OwnFlow flow_key(const KeyedPacket& packet) const override {
    if (!IsForBalancer(packet.bytes, packet.headers)) {
      return {.key = options_.FlowOf(packet.connection)};
    }
    OwnFlow flow = {.key = packet.connection,
                    .side = Side::kOutside,
                    .is_answer = IsCheckAnswer(packet.bytes, packet.headers)};
    if (!IsGeneve(packet.bytes, packet.headers)) return flow;
    const GwlbReturned returned = ReadReturned(packet.bytes, packet.headers);
    if (returned.refusal != GwlbRefusal::kNone) return flow;
    const ParsedPacket inner = Parse(LinkType::kRawIp, returned.inner);
    if (!inner.has_ip()) return flow;
    FlowKey connection = KeyedPacket::Of(returned.inner, inner).connection;
    connection.vlan = packet.connection.vlan;
    flow.key = options_.FlowOf(connection);
    return flow;
  }

  std::span<const std::string_view> drop_reasons() const override {
    static const std::array<std::string_view, kDrops> kNames = MakeDropNames();
    return kNames;
  }

  Verdict process_packet(Packet& packet, FlowState& flow) override {
    if (has_checks()) SendChecks(packet, flow);
    if (IsForBalancer(packet.bytes(), packet.headers())) {
      return FromAppliance(packet, flow);
    }
    return ToAppliance(packet, flow);
  }

  std::vector<std::string> warnings() const override {
    std::vector<std::string> warnings;
    if (!has_checks()) {
      warnings.emplace_back(
          "check=none: flows also go to appliances that are dead");
    } else if (options_.all_unhealthy == GwlbAllUnhealthy::kPass) {
      warnings.emplace_back(
          "all_unhealthy=pass: if all appliances are unhealthy, packets pass "
          "unseen");
    }
    return warnings;
  }

  bool has_states() const override { return true; }

  std::vector<NfState> states(Instant now) const override {
    std::vector<NfState> states;
    for (uint16_t i = 0; i < options_.appliances.size(); ++i) {
      states.push_back(StateOf(i, now));
    }
    return states;
  }

 private:
  using Use = GwlbOptions::Use;
  using Bytes = std::span<const std::byte>;

  // The place of a packet in its flow.
  struct Place {
    uint64_t hash;     // of the flow
    bool is_forward;   // along the connection's key
    bool is_fragment;  // a later one: `hash` is that of the fragments
    uint32_t cookie() const { return static_cast<uint32_t>(hash); }
  };
  Place PlaceOf(Bytes frame, const ParsedPacket& headers) const {
    const KeyedPacket packet = KeyedPacket::Of(frame, headers);
    FlowKey key = options_.FlowOf(packet.connection);
    key.vlan = be16(0);
    return {.hash = Hash(key),
            .is_forward = packet.direction == Direction::kForward,
            .is_fragment = key.form == FlowKeyForm::kIpv4Fragment ||
                           key.form == FlowKeyForm::kIpv6Fragment};
  }

  bool IsForBalancer(Bytes frame, const ParsedPacket& headers) const {
    return headers.l3 == L3::kIpv4 &&
           Ipv4DestinationOf(frame, headers) == options_.address;
  }
  bool IsCheckAnswer(Bytes frame, const ParsedPacket& headers) const {
    return has_checks() && headers.l4_protocol == IpProtocol::kTcp &&
           options_.ApplianceOf(Ipv4SourceOf(frame, headers)).has_value();
  }

  // --- To appliances -------------------------------------------------------

  Verdict ToAppliance(Packet& packet, FlowState& flow) {
    const ParsedPacket& headers = packet.headers();
    if (IsForGroup(packet.bytes(), headers)) return Verdict::drop(kNotUnicast);
    const Place place = PlaceOf(packet.bytes(), headers);
    const Instant now = packet.arrival();
    if (headers.fragment == Fragment::kLater) {
      return FragmentToAppliance(packet, place, flow);
    }
    const GwlbTcp tcp = TcpOf(packet.bytes(), headers);
    const Entry before = flow.get(entry_);
    bool is_known = flow.has(entry_);
    if (is_known && tcp.is_syn && before.has(Entry::kWasReset)) {
      is_known = false;
    } else if (is_known && before.has(Entry::kWasReset) && tcp.is_tcp) {
      return Reset(packet, before, flow);
    }
    const Trouble trouble =
        is_known ? TroubleOf(before.appliance, place.hash, now, tcp.is_syn)
                 : Trouble{};
    if (trouble.is_any) {
      if (trouble.resets && tcp.is_tcp && !tcp.is_syn) {
        return Reset(packet, before, flow);
      }
      const bool begins =
          tcp.is_syn &&
          (trouble.resets || options_.stickiness == GwlbStickiness::k5Tuple);
      if (trouble.rebalances || begins) {
        if (!begins) count(rebalanced_);
        is_known = false;
      }
    }
    Entry entry = before;
    if (!is_known) {
      if (options_.resets_unknown && tcp.is_tcp && !tcp.is_syn &&
          !flow.has(entry_)) {
        return ResetUnknown(packet, flow);
      }
      const std::optional<uint16_t> appliance = Choose(place.hash, now);
      if (!appliance.has_value()) return WithoutAppliance(flow);
      Begin(*appliance);
      entry = {.cookie = place.cookie(), .appliance = *appliance};
    }
    if (tcp.is_tcp) entry.seen |= Entry::kTcp;
    NoteSides(packet.side(), place, entry);
    Keep(before, entry, flow);
    return Encapsulate(packet, entry.appliance, entry.cookie, flow);
  }

  // A later fragment begins and changes nothing.
  Verdict FragmentToAppliance(Packet& packet, const Place& place,
                              FlowState& flow) {
    if (!flow.has(entry_)) {
      flow.end();
      if (options_.all_unhealthy == GwlbAllUnhealthy::kPass &&
          !Find(place.hash, packet.arrival()).has_value()) {
        return PassBy();
      }
      return Verdict::drop(kFragmentEarly);
    }
    const Place own = {.hash = Hash(FragmentKeyOf(packet)),
                       .is_forward = true,
                       .is_fragment = true};
    return Encapsulate(packet, flow.get(entry_).appliance, own.cookie(), flow);
  }
  static FlowKey FragmentKeyOf(const Packet& packet) {
    return FragmentKey(packet.bytes(), packet.headers(), false);
  }

  // The fault of a flow's appliance, if another one is better.
  struct Trouble {
    bool is_any = false;
    bool resets = false;
    bool rebalances = false;
  };
  Trouble TroubleOf(uint16_t appliance, uint64_t hash, Instant now,
                    bool is_syn) {
    if (options_.UseOf(appliance, now) == Use::kUnused) {
      return {
          .is_any = true,
          .resets = options_.resets_deregistered,
          .rebalances = options_.on_deregistration == GwlbFailover::kRebalance};
    }
    if (IsUp(now, appliance)) return {};
    const Trouble trouble = {
        .is_any = true,
        .resets = options_.resets_unhealthy,
        .rebalances = options_.on_unhealthy == GwlbFailover::kRebalance};
    // A search reads the whole table if all are down: only if that matters.
    const bool matters = trouble.resets || trouble.rebalances || is_syn;
    return matters && Find(hash, now).has_value() ? trouble : Trouble{};
  }

  // Returns a registered appliance that is up, by the hash first.
  std::optional<uint16_t> Find(uint64_t hash, Instant now) const {
    const GwlbOptions::Registered& registered = options_.AsOf(now);
    if (registered.table.empty()) return std::nullopt;
    const uint16_t first = registered.table.Find(hash);
    if (IsUp(now, first)) return first;
    return FindUp(now, registered.table, hash, [&](uint16_t appliance) {
      return registered.has[appliance];
    });
  }

  // Returns nothing if all are down, and none of them is to be used.
  std::optional<uint16_t> Choose(uint64_t hash, Instant now) {
    const GwlbOptions::Registered& registered = options_.AsOf(now);
    if (registered.table.empty()) return std::nullopt;
    const uint16_t first = registered.table.Find(hash);
    const std::optional<uint16_t> up = Find(hash, now);
    if (up.has_value()) {
      if (*up != first) CountAvoided();
      return up;
    }
    if (options_.all_unhealthy != GwlbAllUnhealthy::kSend) return std::nullopt;
    CountAllDown();
    return first;
  }

  Verdict WithoutAppliance(FlowState& flow) {
    flow.end();
    if (options_.all_unhealthy == GwlbAllUnhealthy::kPass) return PassBy();
    return Verdict::drop(kNoAppliance);
  }
  Verdict PassBy() {
    count(passed_by_);
    return Verdict::forward();
  }

  Verdict Reset(const Packet& packet, const Entry& before, FlowState& flow) {
    SendReset(packet, flow);
    Entry entry = before;
    entry.seen |= Entry::kWasReset;
    Keep(before, entry, flow);
    return Verdict::drop(kReset);
  }
  Verdict ResetUnknown(const Packet& packet, FlowState& flow) {
    SendReset(packet, flow);
    flow.end();
    return Verdict::drop(kReset);
  }
  void SendReset(const Packet& packet, FlowState& flow) {
    const TcpReset reset(packet.link(), packet.bytes(), packet.headers());
    if (flow.emit(reset.frame())) count(resets_);
  }

  static void NoteSides(Side side, const Place& place, Entry& entry) {
    if (side == Side::kUnknown || entry.has(Entry::kHasSides)) return;
    entry.seen |= Entry::kHasSides;
    if (place.is_forward == (side == Side::kInside)) {
      entry.seen |= Entry::kFirstIsInside;
    }
  }

  uint64_t AttachmentOf(Side side) const {
    return options_.attachment + (side == Side::kOutside ? 1 : 0);
  }

  Verdict Encapsulate(Packet& packet, uint16_t appliance, uint32_t cookie,
                      FlowState& flow) {
    const GwlbOuterHeaders outer(options_.address,
                                 options_.appliances[appliance],
                                 {.endpoint = options_.endpoint,
                                  .attachment = AttachmentOf(packet.side()),
                                  .cookie = cookie},
                                 packet);
    const uint32_t inner_mtu = options_.inner_mtu();
    switch (
        packet.prepend(outer.bytes(), inner_mtu + GwlbOptions::kOuterBytes)) {
      case PacketResize::kDone:
        break;
      case PacketResize::kTooLong: {
        const IcmpError answer = IcmpError::TooBig(
            packet.link(), packet.bytes(), packet.headers(), inner_mtu);
        if (flow.emit(answer.frame())) count(too_big_);
        return Verdict::drop(kTooLong);
      }
      case PacketResize::kNoRoom:
        return Verdict::drop(kNoRoom);
      default:
        return Verdict::drop(kLinkUnsuited);
    }
    count(to_appliances_);
    if (packet.side() == Side::kOutside) return SendBack(packet, flow);
    return Verdict::forward();
  }

  // Sends the packet as it now is out of the side by which it came.
  Verdict SendBack(const Packet& packet, FlowState& flow) {
    const std::optional<size_t> link = ReverseLinkHeader(
        packet.link(), packet.bytes(), packet.headers(), turned_);
    if (!link.has_value()) return Verdict::drop(kLinkUnsuited);
    const Bytes ip = packet.bytes().subspan(packet.headers().l3_offset);
    std::ranges::copy(ip, &turned_[*link]);
    if (!flow.emit(std::span(turned_).first(*link + ip.size()))) {
      return Verdict::drop(kNoRoom);
    }
    return Verdict::consume();
  }

  // --- From appliances -----------------------------------------------------

  Verdict FromAppliance(Packet& packet, FlowState& flow) {
    const ParsedPacket& headers = packet.headers();
    if (!flow.has(entry_)) flow.end();
    if (headers.icmp_inner_offset != 0) {
      count(errors_);
      return Verdict::consume();
    }
    if (IsCheckAnswer(packet.bytes(), headers)) {
      return CheckAnswer(packet, flow);
    }
    if (!IsGeneve(packet.bytes(), headers)) return Verdict::drop(kToBalancer);
    const std::optional<uint16_t> appliance =
        options_.ApplianceOf(Ipv4SourceOf(packet.bytes(), headers));
    if (!appliance.has_value()) return Verdict::drop(kNotAnAppliance);
    if (headers.fragment != Fragment::kNone) {
      return Verdict::drop(kOuterFragment);
    }
    return Returned(packet, *appliance, flow);
  }

  Verdict Returned(Packet& packet, uint16_t appliance, FlowState& flow) {
    const GwlbReturned returned =
        ReadReturned(packet.bytes(), packet.headers());
    if (returned.refusal != GwlbRefusal::kNone) {
      return Verdict::drop(DropOf(returned.refusal));
    }
    const GwlbMetadata& metadata = returned.metadata;
    if (metadata.endpoint != options_.endpoint) {
      return Verdict::drop(kWrongEndpoint);
    }
    const bool is_of_outside =
        metadata.attachment == AttachmentOf(Side::kOutside);
    if (!is_of_outside && metadata.attachment != AttachmentOf(Side::kInside)) {
      return Verdict::drop(kWrongAttachment);
    }
    const ParsedPacket inner = Parse(LinkType::kRawIp, returned.inner);
    const bool is_whole = packet.original_length() == packet.bytes().size();
    if (!IsInner(returned.inner, inner, returned.protocol, is_whole)) {
      return Verdict::drop(kInnerMalformed);
    }
    const Place place = PlaceOf(returned.inner, inner);
    const Entry entry = flow.get(entry_);
    bool is_from_inside = !is_of_outside;
    if (!place.is_fragment) {
      if (!flow.has(entry_)) return Verdict::drop(kUnknownFlow);
      is_from_inside = place.is_forward == entry.has(Entry::kFirstIsInside);
      if (entry.appliance != appliance) count(from_others_);
    }
    const uint32_t cookie = place.is_fragment ? place.cookie() : entry.cookie;
    if (metadata.cookie != cookie) return Verdict::drop(kWrongCookie);
    if (packet.decapsulate(returned.outer_bytes) != PacketResize::kDone) {
      return Verdict::drop(kLinkUnsuited);
    }
    count(returned_);
    if (packet.side() == Side::kOutside && is_from_inside) {
      return SendBack(packet, flow);
    }
    return Verdict::forward();
  }

  // --- Health --------------------------------------------------------------

  void DeclareHealth() {
    std::vector<LbEnd> targets;
    for (const IpAddress& appliance : options_.appliances) {
      targets.push_back({.address = appliance,
                         .port = be16(options_.health.port),
                         .protocol = IpProtocol::kTcp});
    }
    DeclareChecks(options_.health, std::move(targets),
                  {.many = "appliances",
                   .one = "an appliance",
                   .other = "another appliance"});
  }

  // Beside a packet from the outside, checks go back there.
  void SendChecks(const Packet& packet, FlowState& flow) {
    const Instant now = packet.arrival();
    const auto is_used = [&](uint16_t appliance) {
      return options_.UseOf(appliance, now) != Use::kUnused;
    };
    const LbProbe::Way way = packet.side() == Side::kOutside
                                 ? LbProbe::Way::kBack
                                 : LbProbe::Way::kOn;
    CheckedNf::SendChecks(packet, way, is_used, flow);
  }

  Verdict CheckAnswer(const Packet& packet, FlowState& flow) {
    const FlowKey ends = FiveTuple(packet.bytes(), packet.headers(), false);
    const LbEnd from = {.address = ends.source,
                        .port = ends.source_port,
                        .protocol = IpProtocol::kTcp};
    return TakeAnswer(packet, from, flow);
  }

  NfState StateOf(uint16_t appliance, Instant now) const {
    const Use use = options_.UseOf(appliance, now);
    NfState state = {.object = Ipv4Text(options_.appliances[appliance]),
                     .state = "up",
                     .since = options_.UseSince(appliance, now)};
    if (use == Use::kUnused) {
      state.state = "unused";
      state.why = "deregistered";
      return state;
    }
    if (use == Use::kDraining) {
      state.state = "draining";
      state.why = "deregistered";
    }
    AddHealth(now, appliance, use == Use::kDraining, state);
    return state;
  }

  // --- State ---------------------------------------------------------------

  void Begin(uint16_t appliance) {
    count(flows_);
    if (!by_appliance_.empty()) count(by_appliance_[appliance]);
  }

  Nanos TimeoutOf(const Entry& entry) const {
    return entry.has(Entry::kTcp) ? options_.tcp_idle_timeout
                                  : options_.idle_timeout;
  }

  void Keep(const Entry& before, const Entry& entry, FlowState& flow) const {
    if (flow.has(entry_) && entry == before) return;
    if (!flow.has(entry_) || TimeoutOf(entry) != TimeoutOf(before)) {
      flow.set_idle_timeout(TimeoutOf(entry));
    }
    flow.put(entry_, entry);
  }

  GwlbOptions options_;
  Slot<Entry> entry_ = declare<Entry>("entry");
  Counter flows_ = declare_counter("flows", "begun");
  Counter to_appliances_ =
      declare_counter("to_appliances", "packets sent to appliances in GENEVE");
  Counter returned_ =
      declare_counter("returned", "packets that appliances sent back");
  Counter from_others_ = declare_counter(
      "from_others", "of them, by another appliance than the flow's");
  Counter rebalanced_ = declare_counter(
      "rebalanced",
      "flows given another appliance, since theirs was down or deregistered");
  Counter resets_ = declare_counter("resets", "sent to ends of TCP flows");
  Counter too_big_ = declare_counter(
      "too_big", "ICMP errors sent about packets too long for the appliances");
  Counter errors_ = declare_counter("outer_errors",
                                    "ICMP errors about packets to appliances");
  Counter passed_by_ = declare_counter(
      "passed_by", "packets past the appliances, as all are down");
  std::vector<Counter> by_appliance_;  // empty if there are many
  // A packet that goes back, framed for its way.
  std::vector<std::byte> turned_ =
      std::vector<std::byte>(FlowState::kMaxFrameBytes);
};
SNF_REGISTER_NF(GatewayBalancer, "gwlb",
                "gateway load balancer: flows through appliances, in GENEVE");

}  // namespace
}  // namespace snf
