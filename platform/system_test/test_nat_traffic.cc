// SPDX-License-Identifier: Apache-2.0
#include "platform/system_test/test_nat_traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>

#include "base/packet/ip_prefix.h"
#include "platform/system_test/test_schedule.h"

namespace snf {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr uint32_t kPackets = 220;
constexpr uint32_t kRoomForAll = 512;            // with those that come back
constexpr uint32_t kExternalBase = 0xc633'6401;  // 198.51.100.1
constexpr uint32_t kPeerBase = 0xc000'0201;      // 192.0.2.1
constexpr uint32_t kRouter = 0xcb00'7101;        // 203.0.113.1
constexpr uint32_t kInsideRouter = 0x0aff'0001;  // 10.255.0.1

// Each packet to another unit than the one before, and all to a few units,
// which are others after a while.
class Scatter final : public PlacementPolicy {
 public:
  std::string_view name() const override { return "scatter"; }
  std::string_view help() const override { return "for tests"; }
  bool per_packet() const override { return true; }
  Placement Place(Instant now, const PlacementRequest& request, UnitPool& units,
                  ControllerOut& out) const override {
    const uint32_t count = units.max_units();
    const auto phase = static_cast<uint64_t>(now.ns / (150 * kMs));
    Rng of_phase(phase);
    const uint64_t first = of_phase.Below(count);
    const uint64_t few = 1 + of_phase.Below(count);
    uint64_t unit =
        first +
        Rng(request.key_hash ^ static_cast<uint64_t>(now.ns)).Below(few);
    for (uint32_t tried = 0; tried < count; ++tried, ++unit) {
      const UnitId id{static_cast<uint16_t>(unit % count)};
      if (id == request.owner && tried + 1 < count) continue;
      if (units.Use(now, id, out)) return {.unit = id};
    }
    return {};
  }
};

// --- Traffic ---------------------------------------------------------------

struct Inside {
  ModelEnd end;
  bool is_known = false;             // it has sent to somebody outside
  std::vector<ModelEnd> peers = {};  // whom it sent to
};

class Traffic {
 public:
  Traffic(Rng& rng, const NatModelOptions& model, std::vector<Inside> insides)
      : rng_(rng), model_(model), insides_(std::move(insides)) {
    // A run of two hours has too many epochs.
    has_two_hours_ = model.tcp > 1'000'000 * kMs;
    longest_ = has_two_hours_ ? model.udp
                              : std::max({model.udp, model.tcp, model.icmp});
  }

  std::vector<OfferedFrame> Make() {
    while (packets_.size() < kPackets) {
      Wait();
      Inside& inside = Any();
      if (!inside.is_known && !model_.has_prefix) {
        Outbound(inside);
      } else {
        Something(inside);
      }
    }
    return std::move(packets_);
  }

 private:
  static constexpr size_t kWindow = 6;

  void Wait() {
    static constexpr std::array<uint32_t, 5> kWeights = {40, 100, 60, 12, 8};
    switch (rng_.Weighted(kWeights)) {
      case 0:
        break;
      case 1:
        time_ += rng_.Exponential(20'000);
        break;
      case 2:
        time_ += rng_.Exponential(3 * kMs);
        break;
      case 3:
        time_ += rng_.Exponential(longest_ / 10);
        window_ = rng_.Below(insides_.size());
        break;
      default:
        time_ += rng_.Exponential(longest_ / 2);
        break;
    }
  }

  Inside& Any() {
    if (rng_.Chance(10'000)) return insides_[rng_.Below(insides_.size())];
    return insides_[(window_ + rng_.Below(kWindow)) % insides_.size()];
  }

  uint32_t number() const { return static_cast<uint32_t>(packets_.size()); }
  void Add(Frame frame) {
    packets_.push_back({.time = Instant{time_},
                        .bytes = std::move(frame),
                        .original_length = kFirstLength + number()});
  }

  ModelEnd AnyPeer(uint8_t protocol) {
    static constexpr std::array<uint16_t, 3> kPorts = {53, 80, 4'001};
    return {.protocol = protocol,
            .port = kPorts[rng_.Below(kPorts.size())],
            .address = kPeerBase + static_cast<uint32_t>(rng_.Below(3))};
  }
  ModelEnd PeerOf(Inside& inside) {
    if (inside.peers.empty() || rng_.Chance(9'000)) {
      return AnyPeer(inside.end.protocol);
    }
    return inside.peers[rng_.Below(inside.peers.size())];
  }
  // Perhaps somebody has it.
  ModelEnd AnyExternal(uint8_t protocol) {
    ModelEnd end = {
        .protocol = protocol,
        .address = model_.addresses[rng_.Below(model_.addresses.size())]};
    const Inside& other = insides_[rng_.Below(insides_.size())];
    const bool is_ports = other.end.port >= model_.first_port &&
                          other.end.port <= model_.last_port;
    const int64_t last = std::min(model_.first_port + 40, +model_.last_port);
    end.port =
        is_ports && rng_.Chance(32'768)
            ? other.end.port
            : static_cast<uint16_t>(rng_.Uniform(model_.first_port, last));
    return end;
  }

  ModelFields Fields(ModelEnd from, ModelEnd to, bool from_inside) {
    static constexpr std::array<uint8_t, 6> kFlags = {
        kFlagSyn, kFlagAck,           kFlagAck, kFlagAck | kFlagFin,
        kFlagRst, kFlagSyn | kFlagAck};
    static constexpr std::array<uint32_t, 6> kWeights = {6, 10, 10, 4, 2, 6};
    return {.source = from,
            .destination = to,
            .tcp_flags = kFlags[rng_.Weighted(kWeights)],
            .is_reply = rng_.Chance(from_inside ? 8'000 : 55'000),
            .has_udp_checksum = !rng_.Chance(8'000),
            .has_wrong_checksum = rng_.Chance(1'500),
            .id = static_cast<uint16_t>(number()),
            .number = number()};
  }
  // A query's identifier is that of the inside, whichever way it goes.
  ModelFields Outward(const Inside& inside, const ModelEnd& to) {
    ModelFields fields = Fields(inside.end, to, true);
    if (to.protocol == kProtocolIcmp) fields.destination.port = inside.end.port;
    return fields;
  }
  ModelFields Inward(const ModelEnd& from, const ModelEnd& to) {
    ModelFields fields = Fields(from, to, false);
    if (to.protocol == kProtocolIcmp) fields.source.port = to.port;
    return fields;
  }

  void Outbound(Inside& inside) {
    const ModelEnd peer = PeerOf(inside);
    inside.is_known = true;
    if (std::ranges::find(inside.peers, peer) == inside.peers.end()) {
      inside.peers.push_back(peer);
    }
    Add(ModelFrame(Outward(inside, peer)));
  }
  void Inbound(Inside& inside) {
    Add(ModelFrame(Inward(PeerOf(inside), inside.end)));
  }
  void Hairpin(const Inside& inside) {
    ModelFields fields = Outward(inside, AnyExternal(inside.end.protocol));
    fields.is_reply = false;
    Add(ModelFrame(fields));
  }
  void InFragments(ModelFields fields) {
    const uint32_t now = number();
    if (rng_.Chance(6'000)) {
      fields.number = now + 1;
      Fragments fragments = ModelFragments(fields, now);
      Add(std::move(fragments.later));
      return Add(std::move(fragments.first));
    }
    Fragments fragments = ModelFragments(fields, now + 1);
    Add(std::move(fragments.first));
    if (rng_.Chance(20'000)) time_ += rng_.Exponential(2 * kMs);
    Add(std::move(fragments.later));
  }
  // Nothing but answers, which keep the flow but not its mapping; and when that
  // is over, the inside sends again before the flow has ended.
  void Starve(Inside& inside) {
    const int64_t timeout = TimeoutOf(inside.end.protocol);
    Outbound(inside);
    for (int i = 0; i < 4; ++i) {
      time_ += timeout / 3;
      Inbound(inside);
    }
    time_ += rng_.Exponential(10'000);
    Outbound(inside);
    Inbound(inside);
  }
  int64_t TimeoutOf(uint8_t protocol) const {
    return protocol == kProtocolUdp                 ? model_.udp
           : protocol == kProtocolIcmp              ? model_.icmp
           : !has_two_hours_ && rng_.Chance(32'768) ? model_.tcp
                                                    : model_.tcp_transitory;
  }
  // Of somebody about what came from the peer or an external endpoint.
  void ErrorOutbound(const Inside& inside, const ModelEnd& peer) {
    const bool by_router = rng_.Chance(16'384);
    Add(ModelError(by_router ? kInsideRouter : inside.end.address, peer.address,
                   Inward(peer, inside.end), AnyQuote()));
  }
  void ErrorInbound(Inside& inside) {
    const ModelEnd peer = PeerOf(inside);
    const bool by_router = rng_.Chance(32'768);
    Add(ModelError(by_router ? kRouter : peer.address, inside.end.address,
                   Outward(inside, peer), AnyQuote()));
  }
  size_t AnyQuote() {
    static constexpr std::array<size_t, 3> kBytes = {8, 20, 28};
    return kBytes[rng_.Below(kBytes.size())];
  }

  void Something(Inside& inside) {
    enum {
      kOut,
      kIn,
      kHairpin,
      kOutFragments,
      kInFragments,
      kOutError,
      kHairpinError,
      kInError,
      kUnsolicited,
      kSpoof,
      kStarve
    };
    static constexpr std::array<uint32_t, 11> kWeights = {90, 60, 24, 8, 6, 6,
                                                          5,  12, 8,  1, 4};
    const uint8_t protocol = inside.end.protocol;
    switch (rng_.Weighted(kWeights)) {
      case kOut:
        return Outbound(inside);
      case kIn:
        return Inbound(inside);
      case kHairpin:
        return Hairpin(inside);
      case kOutFragments:
        return InFragments(Outward(inside, rng_.Chance(16'384)
                                               ? AnyExternal(protocol)
                                               : PeerOf(inside)));
      case kInFragments:
        return InFragments(Inward(PeerOf(inside), inside.end));
      case kOutError:
        return ErrorOutbound(inside, PeerOf(inside));
      case kHairpinError:
        return ErrorOutbound(inside, AnyExternal(protocol));
      case kInError:
        return ErrorInbound(inside);
      case kUnsolicited:
        // Who sends to an endpoint that is nobody's is taken for the inside
        // where no prefix tells.
        if (!model_.has_prefix) return Outbound(inside);
        return Add(ModelFrame(Inward(PeerOf(inside), AnyExternal(protocol))));
      case kStarve:
        return Starve(inside);
      default: {
        const ModelEnd spoofed = {
            .protocol = protocol, .port = 7, .address = model_.addresses[0]};
        return Add(ModelFrame(Inward(spoofed, AnyPeer(protocol))));
      }
    }
  }

  Rng& rng_;
  const NatModelOptions& model_;
  std::vector<Inside> insides_;
  bool has_two_hours_ = false;
  int64_t longest_ = 0;
  int64_t time_ = 0;
  size_t window_ = 0;
  std::vector<OfferedFrame> packets_;
};

std::vector<Inside> AnyInsides(Rng& rng, uint16_t first_port) {
  const auto hosts = static_cast<uint64_t>(rng.Uniform(1, 12));
  const auto count = static_cast<size_t>(rng.Uniform(1, 45));
  std::set<ModelEnd> there;
  std::vector<Inside> insides;
  while (insides.size() < count) {
    static constexpr std::array<uint8_t, 3> kProtocols = {
        kProtocolTcp, kProtocolUdp, kProtocolIcmp};
    static constexpr std::array<uint32_t, 3> kWeights = {45, 40, 15};
    const uint16_t from = rng.Chance(16'384)   ? 700
                          : rng.Chance(32'768) ? first_port
                                               : 20'000;
    const ModelEnd end = {
        .protocol = kProtocols[rng.Weighted(kWeights)],
        .port = static_cast<uint16_t>(from + rng.Below(60)),
        .address = 0x0a00'0001 + static_cast<uint32_t>(rng.Below(hosts))};
    if (there.insert(end).second) insides.push_back({.end = end});
  }
  return insides;
}

// --- Options ---------------------------------------------------------------

std::string Ms(int64_t ns) { return fmt::format("{}ms", ns / kMs); }

// Timeouts, in whole milliseconds; filter and limits.
std::string SetAnyNat(Rng& rng, NatModelOptions& m) {
  std::string text;
  const auto seconds = [&rng](int64_t low, int64_t high) {
    return rng.Uniform(low * 1'000, high * 1'000) * kMs;
  };
  if (rng.Chance(3'000)) {
    m.udp = 300'000 * kMs;
    m.tcp = 7'440'000 * kMs;
    m.tcp_transitory = 240'000 * kMs;
    m.icmp = 60'000 * kMs;
  } else {
    m.udp = seconds(3, 8);
    m.tcp_transitory = seconds(3, 6);
    m.tcp = m.tcp_transitory + seconds(0, 12);
    m.icmp = seconds(3, 5);
    text += fmt::format(
        ",udp_timeout={},tcp_timeout={},tcp_transitory_timeout={},"
        "icmp_timeout={}",
        Ms(m.udp), Ms(m.tcp), Ms(m.tcp_transitory), Ms(m.icmp));
  }
  static constexpr std::array<std::string_view, 3> kFilters = {
      "endpoint_independent", "address_dependent",
      "address_and_port_dependent"};
  const uint64_t filter = rng.Below(3);
  m.filtering = NatModelOptions::Filtering{static_cast<uint8_t>(filter)};
  text += fmt::format(",filtering={}", kFilters[filter]);
  m.peers = static_cast<uint32_t>(rng.Chance(16'384) ? rng.Uniform(1, 3) : 64);
  text += fmt::format(",peers={}", m.peers);
  if (rng.Chance(13'000)) {
    m.host_ports = static_cast<uint32_t>(rng.Uniform(1, 6));
    text += fmt::format(",host_ports={}", m.host_ports);
  }
  m.inbound_refreshes = rng.Chance(16'384);
  if (m.inbound_refreshes) text += ",refresh=both";
  m.is_paired = rng.Chance(45'000);
  if (!m.is_paired) text += ",pooling=arbitrary";
  return text;
}

std::string SetAnyPool(Rng& rng, NatModelOptions& m, uint16_t from,
                       const std::vector<Inside>& insides) {
  const auto addresses =
      static_cast<uint32_t>(rng.Chance(30'000) ? rng.Uniform(1, 3) : 1);
  for (uint32_t i = 0; i < addresses; ++i) {
    m.addresses.push_back(kExternalBase + i);
  }
  m.first_port = from;
  m.has_ports_for_all = rng.Chance(16'384);
  // As many as keep, at each of 32 units, 320 that are not used.
  int64_t ports = 16'384;
  if (!m.has_ports_for_all) {
    // 1 … 100 % of what the most frequent protocol needs at an address.
    std::array<int64_t, 256> need{};
    for (const Inside& inside : insides) ++need[inside.end.protocol];
    ports = *std::ranges::max_element(need) * rng.Uniform(1, 100) / 100;
    ports = std::max<int64_t>(1, ports / addresses);
  }
  m.last_port = static_cast<uint16_t>(m.first_port + ports - 1);
  return fmt::format("ip=198.51.100.1-198.51.100.{},ports={}-{}", addresses,
                     m.first_port, m.last_port);
}

void SetAnyRoom(Rng& rng, RunOptions& options, NatModelOptions& m) {
  ControllerOptions& c = options.controller;
  m.has_room_for_all = rng.Chance(45'000);
  if (m.has_room_for_all) {
    c.unit_queue_packets = c.start_buffer_packets = kRoomForAll;
    c.max_flows = options.hold_packets = kRoomForAll;
  }
  m.has_buffers_for_all = options.buffers.medium > 0;
}

}  // namespace

NatSchedule AnyNatSchedule(Rng& rng) {
  static const Scatter kScatter;
  NatSchedule schedule;
  const Schedule any = AnyScheduleOfAsks(rng);
  schedule.options = any.options;
  schedule.policy =
      rng.Chance(42'000) ? &kScatter : FindPlacementPolicy(any.policy);
  RunOptions& options = schedule.options;
  NatModelOptions& m = schedule.model;
  const auto first_port = static_cast<uint16_t>(
      rng.Chance(10'000) ? 1024 - rng.Uniform(1, 20) : 1024);
  std::vector<Inside> insides = AnyInsides(rng, first_port);
  const std::string pool = SetAnyPool(rng, m, first_port, insides);
  schedule.nf =
      NfSpec(*FindNf("nat"), *NfOptions::Parse(pool + SetAnyNat(rng, m)));
  SetAnyRoom(rng, options, m);
  options.flow.kind = FlowKeyKind::kConnection;
  options.flow.vlan = false;
  ControllerOptions& c = options.controller;
  // What takes long in a run is still short for the NAT: where messages are
  // lost again and again, flows end that have packets on their way.
  options.state_retry = std::min(options.state_retry, Nanos{5 * kMs});
  options.chaos.state_loss_65536 =
      std::min(options.chaos.state_loss_65536, 3'000u);
  c.flow_timeout = Nanos{std::max({m.udp, m.tcp, m.icmp}) + 1'000 * kMs};
  c.unit_capacity_bps = rng.Uniform(20, 1'000) * 1'000'000;
  if (rng.Chance(8'000)) c.max_units = 1;
  m.has_one_unit = c.max_units == 1;
  m.hop = options.hop_delay.ns;
  m.has_prefix = rng.Chance(32'768);
  if (m.has_prefix) options.inside = *ParsePrefixes("10.0.0.0/8");
  schedule.packets = Traffic(rng, m, std::move(insides)).Make();
  return schedule;
}

}  // namespace snf
