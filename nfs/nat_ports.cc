// SPDX-License-Identifier: Apache-2.0
#include "nfs/nat_ports.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/packet/ip_address.h"
#include "base/packet/ip_address_text.h"

namespace snf {

NatPorts::NatPorts(const NatOptions& options, const Declare& declare) {
  static constexpr std::array<std::pair<const char*, IpProtocol>, kProtocols>
      kNames = {{{"tcp", IpProtocol::kTcp},
                 {"udp", IpProtocol::kUdp},
                 {"icmp", IpProtocol::kIcmp}}};
  const uint32_t first = options.first_port, last = options.last_port;
  for (const be32 address : options.addresses) {
    for (const auto& [name, protocol] : kNames) {
      const auto declare_half = [&](uint32_t from, uint32_t to) {
        if (from > to) return pools_.emplace_back();
        kept_.push_back(options.fixed.PortsOf(address, protocol));
        return pools_.emplace_back(declare(
            absl::StrCat(name, " ", Ipv4Text(IpAddress::FromIpv4(address)), " ",
                         from, "-", to),
            from, to, address));
      };
      declare_half(first, std::min(last, kWellKnownPorts - 1));
      declare_half(std::max(first, kWellKnownPorts), last);
    }
  }
}

std::optional<PoolId> NatPorts::PoolOf(size_t address, IpProtocol protocol,
                                       bool is_high) const {
  const size_t kind = protocol == IpProtocol::kTcp   ? 0
                      : protocol == IpProtocol::kUdp ? 1
                                                     : 2;
  return pools_[(address * kProtocols + kind) * 2 + (is_high ? 1 : 0)];
}

NatPorts::Taken NatPorts::Take(size_t address, const NatView& view,
                               FlowState& flow) const {
  const bool is_high = view.source.port.host() >= kWellKnownPorts;
  for (const bool high : {is_high, !is_high}) {
    const std::optional<PoolId> pool = PoolOf(address, view.protocol, high);
    if (!pool.has_value()) continue;
    const std::optional<uint32_t> port = TakeFrom(*pool, high, view, flow);
    if (port.has_value()) {
      return {.pool = pool, .port = be16(static_cast<uint16_t>(*port))};
    }
    if (!flow.is_exhausted(*pool)) return {.pool = pool};
  }
  return {};
}

std::optional<uint32_t> NatPorts::TakeFrom(PoolId pool, bool is_high,
                                           const NatView& view,
                                           FlowState& flow) const {
  const uint32_t port = view.source.port.host();
  PiecePreference wish = {.preferred = port};
  if (view.protocol != IpProtocol::kIcmp) {
    wish.parity = port % 2 == 0 ? PiecePreference::Parity::kEven
                                : PiecePreference::Parity::kOdd;
    const auto taken = TakeBetweenForwards(pool, is_high, wish, flow);
    if (taken.has_value()) return taken;
    wish.parity = PiecePreference::Parity::kAny;
  }
  return TakeBetweenForwards(pool, is_high, wish, flow);
}

// Searches first from the preferred port on, then from the half's first one.
std::optional<uint32_t> NatPorts::TakeBetweenForwards(PoolId pool, bool is_high,
                                                      PiecePreference wish,
                                                      FlowState& flow) const {
  const uint32_t first = is_high ? kWellKnownPorts : 0;
  const uint32_t last = is_high ? 0xffff : kWellKnownPorts - 1;
  const std::vector<uint16_t>& kept = kept_[static_cast<size_t>(pool)];
  if (kept.empty()) {
    wish.first = first;
    wish.last = last;
    return flow.take(pool, wish);
  }
  const bool is_here = wish.preferred >= first && wish.preferred <= last;
  for (const uint32_t begin : {is_here ? wish.preferred : first, first}) {
    wish.first = begin;
    auto next = std::ranges::lower_bound(kept, begin);
    while (wish.first <= last) {
      const bool is_last = next == kept.end() || *next > last;
      wish.last = is_last ? last : *next - 1u;
      const std::optional<uint32_t> taken = flow.take(pool, wish);
      if (taken.has_value()) return taken;
      if (is_last) break;
      wish.first = *next++ + 1u;
    }
  }
  return std::nullopt;
}

}  // namespace snf
