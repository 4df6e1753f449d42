// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/router/routing_rules.h"

#include <fmt/format.h>
#include <linux/fib_rules.h>
#include <sys/socket.h>

#include <algorithm>

namespace snf {
namespace {

using netlink::Bytes;

constexpr uint32_t kNone = 0xffff'ffff;
constexpr int kDscp = 25;  // FRA_DSCP, which older headers lack

std::string TextIn(Bytes bytes) {
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return text.substr(0, text.find('\0'));
}

std::optional<RoutingRule::Action> ActionOf(uint8_t action) {
  using enum RoutingRule::Action;
  switch (action) {
    case FR_ACT_TO_TBL:
      return kTable;
    case FR_ACT_GOTO:
      return kGoto;
    case FR_ACT_NOP:
      return kNothing;
    case FR_ACT_BLACKHOLE:
    case FR_ACT_UNREACHABLE:
    case FR_ACT_PROHIBIT:
      return kBlocked;
    default:
      return std::nullopt;
  }
}

}  // namespace

// A rule while it is read.
struct RuleReader::Told {
  RoutingRule rule;
  size_t address_bytes = 4;
  uint8_t from_bits = 0, to_bits = 0;
  std::optional<IpAddress> from, to;
  uint32_t mark = 0, mask = 0, target = 0;
  std::string cannot;  // the condition that a port does not follow
  bool is_sound = true;
};

DumpPart RuleReader::Take(Bytes messages) {
  return netlink::ReadDump(messages, RTM_NEWRULE, error_,
                           [this](Bytes body) { return TakeRule(body); });
}

bool RuleReader::TakeRule(Bytes message) {
  const auto head = netlink::Head<fib_rule_hdr>(message);
  if (!head.has_value()) return false;
  if (head->family != AF_INET && head->family != AF_INET6) return true;
  Told told;
  told.rule.is_ipv4 = head->family == AF_INET;
  told.address_bytes = told.rule.is_ipv4 ? 4 : 16;
  told.from_bits = head->src_len;
  told.to_bits = head->dst_len;
  told.rule.table = head->table;
  told.rule.is_inverted = (head->flags & FIB_RULE_INVERT) != 0;
  if (head->tos != 0) told.cannot = "tos";
  const std::optional<RoutingRule::Action> action = ActionOf(head->action);
  if (!action.has_value()) {
    told.cannot = fmt::format("action {}", head->action);
  }
  told.rule.action = action.value_or(RoutingRule::Action::kNothing);
  if ((head->flags & FIB_RULE_UNRESOLVED) != 0) {  // goto to no rule
    told.rule.action = RoutingRule::Action::kNothing;
  }
  const bool is_sound = netlink::ForAttributes(
      netlink::Behind(message, sizeof *head),
      [&](int type, Bytes value) { TakeAttribute(type, value, told); });
  const size_t bits = 8 * told.address_bytes;
  if (!is_sound || !told.is_sound || told.from_bits > bits ||
      told.to_bits > bits || (told.from_bits != 0 && !told.from.has_value()) ||
      (told.to_bits != 0 && !told.to.has_value())) {
    return false;
  }
  Keep(told);
  return true;
}

void RuleReader::TakeAttribute(int type, Bytes value, Told& told) {
  RoutingRule& rule = told.rule;
  const uint32_t number = netlink::NumberIn(value);
  const auto cannot = [&told](std::string_view what) {
    if (told.cannot.empty()) told.cannot = what;
  };
  switch (type) {
    case FRA_SRC:
      told.from = netlink::AddressIn(value, told.address_bytes);
      told.is_sound &= told.from.has_value();
      return;
    case FRA_DST:
      told.to = netlink::AddressIn(value, told.address_bytes);
      told.is_sound &= told.to.has_value();
      return;
    case FRA_PRIORITY:
      rule.priority = number;
      return;
    case FRA_TABLE:
      if (rule.action == RoutingRule::Action::kTable) rule.table = number;
      return;
    case FRA_GOTO:
      told.target = number;
      return;
    case FRA_FWMARK:
      told.mark = number;
      return;
    case FRA_FWMASK:
      told.mask = number;
      return;
    case FRA_IIFNAME:
      return TakeInterface(value, told);
    case FRA_OIFNAME:  // of a socket that is bound to it
      rule.holds_in = rule.holds_out = false;
      return;
    case FRA_TUN_ID:
      if (std::ranges::any_of(value,
                              [](std::byte b) { return b != std::byte{}; }))
        rule.holds_in = rule.holds_out = false;
      return;
    case FRA_SUPPRESS_PREFIXLEN:
      if (number == kNone) return;
      rule.suppressed = static_cast<uint8_t>(
          std::min<uint32_t>(number + (rule.is_ipv4 ? kMappedBits : 0), 128));
      return;
    case FRA_SUPPRESS_IFGROUP:
      if (number != kNone) cannot("suppress_ifgroup");
      return;
    case FRA_L3MDEV:
      if (!value.empty() && value.front() != std::byte{}) cannot("l3mdev");
      return;
    case FRA_UID_RANGE:
      return cannot("uidrange");
    case kDscp:
      return cannot("dscp");
    case FRA_IP_PROTO:
      return cannot("ipproto");
    case FRA_SPORT_RANGE:
      return cannot("sport");
    case FRA_DPORT_RANGE:
      return cannot("dport");
    case FRA_PROTOCOL:  // who made the rule
    case FRA_PAD:
    case FRA_FLOW:  // realms, which only count
      return;
    default:
      return cannot(fmt::format("attribute {}", type));
  }
}

void RuleReader::TakeInterface(Bytes name, Told& told) {
  const std::string wanted = TextIn(name);
  told.rule.holds_in &= wanted == interface_;
  const auto others = std::ranges::count(config_.interfaces_across, wanted);
  told.rule.holds_out &= others > 0;
  if (others > 0 && config_.interfaces_across.size() > 1 &&
      told.cannot.empty()) {
    // Behind the chain nothing tells by which of them a packet came in.
    told.cannot =
        fmt::format("iif {}, one of several ports of its side", wanted);
  }
}

void RuleReader::Keep(Told& told) {
  RoutingRule& rule = told.rule;
  if ((told.mark & told.mask) != 0) rule.holds_in = rule.holds_out = false;
  // The other conditions decide nothing where one holds for no packet.
  if (!told.cannot.empty() && (rule.holds_in || rule.holds_out)) {
    if (not_followed_.empty()) {
      not_followed_ = fmt::format("rule {}: {}", rule.priority, told.cannot);
    }
    return;
  }
  const uint8_t mapped = rule.is_ipv4 ? kMappedBits : 0;
  const IpAddress any =
      rule.is_ipv4 ? IpAddress::FromIpv4(be32(0)) : IpAddress{};
  const auto prefix = [&](const std::optional<IpAddress>& address,
                          uint8_t bits) {
    return IpPrefix::Of(address.value_or(any),
                        static_cast<uint8_t>(bits + mapped));
  };
  rule.from = prefix(told.from, told.from_bits);
  rule.to = prefix(told.to, told.to_bits);
  if (rule.action == RoutingRule::Action::kGoto) rule.table = told.target;
  rules_.push_back(rule);
}

}  // namespace snf
