// SPDX-License-Identifier: Apache-2.0
#include "platform/live/port_spec.h"

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

}  // namespace

std::string PortSpec::name() const {
  return side == Side::kInside ? "inside" : "outside";
}

std::string PortSpec::text() const {
  const char* const before = kind == Kind::kTap       ? "tap:"
                             : kind == Kind::kXdp     ? "xdp:"
                             : kind == Kind::kCapture ? "file:"
                                                      : "";
  return fmt::format("{}={}{}", name(), before, interface);
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
      return Bad("file: names no file; stdin would keep all else waiting");
    } else if (kind != "packet") {
      return Bad(fmt::format(
          "\"{}\" is no kind of port: want packet, xdp, tap or file", kind));
    }
    interface.erase(0, colon + 1);
  }
  if (!IsInterfaceName(interface)) {
    return Bad(fmt::format(
        "\"{}\" is no name of an interface: these have 1 to {} characters, "
        "without blanks, / and :",
        interface, IFNAMSIZ - 1));
  }
  spec.interface = interface;
  return spec;
}

absl::Status CheckPorts(const std::vector<PortSpec>& ports) {
  for (const Side side : {Side::kInside, Side::kOutside}) {
    const auto count = std::ranges::count(ports, side, &PortSpec::side);
    const std::string name = PortSpec{.side = side, .interface = ""}.name();
    if (count == 0) {
      return Bad(
          fmt::format("--port: there is no {}; want for example "
                      "--port inside=lan0 --port outside=wan0",
                      name));
    }
    if (count > 1) return Bad(fmt::format("--port: {} is named twice", name));
  }
  if (ports[0].interface == ports[1].interface) {
    return Bad(fmt::format("--port: {} cannot be both inside and outside",
                           ports[0].interface));
  }
  return absl::OkStatus();
}

}  // namespace snf
