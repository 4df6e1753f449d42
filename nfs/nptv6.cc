// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/packet/flow_key.h"
#include "base/packet/ip_headers.h"
#include "base/packet/ip_prefix.h"
#include "nfs/nptv6_map.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

enum Nptv6Drop : uint8_t {
  kNoCounterpart,  // the address has none in the other prefix
};
constexpr std::array<std::string_view, 1> kDropNames = {"no_counterpart"};

// Theory of operation. IPv6-to-IPv6 network prefix translation (RFC 6296): the
// source of a packet from the prefix `inside` and the destination of a packet
// to the prefix `outside` get the other prefix, address by address. There is no
// state, so connections may begin on either side, and no checksum changes
// (nptv6_map.h). nfs/nptv6.md says how each requirement is met.
//
// A flow is a connection between inside addresses, whichever addresses its
// packets have, so that NFs beside this one in a chain see one flow.
class Nptv6 final : public NetworkFunction {
 public:
  explicit Nptv6(NfOptions& options) {
    const std::optional<IpPrefix> inside =
        AskPrefix(options, "inside", "fd00::/48", "prefix of the hosts inside");
    const std::optional<IpPrefix> outside =
        AskPrefix(options, "outside", "2001:db8::/48",
                  "prefix that hosts inside have outside");
    if (!inside.has_value() || !outside.has_value()) return;
    map_ = Nptv6Map::Of(*inside, *outside);
    if (!map_.has_value()) {
      options.Fail("outside",
                   "another IPv6 prefix than inside, both of 1 to 64 bits");
    }
  }

  FlowScope flow_scope() const override { return FlowScope::kOwnKey; }

  OwnFlow flow_key(const KeyedPacket& packet) const override {
    OwnFlow flow = {.key = packet.connection};
    const bool is_ipv6 = flow.key.form == FlowKeyForm::kIpv6 ||
                         flow.key.form == FlowKeyForm::kIpv6Fragment;
    if (!is_ipv6 || !map_.has_value()) return flow;
    const bool is_forward = packet.direction == Direction::kForward;
    const IpAddress& from = is_forward ? flow.key.source : flow.key.destination;
    const IpAddress& to = is_forward ? flow.key.destination : flow.key.source;
    if (map_->IsInside(from)) {
      flow.side = Side::kInside;
    } else if (map_->IsOutside(to)) {
      flow.side = Side::kOutside;
    }
    const bool is_changed =
        MapIfOutside(flow.key.source) | MapIfOutside(flow.key.destination);
    if (is_changed && flow.key.form == FlowKeyForm::kIpv6) {
      Canonicalize(flow.key);
    }
    return flow;
  }

  bool is_barrier() const override { return true; }
  // It changes addresses alone.
  bool needs_first_fragment() const override { return false; }

  std::span<const std::string_view> drop_reasons() const override {
    return kDropNames;
  }

  Verdict process_packet(Packet& packet, FlowState& /*flow*/) override {
    const ParsedPacket& headers = packet.headers();
    if (headers.l3 != L3::kIpv6) return PassBy();
    const auto ip =
        Ipv6Header<std::byte>::At(packet.bytes(), headers.l3_offset);
    const IpAddress source = ip.source(), destination = ip.destination();
    const bool is_outbound =
        map_->IsInside(source) && !map_->IsInside(destination);
    const bool is_inbound = map_->IsOutside(destination);
    if (!is_outbound && !is_inbound) return PassBy();
    const auto new_source = is_outbound ? map_->ToOutside(source) : source;
    const auto new_destination =
        is_inbound ? map_->ToInside(destination) : destination;
    if (!new_source.has_value() || !new_destination.has_value()) {
      return Verdict::drop(kNoCounterpart);
    }
    TranslateQuoted(packet, is_outbound, is_inbound);
    ip.set_source(*new_source);
    ip.set_destination(*new_destination);
    count(translated_);
    return Verdict::forward();
  }

 private:
  static std::optional<IpPrefix> AskPrefix(NfOptions& options, const char* key,
                                           const char* usual,
                                           const char* help) {
    const auto prefixes =
        ParsePrefixes(options.Text(key, usual, "PREFIX", help));
    if (prefixes.ok() && prefixes->size() == 1 &&
        !prefixes->front().is_ipv4()) {
      return prefixes->front();
    }
    options.Fail(key, "an IPv6 prefix of 1 to 64 bits, such as fd00::/48");
    return std::nullopt;
  }

  Verdict PassBy() {
    count(passed_by_);
    return Verdict::forward();
  }

  bool MapIfOutside(IpAddress& address) const {
    if (!map_->IsOutside(address)) return false;
    const std::optional<IpAddress> inside = map_->ToInside(address);
    if (!inside.has_value()) return false;
    address = *inside;
    return true;
  }

  // The packet that an ICMPv6 error quotes went the other way. An address that
  // has no counterpart stays.
  void TranslateQuoted(const Packet& packet, bool is_outbound,
                       bool is_inbound) const {
    const ParsedPacket& headers = packet.headers();
    if (headers.icmp_inner_offset == 0) return;
    const auto inner =
        Ipv6Header<std::byte>::At(packet.bytes(), headers.icmp_inner_offset);
    if (!inner) return;
    if (is_outbound && map_->IsInside(inner.destination())) {
      const auto outside = map_->ToOutside(inner.destination());
      if (outside.has_value()) inner.set_destination(*outside);
    }
    if (is_inbound && map_->IsOutside(inner.source())) {
      const auto inside = map_->ToInside(inner.source());
      if (inside.has_value()) inner.set_source(*inside);
    }
  }

  std::optional<Nptv6Map> map_;  // has a value if the options are right
  Counter translated_ =
      declare_counter("translated", "packets with another prefix");
  Counter passed_by_ = declare_counter(
      "passed_by", "packets that do not cross the border of the prefixes");
};
SNF_REGISTER_NF(Nptv6, "nptv6",
                "IPv6 network prefix translation, without state");

}  // namespace
}  // namespace snf
