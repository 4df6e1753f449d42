// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_PACKET_H_
#define SNF_RUNTIME_SDK_PACKET_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/packet/packet_info.h"
#include "base/time.h"

namespace snf {

// A packet as an NF sees it, valid during one process_packet call. The bytes
// may be rewritten in place.
class Packet {
 public:
  Packet(const PacketInfo& info, std::span<std::byte> bytes)
      : info_(info), bytes_(bytes) {}
  Packet(const Packet&) = delete;
  Packet& operator=(const Packet&) = delete;

  // The frame as captured, from its link header on. May be shorter than
  // original_length(): captures are often cut.
  std::span<std::byte> bytes() const { return bytes_; }
  uint32_t original_length() const { return info_.original_length; }
  LinkType link() const { return info_.link; }

  // The places of its headers (base/packet/packet_parser.h); has_ip() is true.
  const ParsedPacket& headers() const { return info_.headers; }

  // The side from which it comes, if the NF's flows are inside endpoints. A
  // packet made by an NF comes from the inside.
  Side side() const { return info_.side; }

  // The outside end of its connection, if the NF's flows are inside endpoints:
  // address and port (ICMP queries: identifier). Fragments and ICMP errors have
  // that of the connection to which they belong.
  const IpAddress& far_address() const { return info_.far_address; }
  be16 far_port() const { return info_.far_port; }

  // The time at which it reached SNF. An NF should use no other time: this one
  // is the same wherever and whenever the packet is processed.
  Instant arrival() const { return info_.arrival; }

 private:
  const PacketInfo& info_;
  std::span<std::byte> bytes_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_PACKET_H_
