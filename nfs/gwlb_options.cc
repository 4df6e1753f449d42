// SPDX-License-Identifier: Apache-2.0
#include "nfs/gwlb_options.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/answers/answers.h"
#include "base/packet/ip_address_text.h"
#include "base/tunnels/gwlb_header.h"

namespace snf {
namespace {

// Two hashes of an appliance.
uint64_t HashOf(const IpAddress& appliance, uint16_t salt) {
  FlowKey key;
  key.source = appliance;
  key.vlan = be16(salt);
  key.form = FlowKeyForm::kIpv4Endpoint;
  return Hash(key);
}

}  // namespace

GwlbOptions::GwlbOptions(NfOptions& options) {
  const std::string own =
      options.Text("address", "", "ADDRESS",
                   "IPv4 address of the balancer, of no host; appliances must "
                   "send to it by way of SNF's outside");
  const auto parsed = ParseIpv4(own);
  if (parsed.has_value() && IsHostAddress(parsed->ipv4())) {
    address = *parsed;
  } else {
    options.Fail("address", "an IPv4 address of a host, such as 10.0.2.1");
  }
  const auto asked = options.Changing(AskAppliances);
  static constexpr std::array<std::string_view, 3> kStickiness = {
      "5_tuple", "3_tuple", "2_tuple"};
  stickiness = static_cast<GwlbStickiness>(options.Choice(
      "stickiness", 0, kStickiness,
      "fields by which packets have one appliance: 5_tuple, a connection; "
      "3_tuple, addresses and protocol; 2_tuple, addresses"));
  AskHealth(options);
  AskFailover(options);
  AskTimes(options);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() - 1;
  endpoint = static_cast<uint64_t>(options.Integer(
      "endpoint", 1, 0, kMost, "endpoint id in the options of GENEVE"));
  attachment = static_cast<uint64_t>(options.Integer(
      "attachment", 1, 0, kMost,
      "attachment id in the options of GENEVE, of packets from the inside; "
      "packets from the outside have the next number"));
  constexpr uint32_t kLeastIpv6 = 1'280;  // RFC 8200 §5
  mtu = static_cast<uint32_t>(options.Integer(
      "mtu", mtu, kLeastIpv6 + kOuterBytes, 65'535,
      "longest IP packet to an appliance with its outer headers; a longer one "
      "is answered by ICMP"));
  Register(asked, options);
}

GwlbOptions::Addresses GwlbOptions::AskAppliances(NfOptions& options) {
  Addresses addresses;
  for (const std::string& text : options.List(
           "appliances", "ADDRESS",
           "the appliances that are registered; a flow's appliance is chosen "
           "by Maglev hashing")) {
    const auto parsed = ParseIpv4(text);
    if (!parsed.has_value() || !IsHostAddress(parsed->ipv4())) {
      options.Fail("appliances",
                   "IPv4 addresses of hosts, joined by +, such as "
                   "10.0.2.11+10.0.2.12; not \"" +
                       text + "\"");
    } else if (std::ranges::count(addresses, *parsed) > 0) {
      options.Fail("appliances",
                   "each appliance once; " + text + " is there twice");
    } else {
      addresses.push_back(*parsed);
    }
  }
  return addresses;
}

void GwlbOptions::AskHealth(NfOptions& options) {
  health.AskCheck(
      "health check of appliances, from `address`: a TCP connection, or an "
      "HTTP request that is answered by 2xx or 3xx; sent beside packets",
      options);
  health.AskRounds(options);
  health.AskPort(80, 1, "TCP port that is checked", options);
  health.AskPath(options);
  health.source_ipv4 = address;
  static constexpr std::array<std::string_view, 3> kAll = {"send", "drop",
                                                           "pass"};
  all_unhealthy = static_cast<GwlbAllUnhealthy>(options.Choice(
      "all_unhealthy", 0, kAll,
      "fate of new flows if all appliances are unhealthy: to one of these all "
      "the same, dropped, or past the appliances"));
}

void GwlbOptions::AskFailover(NfOptions& options) {
  static constexpr std::array<std::string_view, 2> kFailover = {"no_rebalance",
                                                                "rebalance"};
  const auto ask = [&options](const char* key, const char* help) {
    return static_cast<GwlbFailover>(options.Choice(key, 0, kFailover, help));
  };
  on_unhealthy = ask("on_unhealthy",
                     "fate of flows whose appliance is unhealthy: sent there "
                     "all the same, or to another one");
  on_deregistration = ask("on_deregistration",
                          "fate of flows whose appliance is deregistered, "
                          "behind deregistration_delay");
  deregistration_delay = options.Duration(
      "deregistration_delay", deregistration_delay, Nanos{0}, Seconds(3'600),
      "time for which a deregistered appliance drains: flows "
      "stay there, and new flows go to others");
  resets_unhealthy =
      options.Flag("reset_on_unhealthy", false,
                   "true: TCP connections whose appliance is unhealthy are "
                   "reset, each end at its next packet");
  resets_deregistered =
      options.Flag("reset_on_deregistration", false,
                   "true: the same if the appliance is deregistered, behind "
                   "deregistration_delay");
  resets_unknown =
      options.Flag("reset_on_idle_timeout", false,
                   "true: a TCP packet of no flow, other than a SYN, is "
                   "answered by a reset; false: it begins a flow");
}

void GwlbOptions::AskTimes(NfOptions& options) {
  tcp_idle_timeout =
      options.Duration("tcp_idle_timeout", tcp_idle_timeout, Seconds(60),
                       Seconds(6'000), "life of a TCP flow without packets");
  idle_timeout =
      options.Duration("idle_timeout", idle_timeout, Seconds(1), Seconds(6'000),
                       "life of another flow without packets");
}

void GwlbOptions::Register(
    const std::vector<NfOptions::Dated<Addresses>>& asked, NfOptions& options) {
  for (const auto& [from, addresses] : asked) {
    appliances.insert(appliances.end(), addresses.begin(), addresses.end());
    if (addresses.empty()) options.Fail("appliances", "at least one ADDRESS");
  }
  std::ranges::sort(appliances);
  const auto same = std::ranges::unique(appliances);
  appliances.erase(same.begin(), same.end());
  if (appliances.size() > kMaxAppliances) {
    options.Fail("appliances", absl::StrCat("at most ", kMaxAppliances));
    appliances.clear();
  }
  if (ApplianceOf(address).has_value()) {
    options.Fail("appliances", "hosts other than the balancer's own address");
  }
  for (const auto& [from, addresses] : asked) {
    auto registered = std::make_shared<Registered>();
    std::vector<MaglevTable::Member> members;
    registered->has.resize(appliances.size());
    for (const IpAddress& one : addresses) {
      const std::optional<uint16_t> appliance = ApplianceOf(one);
      if (!appliance.has_value()) continue;  // there were too many
      registered->has[*appliance] = true;
      members.push_back({.offset_hash = HashOf(one, 1),
                         .skip_hash = HashOf(one, 2),
                         .weight = 1,
                         .value = *appliance});
    }
    registered->table = MaglevTable(std::move(members), kTableSize);
    dated.push_back({from, std::move(registered)});
  }
}

uint32_t GwlbOptions::inner_mtu() const {
  return std::min(mtu - kOuterBytes, kGwlbMtu);
}

std::optional<uint16_t> GwlbOptions::ApplianceOf(
    const IpAddress& appliance) const {
  const auto found = std::ranges::lower_bound(appliances, appliance);
  if (found == appliances.end() || *found != appliance) return std::nullopt;
  return static_cast<uint16_t>(found - appliances.begin());
}

size_t GwlbOptions::IndexOf(Instant time) const {
  size_t i = dated.size() - 1;
  while (i > 0 && dated[i].from > time) --i;
  return i;
}

GwlbOptions::Use GwlbOptions::UseOf(uint16_t appliance, Instant time) const {
  size_t i = IndexOf(time);
  if (dated[i].value->has[appliance]) return Use::kRegistered;
  while (i > 0 && !dated[i - 1].value->has[appliance]) --i;
  const bool drains = i > 0 && time < dated[i].from + deregistration_delay;
  return drains ? Use::kDraining : Use::kUnused;
}

std::optional<Instant> GwlbOptions::UseSince(uint16_t appliance,
                                             Instant time) const {
  const Use use = UseOf(appliance, time);
  size_t i = IndexOf(time);
  const bool is_registered = use == Use::kRegistered;
  while (i > 0 && dated[i - 1].value->has[appliance] == is_registered) --i;
  if (i == 0) return std::nullopt;
  if (use != Use::kUnused) return dated[i].from;
  return dated[i].from + deregistration_delay;
}

FlowKey GwlbOptions::FlowOf(FlowKey connection) const {
  const bool has_ends = connection.form == FlowKeyForm::kIpv4 ||
                        connection.form == FlowKeyForm::kIpv6;
  if (stickiness == GwlbStickiness::k5Tuple || !has_ends) return connection;
  connection.source_port = connection.destination_port = be16(0);
  if (stickiness == GwlbStickiness::k2Tuple) connection.protocol = {};
  Canonicalize(connection);
  return connection;
}

}  // namespace snf
