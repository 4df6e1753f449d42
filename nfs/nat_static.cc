// SPDX-License-Identifier: Apache-2.0
#include "nfs/nat_static.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/packet/ip_address.h"
#include "base/packet/ip_address_text.h"

namespace snf {
namespace {

constexpr std::string_view kArrow = "->";

// Returns the texts on both sides of the arrow, or nothing.
std::optional<std::pair<std::string_view, std::string_view>> Sides(
    std::string_view text) {
  const size_t at = text.find(kArrow);
  if (at == std::string_view::npos) return std::nullopt;
  return std::pair(text.substr(0, at), text.substr(at + kArrow.size()));
}

// Reads "192.0.2.1:80", or, of a whole address, "192.0.2.1".
std::optional<NatEnd> ParseEnd(std::string_view text, bool is_whole) {
  NatEnd end = {};
  if (is_whole) {
    const std::optional<IpAddress> address = ParseIpv4(text);
    if (!address.has_value()) return std::nullopt;
    end.address = address->ipv4();
  } else {
    const auto endpoint = NfOptions::ParseEndpoint(text);
    if (!endpoint.has_value() || endpoint->is_ipv6) return std::nullopt;
    end = {endpoint->address.ipv4(), endpoint->port};
  }
  if (!IsHostAddress(end.address)) return std::nullopt;
  return end;
}

std::optional<IpPrefix> ParseNetwork(std::string_view text) {
  const auto prefixes = ParsePrefixes(text);
  if (!prefixes.ok() || prefixes->size() != 1 || !prefixes->front().is_ipv4()) {
    return std::nullopt;
  }
  return prefixes->front();
}

// Calls `add` with each part of a list. `add` returns "", or the right form of
// the part; then the error names the part and its place.
template <typename Add>
void ForEach(const std::vector<std::string>& parts, const std::string& key,
             NfOptions& options, Add add) {
  size_t at = 1;
  for (const std::string& part : parts) {
    const std::string want = add(part);
    if (!want.empty()) {
      options.Fail(
          key, absl::StrCat(want, "; not \"", part, "\" at character ", at));
      return;
    }
    at += part.size() + 1;
  }
}

auto OrderOf(NatEnd end, IpProtocol protocol) {
  return std::tuple(end.address.host(), protocol, end.port.host());
}

}  // namespace

NatStatic::NatStatic(NfOptions& options) {
  AskForwards(options);
  AskExempt(options);
}

std::optional<NatStatic::Forward> NatStatic::ParseForward(
    std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view name = text.substr(0, colon);
  const bool is_whole = name == "ip";
  if (!is_whole && name != "tcp" && name != "udp") return std::nullopt;
  const auto sides = Sides(text.substr(colon + 1));
  if (!sides.has_value()) return std::nullopt;
  const std::optional<NatEnd> external = ParseEnd(sides->first, is_whole);
  const std::optional<NatEnd> inside = ParseEnd(sides->second, is_whole);
  if (!external.has_value() || !inside.has_value()) return std::nullopt;
  return Forward{.from = *external,
                 .to = *inside,
                 .protocol = is_whole        ? IpProtocol{}
                             : name == "tcp" ? IpProtocol::kTcp
                                             : IpProtocol::kUdp};
}

void NatStatic::AskForwards(NfOptions& options) {
  const auto order = [](const Forward& forward) {
    return OrderOf(forward.from, forward.protocol);
  };
  const auto clash = [&order](const std::vector<Forward>& forwards,
                              const Forward& added) {
    return std::ranges::any_of(forwards, [&](const Forward& forward) {
      const bool is_of_whole =
          forward.protocol == IpProtocol{} || added.protocol == IpProtocol{};
      return order(forward) == order(added) ||
             (is_of_whole && forward.from.address == added.from.address);
    });
  };
  ForEach(
      options.List("forward",
                   "tcp|udp:ADDRESS:PORT->ADDRESS:PORT or "
                   "ip:ADDRESS->ADDRESS",
                   "external ends that belong to inside ends"),
      "forward", options, [&](const std::string& part) -> std::string {
        const std::optional<Forward> forward = ParseForward(part);
        if (!forward.has_value()) {
          return "external ends with inside ends, joined by +, such as "
                 "tcp:203.0.113.1:80->10.0.0.5:8080 or "
                 "ip:203.0.113.9->10.0.0.9";
        }
        const Forward back = {forward->to, forward->from, forward->protocol};
        if (clash(by_external_, *forward) || clash(by_inside_, back)) {
          return "each end once";
        }
        if (by_external_.size() == kMaxForwards) {
          return absl::StrCat("at most ", kMaxForwards);
        }
        by_external_.push_back(*forward);
        by_inside_.push_back(back);
        return "";
      });
  std::ranges::sort(by_external_, {}, order);
  std::ranges::sort(by_inside_, {}, order);
}

void NatStatic::AskExempt(NfOptions& options) {
  ForEach(
      options.List("exempt", "PREFIX->PREFIX",
                   "networks inside and outside between which packets "
                   "stay untranslated"),
      "exempt", options, [&](const std::string& part) -> std::string {
        const auto sides = Sides(part);
        const auto inside = sides ? ParseNetwork(sides->first) : std::nullopt;
        const auto outside = sides ? ParseNetwork(sides->second) : std::nullopt;
        if (!inside.has_value() || !outside.has_value()) {
          return "networks inside and outside, joined by +, such as "
                 "10.0.0.0/8->192.168.0.0/16";
        }
        if (exempt_.size() == kMaxExempt) {
          return absl::StrCat("at most ", kMaxExempt);
        }
        exempt_.push_back({*inside, *outside});
        return "";
      });
}

std::optional<NatEnd> NatStatic::Find(const std::vector<Forward>& forwards,
                                      NatEnd from, IpProtocol protocol) {
  const auto find = [&forwards](NatEnd end, IpProtocol of) -> const Forward* {
    const auto wanted = OrderOf(end, of);
    const auto found = std::ranges::lower_bound(
        forwards, wanted, {}, [](const Forward& forward) {
          return OrderOf(forward.from, forward.protocol);
        });
    const bool is_there = found != forwards.end() &&
                          OrderOf(found->from, found->protocol) == wanted;
    return is_there ? &*found : nullptr;
  };
  if (const Forward* const whole = find({from.address, be16(0)}, {})) {
    return NatEnd{whole->to.address, from.port};
  }
  const Forward* const forward = find(from, protocol);
  if (forward == nullptr) return std::nullopt;
  return forward->to;
}

std::optional<NatEnd> NatStatic::InsideOf(NatEnd external,
                                          IpProtocol protocol) const {
  return Find(by_external_, external, protocol);
}

std::optional<NatEnd> NatStatic::ExternalOf(NatEnd inside,
                                            IpProtocol protocol) const {
  return Find(by_inside_, inside, protocol);
}

bool NatStatic::IsExternal(be32 address) const {
  const auto found = std::ranges::lower_bound(
      by_external_, address.host(), {},
      [](const Forward& forward) { return forward.from.address.host(); });
  return found != by_external_.end() && found->from.address == address;
}

bool NatStatic::HasWhole(be32 address) const {
  return std::ranges::any_of(by_external_, [address](const Forward& forward) {
    return forward.from.address == address && forward.protocol == IpProtocol{};
  });
}

std::vector<uint16_t> NatStatic::PortsOf(be32 address,
                                         IpProtocol protocol) const {
  std::vector<uint16_t> ports;
  for (const Forward& forward : by_external_) {
    if (forward.from.address == address && forward.protocol == protocol) {
      ports.push_back(forward.from.port.host());
    }
  }
  return ports;
}

bool NatStatic::IsExempt(be32 inside, be32 outside) const {
  return std::ranges::any_of(exempt_, [=](const Exempt& exempt) {
    return exempt.inside.Contains(IpAddress::FromIpv4(inside)) &&
           exempt.outside.Contains(IpAddress::FromIpv4(outside));
  });
}

}  // namespace snf
