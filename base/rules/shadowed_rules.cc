// SPDX-License-Identifier: Apache-2.0
#include "base/rules/shadowed_rules.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "base/byte_order.h"

namespace snf {
namespace {

// Addresses of both versions are numbers of 128 bits, ports are such too.
using Number = unsigned __int128;

Number NumberOf(const IpAddress& address) {
  const auto half = [&address](size_t at) {
    return SwapToBigEndian(LoadAs<uint64_t>(&address.bytes[at]));
  };
  return Number{half(0)} << 64 | half(8);
}
IpAddress AddressOf(Number number) {
  IpAddress address;
  for (size_t i = 0; i < address.bytes.size(); ++i) {
    address.bytes[i] = static_cast<std::byte>(number >> (120 - 8 * i));
  }
  return address;
}

// A set of numbers, as intervals in order that neither overlap nor touch.
class Intervals {
 public:
  Intervals() = default;
  explicit Intervals(std::vector<std::pair<Number, Number>> all) {
    std::ranges::sort(all);
    for (const auto& [first, last] : all) {
      const bool touches = !all_.empty() && (first <= all_.back().second ||
                                             first - 1 == all_.back().second);
      if (touches) {
        all_.back().second = std::max(all_.back().second, last);
      } else {
        all_.emplace_back(first, last);
      }
    }
  }

  bool empty() const { return all_.empty(); }
  Number first() const { return all_.front().first; }
  // Returns true if all of `other` are in the set too.
  bool Contains(const Intervals& other, int64_t& steps) const {
    if (&other == this) return true;
    for (const auto& [first, last] : other.all_) {
      if (--steps < 0) return false;
      const auto after = std::ranges::upper_bound(
          all_, first, {}, [](const auto& one) { return one.first; });
      if (after == all_.begin() || std::prev(after)->second < last) {
        return false;
      }
    }
    return true;
  }

 private:
  std::vector<std::pair<Number, Number>> all_;
};

constexpr std::array<bool, 2> kVersions = {true, false};  // of IPv4, of IPv6

// Returns the prefixes of one version of IP; all of its addresses if there are
// no prefixes at all.
Intervals AddressesIn(const std::vector<IpPrefix>& prefixes, bool ipv4) {
  const auto last_of = [](Number first, size_t length) {
    return length == 0 ? ~Number{0}
                       : first | ((Number{1} << (128 - length)) - 1);
  };
  std::vector<std::pair<Number, Number>> all;
  for (const IpPrefix& prefix : prefixes) {
    if (prefix.is_ipv4() != ipv4) continue;
    const Number first = NumberOf(prefix.address);
    all.emplace_back(first, last_of(first, prefix.length));
  }
  if (prefixes.empty()) {
    const Number first =
        ipv4 ? NumberOf(IpAddress::FromIpv4(be32(0))) : Number{0};
    all.emplace_back(first, last_of(first, ipv4 ? 96 : 0));
  }
  return Intervals(std::move(all));
}

Intervals PortsIn(const std::vector<PortRange>& ranges) {
  std::vector<std::pair<Number, Number>> all;
  for (const PortRange& range : ranges) {
    all.emplace_back(range.first, range.last);
  }
  return Intervals(std::move(all));
}

// The packets of one version of IP that a rule matches. Parts point to a set's
// or to their own intervals.
struct Parts {
  explicit Parts(const PacketRule& of) : rule(of) {}
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  const PacketRule& rule;
  std::array<Intervals, 4> own;
  // Source and destination addresses, then ports; null if the rule asks for no
  // port of this end.
  std::array<const Intervals*, 4> parts{};

  bool matches_any() const {
    return std::ranges::none_of(
        parts, [](const Intervals* part) { return part && part->empty(); });
  }
};

class Finder {
 public:
  Finder(const RuleList& list, const RuleTable& table)
      : list_(list), table_(table) {
    for (const RuleSet& set : list.sets) {
      Set& one = sets_.emplace_back();
      if (!set.prefixes.empty()) {
        one.ipv4 = AddressesIn(set.prefixes, true);
        one.ipv6 = AddressesIn(set.prefixes, false);
      }
      one.ports = PortsIn(set.ports);
    }
  }

  std::vector<ShadowedRule> FindAll() {
    std::vector<ShadowedRule> found;
    for (uint32_t rule = 0; rule < list_.rules.size() && steps_ > 0; ++rule) {
      const std::optional<uint32_t> by = Find(rule);
      if (by.has_value()) found.push_back({rule, *by});
    }
    return found;
  }

 private:
  struct Set {
    Intervals ipv4;
    Intervals ipv6;
    Intervals ports;
  };

  std::optional<uint32_t> Find(uint32_t rule) {
    for (const bool ipv4 : kVersions) {
      Parts parts(list_.rules[rule]);
      Fill(ipv4, parts);
      if (!parts.matches_any()) continue;
      const PacketFields packet = PacketOf(parts, ipv4);
      uint32_t by = 0;
      for (int looks = 0; looks < kMaxLooks; ++looks, ++by) {
        by = table_.Find(packet, by);
        if (by >= rule) return std::nullopt;
        if (Covers(by, rule)) return by;
      }
      return std::nullopt;
    }
    return std::nullopt;  // it matches nothing
  }

  const Set* SetOf(const std::string& name) const {
    if (name.empty()) return nullptr;
    const auto set = std::ranges::find(list_.sets, name, &RuleSet::name);
    return &sets_[static_cast<size_t>(set - list_.sets.begin())];
  }

  void Fill(bool ipv4, Parts& parts) const {
    const PacketRule& rule = parts.rule;
    FillAddresses(rule.from, SetOf(rule.from_set), ipv4, 0, parts);
    FillAddresses(rule.to, SetOf(rule.to_set), ipv4, 1, parts);
    FillPorts(rule.from_ports, SetOf(rule.from_port_set), 2, parts);
    FillPorts(rule.to_ports, SetOf(rule.to_port_set), 3, parts);
  }
  // Beside a set, prefixes say only of which version the rule is.
  static void FillAddresses(const std::vector<IpPrefix>& prefixes,
                            const Set* set, bool ipv4, size_t part,
                            Parts& parts) {
    parts.own[part] = AddressesIn(prefixes, ipv4);
    parts.parts[part] = &parts.own[part];
    if (set != nullptr && !parts.own[part].empty()) {
      parts.parts[part] = ipv4 ? &set->ipv4 : &set->ipv6;
    }
  }
  static void FillPorts(const std::vector<PortRange>& ranges, const Set* set,
                        size_t part, Parts& parts) {
    if (set != nullptr) {
      parts.parts[part] = &set->ports;
    } else if (!ranges.empty() || parts.rule.has_ports()) {
      constexpr PortRange kAll = {0, 0xffff};
      parts.own[part] = PortsIn(ranges.empty() ? std::vector{kAll} : ranges);
      parts.parts[part] = &parts.own[part];
    }
  }

  // Returns a packet that the rule matches.
  static PacketFields PacketOf(const Parts& of, bool ipv4) {
    const PacketRule& rule = of.rule;
    PacketFields packet;
    packet.source = AddressOf(of.parts[0]->first());
    packet.destination = AddressOf(of.parts[1]->first());
    packet.has_ports = rule.has_ports();
    if (packet.has_ports) {
      packet.source_port = static_cast<uint16_t>(of.parts[2]->first());
      packet.destination_port = static_cast<uint16_t>(of.parts[3]->first());
    }
    packet.vlan = rule.vlan.value_or(0);
    packet.protocol = rule.protocol.value_or(IpProtocol::kTcp);
    packet.tcp_flags = rule.flags ? rule.flags->set : uint8_t{0};
    packet.has_tcp_flags = rule.flags.has_value();
    packet.l3 = ipv4 ? L3::kIpv4 : L3::kIpv6;
    return packet;
  }

  // Returns true if the rule `by` matches each packet of `rule`.
  bool Covers(uint32_t by, uint32_t rule) {
    const PacketRule& a = list_.rules[by];
    const PacketRule& b = list_.rules[rule];
    if ((a.protocol && a.protocol != b.protocol) ||
        (a.vlan && a.vlan != b.vlan) || (a.has_ports() && !b.has_ports())) {
      return false;
    }
    if (a.flags && (!b.flags || (a.flags->mask & ~b.flags->mask) != 0 ||
                    (b.flags->set & a.flags->mask) != a.flags->set)) {
      return false;
    }
    return std::ranges::all_of(kVersions, [&](bool ipv4) {
      Parts inner(b), outer(a);
      Fill(ipv4, inner);
      if (!inner.matches_any()) return true;
      Fill(ipv4, outer);
      for (size_t part = 0; part < outer.parts.size(); ++part) {
        if (outer.parts[part] != nullptr &&
            !outer.parts[part]->Contains(*inner.parts[part], steps_)) {
          return false;
        }
      }
      return true;
    });
  }

  const RuleList& list_;
  const RuleTable& table_;
  std::vector<Set> sets_;
  int64_t steps_ = kMaxSteps;
};

}  // namespace

std::vector<ShadowedRule> FindShadowedRules(const RuleList& list,
                                            const RuleTable& table) {
  return Finder(list, table).FindAll();
}

}  // namespace snf
