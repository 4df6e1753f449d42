// SPDX-License-Identifier: Apache-2.0
//
// The mappings that the model has.
#include <fmt/format.h>

#include <algorithm>

#include "platform/system_test/test_nat_model.h"

namespace snf {
namespace {

constexpr int64_t kTick = int64_t{1} << 30;  // in which peers age

}  // namespace

bool NatModel::IsExternal(uint32_t address) const {
  return std::ranges::find(options_.addresses, address) !=
         options_.addresses.end();
}

std::string NatModel::Where(const Delivery& packet) const {
  return fmt::format("packet {} of {}, at {} ns, was dropped for {}",
                     packet.number, Text(in_.source), packet.arrival,
                     packet.drop);
}

bool NatModel::IsSure(const Life& life, int64_t now) const {
  if (!life.mapping.has_value() || life.over.has_value()) return false;
  const Mapping& mapping = *life.mapping;
  return mapping.announced < now &&
         now - mapping.refreshed < MinTimeout(mapping, now);
}

// --- Making and ending -----------------------------------------------------

void NatModel::Map(const Delivery& packet, Life& life,
                   const ModelEnd& external) {
  // Since then the alias went to the controller, and its answer came back.
  Mapping mapping;
  mapping.external = external;
  mapping.made = packet.done - 2 * options_.hop;
  mapping.announced = packet.done - options_.hop;
  mapping.refreshed = packet.arrival;
  ++counts_["mappings"];
  CheckPort(packet, life, external);
  CheckHolder(packet, life, mapping);
  if (options_.host_ports > 0) CheckHostPorts(packet, life);
  holders_[external] = packet.flow;
  life.externals.insert(external);
  if (++life.mappings > 1) ++counts_["mappings of a flow that had one"];
  life.mapping = mapping;
}

void NatModel::CheckPort(const Delivery& packet, const Life& life,
                         const ModelEnd& external) {
  const ModelEnd& inside = life.endpoint;
  if (external.protocol != inside.protocol || !IsExternal(external.address) ||
      external.port < options_.first_port ||
      external.port > options_.last_port) {
    return Fault(packet, Text(external) + " is none of the pool's");
  }
  const auto [paired, is_new] =
      addresses_.try_emplace(inside.address, external.address);
  if (paired->second != external.address) {
    ++counts_["hosts with two addresses"];
    if (options_.is_paired) Fault(packet, "its host has another address");
  }
  if (external.port == inside.port) ++counts_["ports kept"];
  if (!options_.has_ports_for_all) return;
  // RFC 4787 REQ-3a; of low ports there may be too few.
  if (inside.port >= 1024 && external.port < 1024) {
    Fault(packet, Text(external) + " is of the other half");
  }
  // REQ-4 holds where the unit has some of that parity.
  if (inside.protocol == kProtocolIcmp) return;
  ++counts_[inside.port % 2 == external.port % 2 ? "parity kept"
                                                 : "parity lost"];
}

void NatModel::CheckHolder(const Delivery& packet, const Life& life,
                           const Mapping& mapping) {
  const auto holder = holders_.find(mapping.external);
  if (holder != holders_.end()) {
    Life& other = lives_.at(holder->second);
    if (&other != &life && other.mapping.has_value()) {
      if (IsSure(other, mapping.made)) {
        Fault(packet, fmt::format("{} is that of {}", Text(mapping.external),
                                  Text(other.endpoint)));
      }
      Unmap(other, mapping.made);
    }
  }
  const auto [last, is_first] =
      last_holders_.try_emplace(mapping.external, life.endpoint, packet.unit);
  if (is_first) return;
  if (last->second.first != life.endpoint) ++counts_["ports given to another"];
  if (last->second.second != packet.unit) {
    ++counts_["ports given at another unit"];
  }
  last->second = {life.endpoint, packet.unit};
}

void NatModel::CheckHostPorts(const Delivery& packet, const Life& life) {
  uint32_t mappings = 1;
  for (const auto& [endpoint, flow] : newest_) {
    const Life& other = lives_.at(flow);
    if (endpoint.address == life.endpoint.address && &other != &life &&
        IsSure(other, packet.done - options_.hop)) {
      ++mappings;
    }
  }
  if (mappings > options_.host_ports) {
    Fault(packet, fmt::format("its host has {} mappings", mappings));
  }
}

void NatModel::Unmap(Life& life, int64_t until) {
  const Mapping& mapping = *life.mapping;
  pasts_.push_back(
      {.endpoint = life.endpoint, .from = mapping.made, .until = until});
  const auto holder = holders_.find(mapping.external);
  if (holder != holders_.end() && &lives_.at(holder->second) == &life) {
    holders_.erase(holder);
  }
  life.mapping.reset();
}

// --- Peers -----------------------------------------------------------------

ModelEnd NatModel::PeerOf(ModelEnd end) {
  if (end.protocol == kProtocolIcmp) end.port = 0;
  return end;
}

void NatModel::Peer::Follow(const ModelPacket& packet, bool from_inside) {
  if (packet.has_flag(kFlagRst)) {
    reset = true;
    return;
  }
  const bool has_ended =
      !is_established() && (reset || inside_fin || outside_fin);
  if (packet.has_flag(kFlagSyn) && has_ended) *this = Peer{.sent = sent};
  reset = false;
  (from_inside ? inside : outside) = true;
  if (packet.has_flag(kFlagFin))
    (from_inside ? inside_fin : outside_fin) = true;
}

void NatModel::Sent(const Delivery& packet, Mapping& mapping) const {
  if (in_.is_later_fragment) return;
  const ModelEnd end = PeerOf(in_.destination);
  if (in_.has_flag(kFlagRst) && !mapping.peers.contains(end)) return;
  Peer& peer = mapping.peers[end];
  if (mapping.peers.size() > options_.peers) mapping.forgot_peers = true;
  peer.Follow(in_, true);
  if (in_.has_flag(kFlagRst)) return;
  peer.sent = packet.arrival;
  mapping.last_peer = end;
}

void NatModel::Received(const Delivery& packet, Mapping& mapping) const {
  const auto peer = mapping.peers.find(PeerOf(in_.source));
  if (in_.is_later_fragment || peer == mapping.peers.end()) return;
  peer->second.Follow(in_, false);
  if (options_.inbound_refreshes) peer->second.sent = packet.arrival;
}

int64_t NatModel::MinTimeout(const Mapping& mapping, int64_t now) const {
  if (mapping.external.protocol == kProtocolUdp) return options_.udp;
  if (mapping.external.protocol == kProtocolIcmp) return options_.icmp;
  const bool is_established =
      std::ranges::any_of(mapping.peers, [&](const auto& entry) {
        const Peer& peer = entry.second;
        return peer.is_established() && now - peer.sent <= options_.tcp;
      });
  return is_established && !mapping.forgot_peers ? options_.tcp
                                                 : options_.tcp_transitory;
}

int64_t NatModel::MaxTimeout(const Mapping& mapping) const {
  if (mapping.external.protocol == kProtocolUdp) return options_.udp;
  if (mapping.external.protocol == kProtocolIcmp) return options_.icmp;
  const bool is_established = std::ranges::any_of(
      mapping.peers,
      [](const auto& entry) { return entry.second.is_established(); });
  return is_established || mapping.forgot_peers ? options_.tcp
                                                : options_.tcp_transitory;
}

// The oldest peer makes room for a new one; of TCP one that is not established
// does, which is not followed here.
NatModel::Admits NatModel::IsKnown(const Mapping& mapping, const ModelEnd& end,
                                   const Peer& peer) const {
  if (end == mapping.last_peer) return Admits::kYes;
  if (end.protocol == kProtocolTcp || options_.inbound_refreshes) {
    return Admits::kPerhaps;
  }
  uint32_t newer = 0, perhaps_newer = 0;
  for (const auto& [other, known] : mapping.peers) {
    if (other == end) continue;
    newer += known.sent > peer.sent + kTick ? 1 : 0;
    perhaps_newer += known.sent > peer.sent - kTick ? 1 : 0;
  }
  return newer >= options_.peers          ? Admits::kNo
         : perhaps_newer < options_.peers ? Admits::kYes
                                          : Admits::kPerhaps;
}

NatModel::Admits NatModel::AdmitsPeer(const Mapping& mapping, ModelEnd from,
                                      bool any_port, int64_t now) const {
  using Filtering = NatModelOptions::Filtering;
  if (options_.filtering == Filtering::kNone) return Admits::kYes;
  any_port = any_port || options_.filtering == Filtering::kAddress;
  constexpr int64_t kTicks = 2 * kTick;
  Admits admits = Admits::kNo;
  for (const auto& [end, peer] : mapping.peers) {
    if (end.address != from.address || (!any_port && end != PeerOf(from))) {
      continue;
    }
    const bool is_tcp = end.protocol == kProtocolTcp;
    const bool is_established = peer.is_established();
    const int64_t other = is_tcp ? options_.tcp_transitory
                          : end.protocol == kProtocolUdp ? options_.udp
                                                         : options_.icmp;
    const bool forgot = mapping.forgot_peers;
    const int64_t least =
        is_tcp && is_established && !forgot ? options_.tcp : other;
    const int64_t most =
        is_tcp && (is_established || forgot) ? options_.tcp : other;
    const int64_t age = now - peer.sent;
    const Admits is_known = forgot ? IsKnown(mapping, end, peer) : Admits::kYes;
    if (age <= least && is_known == Admits::kYes) return Admits::kYes;
    if (age <= most + kTicks && is_known != Admits::kNo) {
      admits = Admits::kPerhaps;
    }
  }
  return admits;
}

}  // namespace snf
