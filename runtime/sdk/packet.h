// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_PACKET_H_
#define SNF_RUNTIME_SDK_PACKET_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/packet/packet_info.h"
#include "base/time.h"

namespace snf {

// A packet as an NF sees it, for the length of one process_packet call. The
// bytes may be rewritten in place.
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

  // Where its headers are (base/packet/packet_parser.h); has_ip() is true.
  const ParsedPacket& headers() const { return info_.headers; }

  // Which side it comes from, where the NF's flows are inside endpoints; a
  // packet made by an NF comes from the inside.
  Side side() const { return info_.side; }

  // The other end of its connection, where the NF's flows are inside endpoints:
  // address and port (ICMP queries: identifier). Fragments and ICMP errors have
  // that of the connection that they belong to.
  const IpAddress& far_address() const { return info_.far_address; }
  be16 far_port() const { return info_.far_port; }

  // When it reached SNF. The only time an NF should decide by: it is the same
  // wherever and whenever the packet is processed.
  Instant arrival() const { return info_.arrival; }

 private:
  const PacketInfo& info_;
  std::span<std::byte> bytes_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_PACKET_H_
