// SPDX-License-Identifier: Apache-2.0
#include "nfs/nat_ports.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/packet/endpoint.h"
#include "base/packet/ip_address.h"
#include "base/packet/ip_address_text.h"

namespace snf {

FlowKey KeyOf(NatEnd end, IpProtocol protocol) {
  return EndpointKey(IpAddress::FromIpv4(end.address), end.port, protocol,
                     FlowKeyForm::kIpv4Endpoint);
}

NatPorts::NatPorts(const NatOptions& options, const Declare& declare)
    : options_(options) {
  if (options.port_block > 0) {
    for (uint32_t i = 0; i < options.subscriber_count(); ++i) {
      const NatOptions::Block block = options.BlockOf(i);
      for (size_t kind = 0; kind < kProtocols; ++kind) {
        pools_.push_back(DeclarePool(declare, block.address, kind,
                                     {block.first, block.last}));
      }
    }
    for (size_t i = 0; options.overflow > 0 && i < options.addresses.size();
         ++i) {
      for (size_t kind = 0; kind < kProtocols; ++kind) {
        pools_.push_back(DeclarePool(
            declare, i, kind, {options.first_overflow(), options.last_port}));
      }
    }
    return;
  }
  const uint32_t first = options.first_port, last = options.last_port;
  for (size_t address = 0; address < options.addresses.size(); ++address) {
    for (size_t kind = 0; kind < kProtocols; ++kind) {
      pools_.push_back(
          DeclarePool(declare, address, kind,
                      {first, std::min(last, kWellKnownPorts - 1)}));
      pools_.push_back(DeclarePool(declare, address, kind,
                                   {std::max(first, kWellKnownPorts), last}));
    }
  }
}

std::optional<PoolId> NatPorts::DeclarePool(const Declare& declare,
                                            size_t address, size_t kind,
                                            Range ports) {
  static constexpr std::array<std::pair<const char*, IpProtocol>, kProtocols>
      kNames = {{{"tcp", IpProtocol::kTcp},
                 {"udp", IpProtocol::kUdp},
                 {"icmp", IpProtocol::kIcmp}}};
  if (ports.first > ports.last) return std::nullopt;
  const auto& [name, protocol] = kNames[kind];
  const be32 external = options_.addresses[address];
  kept_.push_back(options_.fixed.PortsOf(external, protocol));
  return declare(
      absl::StrCat(name, " ", Ipv4Text(IpAddress::FromIpv4(external)), " ",
                   ports.first, "-", ports.last),
      ports.first, ports.last, external);
}

size_t NatPorts::KindOf(IpProtocol protocol) {
  return protocol == IpProtocol::kTcp   ? 0
         : protocol == IpProtocol::kUdp ? 1
                                        : 2;
}

std::optional<PoolId> NatPorts::PoolOf(size_t address, IpProtocol protocol,
                                       bool is_high) const {
  return pools_[(address * kProtocols + KindOf(protocol)) * 2 +
                (is_high ? 1 : 0)];
}

std::optional<size_t> NatPorts::AddressOf(const NatView& view) const {
  if (options_.port_block > 0) {
    const auto subscriber = options_.SubscriberOf(view.source.address);
    if (!subscriber.has_value()) return std::nullopt;
    return options_.BlockOf(*subscriber).address;
  }
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

NatPorts::Taken NatPorts::Take(size_t address, const NatView& view,
                               FlowState& flow) const {
  if (options_.port_block > 0) return TakeOfBlock(address, view, flow);
  const uint32_t port = view.source.port.host();
  const bool is_high = port >= kWellKnownPorts;
  for (const bool high : {is_high, !is_high}) {
    const std::optional<PoolId> pool = PoolOf(address, view.protocol, high);
    if (!pool.has_value()) continue;
    const Range half = {high ? kWellKnownPorts : 0,
                        high ? 0xffff : kWellKnownPorts - 1};
    const std::optional<uint32_t> taken =
        TakeFrom(*pool, half, port, view, flow);
    if (taken.has_value()) {
      return {.pool = pool, .port = be16(static_cast<uint16_t>(*taken))};
    }
    if (!flow.is_exhausted(*pool)) return {.pool = pool};
  }
  return {};
}

NatPorts::Taken NatPorts::TakeOfBlock(size_t address, const NatView& view,
                                      FlowState& flow) const {
  const auto subscriber = options_.SubscriberOf(view.source.address);
  const NatOptions::Block block = options_.BlockOf(*subscriber);
  const std::optional<PoolId> pool =
      pools_[*subscriber * kProtocols + KindOf(view.protocol)];
  const uint32_t preferred =
      block.first + view.source.port.host() % options_.port_block;
  const std::optional<uint32_t> taken =
      TakeFrom(*pool, {block.first, block.last}, preferred, view, flow);
  if (taken.has_value()) {
    return {.pool = pool, .port = be16(static_cast<uint16_t>(*taken))};
  }
  if (!flow.is_exhausted(*pool)) return {.pool = pool};
  if (options_.overflow == 0) return {};
  const size_t shared = (options_.subscriber_count() + address) * kProtocols +
                        KindOf(view.protocol);
  const std::optional<PoolId> more = pools_[shared];
  const uint32_t first = options_.first_overflow();
  const std::optional<uint32_t> found =
      TakeFrom(*more, {first, options_.last_port},
               first + view.source.port.host() % options_.overflow, view, flow);
  if (found.has_value()) {
    return {.pool = more, .port = be16(static_cast<uint16_t>(*found))};
  }
  if (!flow.is_exhausted(*more)) return {.pool = more};
  return {};
}

std::optional<uint32_t> NatPorts::TakeFrom(PoolId pool, Range ports,
                                           uint32_t preferred,
                                           const NatView& view,
                                           FlowState& flow) const {
  PiecePreference wish = {.preferred = preferred};
  if (view.protocol != IpProtocol::kIcmp) {
    wish.parity = view.source.port.host() % 2 == 0
                      ? PiecePreference::Parity::kEven
                      : PiecePreference::Parity::kOdd;
    const auto taken = TakeBetweenForwards(pool, ports, wish, flow);
    if (taken.has_value()) return taken;
    wish.parity = PiecePreference::Parity::kAny;
  }
  return TakeBetweenForwards(pool, ports, wish, flow);
}

// Searches first from the preferred port on, then from the first one.
std::optional<uint32_t> NatPorts::TakeBetweenForwards(PoolId pool, Range ports,
                                                      PiecePreference wish,
                                                      FlowState& flow) const {
  const auto [first, last] = ports;
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
