// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/port_spec.h"

#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <cctype>

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
  return side == Side::kInside ? "inside" : "outside";
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
  const char* const before = kind == Kind::kTap       ? "tap:"
                             : kind == Kind::kXdp     ? "xdp:"
                             : kind == Kind::kCapture ? "file:"
                                                      : "";
  return fmt::format("{}={}{}", NameOf(side), before, interface);
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
  } else {
    return Bad(fmt::format("\"{}\" is neither inside nor outside", side));
  }
  std::string interface = text.substr(equals + 1);
  const size_t colon = interface.find(':');
  if (colon != interface.npos) {
    const std::string kind = interface.substr(0, colon);
    if (kind == "tap") {
      spec.kind = PortSpec::Kind::kTap;
    } else if (kind == "xdp") {
      spec.kind = PortSpec::Kind::kXdp;
    } else if (kind == "file") {
      spec.kind = PortSpec::Kind::kCapture;
      spec.interface = interface.substr(colon + 1);
      if (!spec.interface.empty() && spec.interface != "-") return spec;
      return Bad("file: needs the name of a file; stdin is not supported");
    } else if (kind != "packet") {
      return Bad(fmt::format(
          "\"{}\" is not a kind of port: want packet, xdp, tap or file", kind));
    }
    interface.erase(0, colon + 1);
  }
  if (!IsInterfaceName(interface)) {
    return Bad(
        fmt::format("\"{}\" is not the name of an interface: want 1 to {} "
                    "characters, without blanks, / and :",
                    interface, IFNAMSIZ - 1));
  }
  spec.interface = interface;
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
}

absl::Status CheckPorts(const std::vector<PortSpec>& ports) {
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
  return absl::OkStatus();
}

}  // namespace snf
