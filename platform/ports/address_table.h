// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_ADDRESS_TABLE_H_
#define SNF_PLATFORM_PORTS_ADDRESS_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "platform/ports/port_spec.h"

namespace snf {

// Theory of operation. Learns at which port each host is, like a bridge (IEEE
// 802.1Q, §8.7): the sender of a frame is at the port by which the frame came
// in. Addresses are learned by VLAN, the one of the outermost tag: a router may
// have one Ethernet address in several VLANs, by a cable each.
//
// There are two generations of kGeneration addresses. Once the young one is
// full it becomes the old one, and the previous old one is forgotten: so hosts
// that send are known even if others make up addresses, and memory is bounded.
//
// Worked example: a frame from A comes in by port 2. Frames for A then leave by
// port 2, until a frame from A comes by another port, or kGeneration other
// addresses have been learned twice without a frame from A.
//
// Owner-thread only.
class AddressTable {
 public:
  static constexpr size_t kGeneration = 32'768;

  // The frame came in by this port, one of kMostPorts. Addresses of groups, and
  // frames without an Ethernet header, teach nothing.
  //
  // Budget: ≤ 10 ns if the last frame by the port had the same sender.
  void Learn(std::span<const std::byte> frame, size_t port);

  // Return where the frame's receiver, or its sender, was last seen; nothing if
  // that is not known, as of a group's address.
  std::optional<size_t> PortOfReceiver(std::span<const std::byte> frame) const;
  std::optional<size_t> PortOfSender(std::span<const std::byte> frame) const;

 private:
  // The VLAN's number above the 48 bits of an Ethernet address. 0 is not the
  // address of any sender.
  using Key = uint64_t;
  using Ports = absl::flat_hash_map<Key, uint8_t>;

  static Key KeyOf(std::span<const std::byte> frame, size_t at);
  std::optional<size_t> PortOf(Key key) const;

  std::array<Key, kMostPorts> last_{};  // the last sender of each port
  Ports young_;
  Ports old_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_ADDRESS_TABLE_H_
