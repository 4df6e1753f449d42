// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/port_spec.h"

#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>

#include "absl/strings/numbers.h"

namespace snf {
namespace {

absl::Status Bad(const std::string& message) {
  return absl::InvalidArgumentError(message);
}

// As the kernel takes them.
bool IsInterfaceName(const std::string& name) {
  return !name.empty() && name.size() < IFNAMSIZ && name != "." &&
         name != ".." && std::ranges::none_of(name, [](unsigned char c) {
           return c == '/' || c == ':' || std::isspace(c) != 0 ||
                  std::isprint(c) == 0;
         });
}

const char* NameOf(Side side) {
  return side == Side::kInside    ? "inside"
         : side == Side::kOutside ? "outside"
                                  : "both";
}

const char* PrefixOf(PortSpec::Kind kind) {
  switch (kind) {
    case PortSpec::Kind::kTap:
      return "tap:";
    case PortSpec::Kind::kXdp:
      return "xdp:";
    case PortSpec::Kind::kCapture:
      return "file:";
    case PortSpec::Kind::kGwlb:
      return "gwlb:";
    case PortSpec::Kind::kPacket:
      break;
  }
  return "";
}

// Takes ",health=PORT" off the text behind "gwlb:".
absl::Status TakeHealthPort(std::string& interface, PortSpec& spec) {
  constexpr std::string_view kKey = ",health=";
  const size_t at = interface.find(',');
  if (at == interface.npos) return absl::OkStatus();
  const std::string option = interface.substr(at);
  interface.erase(at);
  uint32_t port = 0;
  if (option.starts_with(kKey) &&
      absl::SimpleAtoi(option.substr(kKey.size()), &port) && port > 0 &&
      port <= 65'535) {
    spec.health_port = static_cast<uint16_t>(port);
    return absl::OkStatus();
  }
  return Bad(fmt::format(
      "\"{}\": want ,health=PORT, a TCP port from 1 to 65535", option));
}

// Takes one option, ",queues=2", off those behind the interface's name.
// Returns its value, or nothing if there is none.
absl::StatusOr<std::optional<std::string>> TakeOption(std::string& interface,
                                                      std::string_view key,
                                                      const PortSpec& spec) {
  const size_t at = interface.find(key);
  if (at == interface.npos) return std::nullopt;
  const size_t end = std::min(interface.find(',', at + 1), interface.size());
  const std::string option = interface.substr(at, end - at);
  interface.erase(at, option.size());
  if (spec.kind != PortSpec::Kind::kPacket) {
    return Bad(fmt::format(
        "\"{}\": only a packet socket has it; xdp: has a socket for each "
        "receive queue of the interface",
        option));
  }
  if (interface.find(key) != interface.npos) {
    return Bad(fmt::format("\"{}\" is given twice", key.substr(1)));
  }
  return option.substr(key.size());
}

// Takes ",queues=N" and ",send=thread" off the options.
absl::Status TakeThreads(std::string& interface, PortSpec& spec) {
  auto queues = TakeOption(interface, ",queues=", spec);
  if (!queues.ok()) return queues.status();
  if (queues->has_value() &&
      (!absl::SimpleAtoi(**queues, &spec.queues) || spec.queues < 1 ||
       spec.queues > kMostPortQueues)) {
    return Bad(fmt::format("\"{}\": want ,queues=N, from 1 to {}", **queues,
                           kMostPortQueues));
  }
  auto send = TakeOption(interface, ",send=", spec);
  if (!send.ok()) return send.status();
  if (!send->has_value()) return absl::OkStatus();
  spec.sends_by_thread = **send == "thread";
  if (spec.sends_by_thread || **send == "controller") return absl::OkStatus();
  return Bad(
      fmt::format("\"{}\": want ,send=thread or ,send=controller", **send));
}

// Takes the options of a port that routes off the interface's name.
absl::Status TakeRouter(std::string& interface, PortSpec& spec) {
  const size_t at = interface.find(',');
  if (at == interface.npos) return absl::OkStatus();
  if (spec.kind != PortSpec::Kind::kPacket) {
    return Bad(fmt::format(
        "\"{}\": only an interface without xdp: and tap: can have addresses",
        interface.substr(at)));
  }
  auto router = RouterConfig::Parse(std::string_view(interface).substr(at));
  if (!router.ok()) return router.status();
  spec.router = *std::move(router);
  interface.erase(at);
  return absl::OkStatus();
}

// Only a gateway load balancer's packets are of both sides.
absl::Status CheckSide(const PortSpec& spec) {
  const bool is_gwlb = spec.kind == PortSpec::Kind::kGwlb;
  if (is_gwlb == (spec.side == Side::kUnknown)) return absl::OkStatus();
  return Bad(is_gwlb
                 ? fmt::format("gwlb:{} has both sides: want both=gwlb:{}",
                               spec.interface, spec.interface)
                 : fmt::format("only gwlb has both sides, as in both=gwlb:{}",
                               spec.interface));
}

// A file may have the name of an interface.
bool AreTheSame(const PortSpec& a, const PortSpec& b) {
  constexpr auto kCapture = PortSpec::Kind::kCapture;
  return a.interface == b.interface &&
         (a.kind == kCapture) == (b.kind == kCapture);
}

}  // namespace

std::string PortSpec::name() const {
  if (number == 0) return NameOf(side);
  return fmt::format("{}{}", NameOf(side), number);
}

std::string PortSpec::text() const {
  return fmt::format(
      "{}={}{}{}{}{}{}", NameOf(side), PrefixOf(kind), interface,
      health_port == 0 ? "" : fmt::format(",health={}", health_port),
      queues == 1 ? "" : fmt::format(",queues={}", queues),
      sends_by_thread ? ",send=thread" : "", router.text());
}

absl::StatusOr<PortSpec> ParsePort(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == text.npos) {
    return Bad(fmt::format("\"{}\" names no side; want for example inside=lan0",
                           text));
  }
  PortSpec spec;
  const std::string side = text.substr(0, equals);
  if (side == "inside") {
    spec.side = Side::kInside;
  } else if (side == "outside") {
    spec.side = Side::kOutside;
  } else if (side != "both") {
    return Bad(fmt::format("\"{}\" is neither inside nor outside", side));
  }
  std::string interface = text.substr(equals + 1);
  const size_t colon = interface.find(':');
  // Options have colons, too.
  if (colon < interface.find(',')) {
    const std::string kind = interface.substr(0, colon);
    if (kind == "tap") {
      spec.kind = PortSpec::Kind::kTap;
    } else if (kind == "xdp") {
      spec.kind = PortSpec::Kind::kXdp;
    } else if (kind == "file") {
      spec.kind = PortSpec::Kind::kCapture;
      spec.interface = interface.substr(colon + 1);
      if (absl::Status s = CheckSide(spec); !s.ok()) return s;
      if (!spec.interface.empty() && spec.interface != "-") return spec;
      return Bad("file: needs the name of a file; stdin is not supported");
    } else if (kind == "gwlb") {
      spec.kind = PortSpec::Kind::kGwlb;
    } else if (kind != "packet") {
      return Bad(
          fmt::format("\"{}\" is not a kind of port: want packet, xdp, "
                      "tap, file or gwlb",
                      kind));
    }
    interface.erase(0, colon + 1);
    if (spec.kind == PortSpec::Kind::kGwlb) {
      if (absl::Status s = TakeHealthPort(interface, spec); !s.ok()) return s;
    }
  }
  if (absl::Status s = TakeThreads(interface, spec); !s.ok()) return s;
  if (absl::Status s = TakeRouter(interface, spec); !s.ok()) return s;
  if (!IsInterfaceName(interface)) {
    return Bad(
        fmt::format("\"{}\" is not the name of an interface: want 1 to {} "
                    "characters, without blanks, / and :",
                    interface, IFNAMSIZ - 1));
  }
  spec.interface = interface;
  if (absl::Status s = CheckSide(spec); !s.ok()) return s;
  return spec;
}

void NumberPorts(std::vector<PortSpec>& ports) {
  for (const Side side : {Side::kInside, Side::kOutside}) {
    const bool are_several =
        std::ranges::count(ports, side, &PortSpec::side) > 1;
    uint32_t number = 0;
    for (PortSpec& port : ports) {
      if (port.side == side) port.number = are_several ? ++number : 0;
    }
  }
  for (PortSpec& port : ports) {
    port.router.addresses_beside.clear();
    port.router.networks_beside.clear();
    port.router.macs_beside.clear();
    port.router.interfaces_beside.clear();
    port.router.interfaces_across.clear();
    for (const PortSpec& other : ports) {
      if (other.side != port.side) {
        port.router.interfaces_across.push_back(other.interface);
      }
      if (&other == &port || other.side != port.side) continue;
      port.router.AddBeside(other.router, other.interface);
    }
  }
}

namespace {

absl::Status CheckRouters(const std::vector<PortSpec>& ports) {
  const auto routes = [](const PortSpec& port) {
    return port.router.is_routed();
  };
  if (std::ranges::none_of(ports, routes)) return absl::OkStatus();
  if (const auto other = std::ranges::find_if_not(ports, routes);
      other != ports.end()) {
    return Bad(fmt::format(
        "--port: {} has no address, but another port has: want addresses for "
        "all, or for none",
        other->text()));
  }
  for (size_t i = 0; i < ports.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const absl::Status apart = CheckApart(ports[j].router, ports[i].router);
      if (!apart.ok()) return Bad("--port: " + std::string(apart.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPorts(const std::vector<PortSpec>& ports) {
  if (std::ranges::count(ports, Side::kUnknown, &PortSpec::side) > 0) {
    if (ports.size() == 1) return absl::OkStatus();
    return Bad("--port: a gwlb port has both sides, and must be the only port");
  }
  for (const Side side : {Side::kInside, Side::kOutside}) {
    if (std::ranges::count(ports, side, &PortSpec::side) > 0) continue;
    return Bad(
        fmt::format("--port: no {} port is given; want for example --port "
                    "inside=lan0 --port outside=wan0",
                    NameOf(side)));
  }
  if (ports.size() > kMostPorts) {
    return Bad(fmt::format("--port: {} are given, at most {} are possible",
                           ports.size(), kMostPorts));
  }
  for (size_t i = 0; i < ports.size(); ++i) {
    for (size_t earlier = 0; earlier < i; ++earlier) {
      if (!AreTheSame(ports[i], ports[earlier])) continue;
      return Bad(
          ports[i].side == ports[earlier].side
              ? fmt::format("--port: {} is given twice", ports[i].interface)
              : fmt::format("--port: {} cannot be both inside and outside",
                            ports[i].interface));
    }
  }
  return CheckRouters(ports);
}

}  // namespace snf
