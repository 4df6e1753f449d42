// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_ROUTER_NEIGHBOUR_MESSAGES_H_
#define SNF_PLATFORM_PORTS_ROUTER_NEIGHBOUR_MESSAGES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/packet/ip_address.h"
#include "platform/ports/router/router_config.h"

namespace snf {

// A host's question or answer about link addresses: ARP (RFC 826), neighbour
// solicitations and advertisements of IPv6 (RFC 4861 §4.3, §4.4).
struct NeighbourMessage {
  bool is_question = false;
  bool is_solicited = false;  // an answer to a question
  IpAddress sender;           // in IPv6 of a question; zeros: none yet
  IpAddress target;           // asked for; of an answer of IPv6, the sender
  // The link address of the sender, or of an IPv6 answer's target. Nothing if
  // the message has none.
  std::optional<MacAddress> mac;
};

// What a frame tells the process that is to take the place of a router's.
enum class NeighbourNews : uint16_t {
  kNone,   // nothing: it is for the chains
  kHeard,  // a neighbour says its link address, or asks for another one's
  kKnown,  // the same, and the router knows the neighbour so
};

// Read a whole Ethernet frame. Return nothing if it is cut, its lengths or its
// checksum are wrong, its hop limit is not 255, or it names a group as a host.
std::optional<NeighbourMessage> ReadArp(std::span<const std::byte> frame);
std::optional<NeighbourMessage> ReadDiscovery(std::span<const std::byte> frame);

// A host's question for routers (RFC 4861 §4.1).
struct RouterQuestion {
  IpAddress sender;  // zeros: it has no address yet
  std::optional<MacAddress> mac;
};
// Reads a whole Ethernet frame. Returns nothing as ReadDiscovery.
std::optional<RouterQuestion> ReadRouterQuestion(
    std::span<const std::byte> frame);

// ff02::1, and the link address of a group (RFC 2464 §7).
IpAddress AllNodes();
MacAddress MacOfGroup(const IpAddress& group);

// A frame of ARP or of neighbour discovery.
class NeighbourFrame {
 public:
  struct End {
    IpAddress address;
    MacAddress mac;
  };
  // Asks who has the address: all on the link, or the host with the link
  // address `at`.
  static NeighbourFrame Question(const End& own, const IpAddress& target,
                                 const std::optional<MacAddress>& at);
  // Says that `own` has its address, to `to`. An address of zeros, which a host
  // has that has not got one yet, is answered to all. `is_proxy`: of IPv6, the
  // host itself may overrule this (RFC 4861 §7.2.8).
  static NeighbourFrame Answer(const End& own, const End& to, bool is_proxy);
  // Says so to all without a question.
  static NeighbourFrame Announcement(const End& own);

  std::span<const std::byte> bytes() const {
    return std::span(bytes_).first(size_);
  }

 private:
  static constexpr size_t kLinkBytes = 14, kArpBytes = 28;
  static constexpr size_t kDiscoveryBytes = 40 + 24 + 8;

  NeighbourFrame() = default;
  void WriteArp(uint16_t operation, const End& own, const End& to,
                const MacAddress& link_to);
  void WriteDiscovery(uint8_t type, uint32_t flags, const End& own,
                      const IpAddress& target, const End& to);

  std::array<std::byte, kLinkBytes + kDiscoveryBytes> bytes_{};
  size_t size_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_ROUTER_NEIGHBOUR_MESSAGES_H_
