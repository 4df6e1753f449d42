// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_ROUTER_ROUTING_RULES_H_
#define SNF_PLATFORM_PORTS_ROUTER_ROUTING_RULES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/packet/ip_prefix.h"
#include "platform/ports/router/netlink_messages.h"
#include "platform/ports/router/router_config.h"

namespace snf {

// Says where a packet is whose route is looked for.
enum class RouteSide : uint8_t {
  kIn,   // it has come in by the port
  kOut,  // it is to leave by the port, and has come in at the other side
};

// A rule of the kernel's policy routing (ip-rule(8)), as far as ports follow
// it. A packet of a port has no mark, no tunnel, and no socket.
struct RoutingRule {
  enum class Action : uint8_t {
    kTable,    // looks into the table
    kBlocked,  // ends the search: blackhole, unreachable, prohibit
    kGoto,     // jumps to the next rule of that priority
    kNothing,
  };

  uint32_t priority = 0;
  bool is_ipv4 = true;
  Action action = Action::kTable;
  bool is_inverted = false;
  // The conditions besides addresses hold for packets that come in, that leave.
  bool holds_in = true;
  bool holds_out = true;
  IpPrefix from, to;   // of length 0, or 96 of IPv4: any
  uint32_t table = 0;  // or the priority that kGoto names
  // A route of at most that length, of 128 bits, does not count.
  std::optional<uint8_t> suppressed;

  bool Matches(const IpAddress& source, const IpAddress& destination,
               RouteSide side) const {
    const bool holds = side == RouteSide::kIn ? holds_in : holds_out;
    return (holds && from.Contains(source) && to.Contains(destination)) !=
           is_inverted;
  }
  // Returns true for a rule that matches no packet of a port.
  bool holds_never() const { return !holds_in && !holds_out && !is_inverted; }
  friend bool operator==(const RoutingRule&, const RoutingRule&) = default;
};

// Picks rules out of answers to RTM_GETRULE. Conditions that are the same for
// all packets of a port are decided here: an input interface (iif), an output
// interface (oif), a mark, a tunnel. Conditions that ports do not
// follow are of no matter in a rule that so matches no packet.
// Owner-thread only.
class RuleReader {
 public:
  // `interface` is the port's name. The config must outlive the reader.
  RuleReader(const RouterConfig& config, std::string interface)
      : config_(config), interface_(std::move(interface)) {}

  // Takes the messages of one datagram.
  DumpPart Take(std::span<const std::byte> messages);

  // Returns the rules in the order of the kernel.
  std::vector<RoutingRule>& rules() { return rules_; }
  // Names the first rule that a port cannot follow, and the condition: "rule
  // 1000: ipproto"; empty: there is none.
  const std::string& not_followed() const { return not_followed_; }
  int error() const { return error_; }  // an errno, after kRefused

 private:
  struct Told;
  bool TakeRule(std::span<const std::byte> message);
  void TakeAttribute(int type, std::span<const std::byte> value, Told& told);
  void TakeInterface(std::span<const std::byte> name, Told& told);
  void Keep(Told& told);

  const RouterConfig& config_;
  const std::string interface_;
  std::vector<RoutingRule> rules_;
  std::string not_followed_;
  int error_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_ROUTER_ROUTING_RULES_H_
