// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/answers/answers.h"
#include "nfs/esp/esp_cipher.h"
#include "nfs/vpn_packet.h"
#include "nfs/vpn_tunnels.h"
#include "nfs/vpn_window.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

using Way = VpnTunnels::Way;

enum VpnDrop : uint8_t {
  kUnknownSpi,         // for an end of tunnels, and of none of them
  kMalformed,          // ESP or the packet in it cannot be read
  kCut,                // the capture or a card cut the packet
  kFragment,           // ESP in fragments
  kReplayed,           // its sequence number has come already
  kTooOld,             // its sequence number is older than the window
  kNotAuthentic,       // changed on its way, or of another key
  kNotSelected,        // the packet in ESP has ends that are not the tunnel's
  kNotProtected,       // in plain text, though a tunnel is to bring it
  kNoTunnel,           // nothing to the tunnels, with other=drop
  kTooBig,             // for the MTU, behind outer headers
  kSequenceExhausted,  // the key has had all its sequence numbers
  kCongestion,         // marked on its way, where its ends know no marks
  kNoRoom,             // for outer headers, in the packet's buffer
  kLinkUnsuited,       // the link header cannot stand in front of the result
};
constexpr std::array<std::string_view, 15> kDropNames = {
    "unknown_spi",   "malformed", "cut",           "fragment",
    "replayed",      "too_old",   "not_authentic", "not_selected",
    "not_protected", "no_tunnel", "too_big",       "sequence_exhausted",
    "congestion",    "no_room",   "link_unsuited"};

struct Options {
  explicit Options(NfOptions& options) {
    const auto given = options.Load<VpnTunnels>(
        "tunnels", "file of tunnels, one a line; nfs/vpn.md has its form",
        &VpnTunnels::Load);
    if (given != nullptr) {
      tunnels = given;
    } else {
      options.Fail("tunnels", "a file of tunnels");
    }
    window = static_cast<uint32_t>(
        options.Integer("window", window, VpnWindow::kMin, VpnWindow::kMax,
                        "sequence numbers behind the highest that may still "
                        "come, of each tunnel"));
    static constexpr std::array<std::string_view, 2> kOther = {"drop", "pass"};
    passes_others = options.Choice("other", 0, kOther,
                                   "fate of packets that are nothing to the "
                                   "tunnels") == 1;
    mtu = static_cast<uint32_t>(options.Integer(
        "mtu", mtu, 576, 65'535,
        "longest IP packet with its outer headers; a longer one is answered by "
        "ICMP"));
    // Hosts need not believe in less (RFC 8200 §5).
    constexpr uint32_t kLeastIpv6 = 1'280;
    for (const VpnTunnel& tunnel : tunnels->all()) {
      const bool has_ipv6 = std::ranges::any_of(
          tunnel.inside,
          [](const IpPrefix& prefix) { return !prefix.is_ipv4(); });
      if (has_ipv6 && VpnInnerMtu(tunnel, mtu) < kLeastIpv6) {
        options.Fail("mtu", absl::StrCat("room for 1280 bytes of IPv6 in ",
                                         tunnel.name, ", such as 1400"));
        break;
      }
    }
  }

  std::shared_ptr<const VpnTunnels> tunnels =
      std::make_shared<const VpnTunnels>();
  uint32_t window = 1'024;
  bool passes_others = false;
  uint32_t mtu = 1'500;
};

// Theory of operation. One end of IPsec tunnels: ESP (RFC 4303) with AES-GCM
// (RFC 4106) and keys that a file gives. A packet from a tunnel's inside to its
// remote addresses leaves encrypted, to the peer. A packet from the peer is
// authenticated, decrypted and forwarded to the inside.
//
// An association is a flow, whatever connections are in it: by SPI and
// receiver, as its receiver tells associations apart. So one unit at a time
// gives out its sequence numbers, or has its window, and they move as any
// state.
//
// Numbers. With GCM, two packets of one IV give away both, and the key of their
// tags. An IV is the greater of the packet's arrival in nanoseconds and one
// more than the IV before it, which is state. While the state exists, no
// IV comes twice; with loggers, a packet only leaves when its state is safe. If
// the state is lost with a unit, time has passed, and IVs are greater than all
// before. Sequence numbers then begin again, and the peer drops them as
// replayed. The flow of an association never times out.
//
// Example: 10.1.0.5 sends to 10.2.0.9. The tunnel from 192.0.2.1 has inside
// 10.1.0.0/16, remote 10.2.0.0/16 and the peer 198.51.100.1. So ESP goes from
// 192.0.2.1 to 198.51.100.1, with the next sequence number. A packet from
// 10.2.0.9 without ESP is dropped.
class Vpn final : public NetworkFunction {
 public:
  explicit Vpn(NfOptions& options) : options_(options) {
    // Each counter costs a line in reports.
    constexpr size_t kMaxCounted = 32;
    const std::span<const VpnTunnel> all = tunnels().all();
    for (const VpnTunnel& tunnel : all) {
      seals_.emplace_back(tunnel.key_out, true);
      opens_.emplace_back(tunnel.key_in, false);
      if (all.size() > kMaxCounted) continue;
      by_tunnel_.push_back(
          {declare_counter("out " + tunnel.name, "packets sent through it"),
           declare_counter("in " + tunnel.name, "packets that came by it")});
    }
  }

  FlowScope flow_scope() const override { return FlowScope::kOwnKey; }

  // Plain text that is to be protected must not leave.
  bool is_barrier() const override { return true; }
  // It goes by addresses; ESP in fragments is dropped.
  bool needs_first_fragment() const override { return false; }

  // The VLAN is no part of it: one association has one row of numbers.
  OwnFlow flow_key(const KeyedPacket& packet) const override {
    const VpnTunnels::Found found =
        tunnels().Find(packet.bytes, packet.headers);
    switch (found.way) {
      case Way::kOut:
        return {.key = TunnelOf(found).FlowOut(), .side = Side::kInside};
      case Way::kIn:
        return {.key = TunnelOf(found).FlowIn(), .side = Side::kOutside};
      case Way::kOther:
        return {.key = packet.connection};
      default:
        return {.key = packet.connection, .side = Side::kOutside};
    }
  }

  std::span<const std::string_view> drop_reasons() const override {
    return kDropNames;
  }

  Verdict process_packet(Packet& packet, FlowState& flow) override {
    const VpnTunnels::Found found =
        tunnels().Find(packet.bytes(), packet.headers());
    switch (found.way) {
      case Way::kOut:
        return SendThrough(packet, found.tunnel, flow);
      case Way::kIn:
        return Receive(packet, found, flow);
      case Way::kFragment:
        return Verdict::drop(kFragment);
      case Way::kShort:
        return Verdict::drop(kMalformed);
      case Way::kUnknownSpi:
        return Verdict::drop(kUnknownSpi);
      case Way::kUnprotected:
        return Verdict::drop(kNotProtected);
      case Way::kKeepalive:
        count(keepalives_);
        return Verdict::consume();
      case Way::kOther:
        break;
    }
    if (!options_.passes_others) return Verdict::drop(kNoTunnel);
    count(passed_by_);
    return Verdict::forward();
  }

 private:
  struct OfTunnel {
    Counter out;
    Counter in;
  };

  const VpnTunnels& tunnels() const { return *options_.tunnels; }
  const VpnTunnel& TunnelOf(const VpnTunnels::Found& found) const {
    return tunnels().all()[found.tunnel];
  }

  // --- To the peer ---------------------------------------------------------

  Verdict SendThrough(Packet& packet, uint32_t index, FlowState& flow) {
    const VpnTunnel& tunnel = tunnels().all()[index];
    if (!IsWholePacket(packet)) return Verdict::drop(kCut);
    constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
    VpnNumber number = flow.get(sent_);
    if (!flow.has(sent_)) number.sequence = tunnel.first - 1;
    if (number.sequence == tunnel.last() || number.iv == kMost) {
      return Verdict::drop(kSequenceExhausted);
    }
    const int64_t arrival = std::max<int64_t>(packet.arrival().ns, 0);
    ++number.sequence;
    number.iv = std::max(number.iv + 1, static_cast<uint64_t>(arrival));
    switch (Encapsulate(tunnel, number, options_.mtu, seals_[index], packet)) {
      case PacketResize::kDone:
        break;
      case PacketResize::kTooLong:
        return TooBig(packet, tunnel, flow);
      case PacketResize::kNoRoom:
        return Verdict::drop(kNoRoom);
      default:
        return Verdict::drop(kLinkUnsuited);
    }
    if (!flow.has(sent_)) flow.set_idle_timeout(Nanos::max());
    flow.put(sent_, number);
    if (!by_tunnel_.empty()) count(by_tunnel_[index].out);
    return Verdict::forward();
  }

  Verdict TooBig(const Packet& packet, const VpnTunnel& tunnel,
                 FlowState& flow) {
    const IcmpError answer =
        IcmpError::TooBig(packet.link(), packet.bytes(), packet.headers(),
                          VpnInnerMtu(tunnel, options_.mtu));
    if (flow.emit(answer.frame())) count(too_big_);
    return Verdict::drop(kTooBig);
  }

  // --- From the peer -------------------------------------------------------

  // The number is looked up before the text is decrypted, which costs more, and
  // kept behind it (RFC 4303 §3.4.3).
  Verdict Receive(Packet& packet, const VpnTunnels::Found& found,
                  FlowState& flow) {
    const VpnTunnel& tunnel = TunnelOf(found);
    if (!IsWholePacket(packet)) return Verdict::drop(kCut);
    const std::span<const std::byte> esp = packet.bytes().subspan(
        found.esp_offset, packet.headers().end_offset - found.esp_offset);
    constexpr size_t kAround = kEspHeaderBytes + EspCipher::kTagBytes;
    if (esp.size() < kAround + kEspAlignment ||
        (esp.size() - kAround) % kEspAlignment != 0) {
      return Verdict::drop(kMalformed);
    }
    const uint32_t low = LoadBe32(&esp[4]).host();
    const uint64_t highest = flow.get(highest_);
    const std::optional<uint64_t> sequence =
        tunnel.has_esn ? window_.Extended(highest, low) : low;
    if (!sequence.has_value()) return Verdict::drop(kTooOld);
    if (*sequence == 0) return Verdict::drop(kMalformed);  // the first is 1
    switch (window_.Look(highest, flow.get(seen_), *sequence)) {
      case VpnSeen::kReplayed:
        return Verdict::drop(kReplayed);
      case VpnSeen::kTooOld:
        return Verdict::drop(kTooOld);
      case VpnSeen::kNew:
        break;
    }
    const EspAssociated associated(tunnel.spi_in, *sequence, tunnel.has_esn);
    const std::span<std::byte> text =
        std::span(text_).first(esp.size() - kAround);
    if (!opens_[found.tunnel].Open(esp.subspan<8, EspCipher::kIvBytes>(),
                                   associated.bytes(),
                                   esp.subspan(kEspHeaderBytes, text.size()),
                                   esp.last<EspCipher::kTagBytes>(), text)) {
      return Verdict::drop(kNotAuthentic);
    }
    Keep(highest, *sequence, flow);
    return Deliver(packet, found.tunnel, text);
  }

  void Keep(uint64_t highest, uint64_t sequence, FlowState& flow) {
    if (!flow.has(seen_)) {
      flow.set_idle_timeout(Nanos::max());
      constexpr std::array<std::byte, kMostSeenBytes> kNone{};
      flow.put(seen_, std::span(kNone).first(window_.bytes()));
    }
    window_.Mark(highest, flow.get(seen_), sequence,
                 [&](size_t place, uint64_t word) {
                   flow.patch(seen_, static_cast<uint32_t>(place),
                              std::as_bytes(std::span(&word, 1)));
                 });
    if (sequence > highest) flow.put(highest_, sequence);
  }

  // The packet in the tunnel takes the place of the outer one's end, so that
  // nothing stands behind it.
  Verdict Deliver(Packet& packet, uint32_t index, std::span<std::byte> text) {
    const std::optional<EspText> read = ReadEspText(text);
    if (!read.has_value()) return Verdict::drop(kMalformed);
    if (read->is_dummy) {
      count(dummies_);
      return Verdict::consume();
    }
    if (!VpnTunnels::Selects(tunnels().all()[index], read->ends)) {
      return Verdict::drop(kNotSelected);
    }
    const ParsedPacket& headers = packet.headers();
    if (!BringCongestion(packet.bytes(), headers, read->ip)) {
      return Verdict::drop(kCongestion);
    }
    const size_t begin = headers.end_offset - read->ip.size();
    std::ranges::copy(read->ip, packet.bytes().subspan(begin).begin());
    const auto around = static_cast<uint32_t>(begin - headers.l3_offset);
    if (packet.decapsulate(around) != PacketResize::kDone) {
      return Verdict::drop(kLinkUnsuited);
    }
    if (!by_tunnel_.empty()) count(by_tunnel_[index].in);
    return Verdict::forward();
  }

  static constexpr size_t kMostSeenBytes = VpnWindow::kMax / 8 + 8;

  Options options_;
  VpnWindow window_{options_.window};
  std::vector<EspCipher> seals_;  // by tunnel
  std::vector<EspCipher> opens_;
  std::vector<OfTunnel> by_tunnel_;  // empty if there are many
  std::vector<std::byte> text_ = std::vector<std::byte>(65'536);
  // The last numbers of an association to the peer.
  Slot<VpnNumber> sent_ = declare<VpnNumber>("sent");
  // The highest sequence number from the peer, and the bits of the window.
  Slot<uint64_t> highest_ = declare<uint64_t>("highest");
  Blob seen_ = declare_blob("seen", window_.bytes());
  Counter passed_by_ =
      declare_counter("passed_by", "packets that are nothing to the tunnels");
  Counter too_big_ = declare_counter(
      "too_big", "ICMP errors sent about packets too long for a tunnel");
  Counter keepalives_ = declare_counter(
      "keepalives", "of peers behind a NAT, which go no further");
  Counter dummies_ =
      declare_counter("dummies", "packets of peers that only hide traffic");
};
SNF_REGISTER_NF(Vpn, "vpn", "IPsec ESP tunnels with AES-GCM and given keys");

}  // namespace
}  // namespace snf
