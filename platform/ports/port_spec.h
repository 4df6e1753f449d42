// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_PORT_SPEC_H_
#define SNF_PLATFORM_PORTS_PORT_SPEC_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/packet/packet_info.h"
#include "platform/ports/router/router_config.h"

namespace snf {

class Steering;

// Describes a port, as the text of --port: SIDE=[KIND:]INTERFACE, as in
// inside=lan0, inside=xdp:lan0, outside=tap:wan0 or inside=file:cap.pcap; or
// both=gwlb:eth0, with its health checks both=gwlb:eth0,health=8080. Of an
// interface, options make the port a router of its hosts (RouterConfig), and
// queues=2 has two sockets receive, send=thread a thread send.
struct PortSpec {
  enum class Kind : uint8_t {
    kPacket,   // an existing interface, by a packet socket
    kXdp,      // an existing interface, by AF_XDP sockets
    kTap,      // a TAP interface, which is made if it does not exist
    kCapture,  // frames of a capture file
    kGwlb,     // packets that a gateway load balancer sends in GENEVE
  };
  Side side = Side::kUnknown;  // kUnknown: both, of kGwlb
  Kind kind = Kind::kPacket;
  std::string interface;     // of a capture, its file
  uint32_t number = 0;       // 0 for the only port of its side, else from 1 on
  uint16_t health_port = 0;  // of kGwlb, a TCP port; 0: none
  // Sockets of kPacket that receive, and whether a thread of the port's own
  // sends.
  uint32_t queues = 1;
  bool sends_by_thread = false;
  RouterConfig router = {};  // of kPacket
  // Selects this controller's frames; null: all frames.
  std::shared_ptr<const Steering> steering = nullptr;

  // Returns "inside" or "outside", and the number unless it is 0: "inside2".
  std::string name() const;
  // Returns the text that ParsePort takes.
  std::string text() const;
};

// Parses one port. Errors: InvalidArgument, which names the part that is wrong.
absl::StatusOr<PortSpec> ParsePort(const std::string& text);

// Numbers the ports of each side that has several, in their order, and tells
// ports that route what is beside them.
void NumberPorts(std::vector<PortSpec>& ports);

// Most ports in all, and most queues of a port.
inline constexpr size_t kMostPorts = 16;
inline constexpr uint32_t kMostPortQueues = 16;

// Returns an InvalidArgument error unless there are an inside and an outside,
// each interface is named once, and there are at most kMostPorts; or there is
// a single port, of both sides. If a port routes, all do, and no two have a
// network in common.
absl::Status CheckPorts(const std::vector<PortSpec>& ports);

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_PORT_SPEC_H_
