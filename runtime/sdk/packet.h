// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_PACKET_H_
#define SNF_RUNTIME_SDK_PACKET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/packet/packet_info.h"
#include "base/time.h"
#include "base/tunnels/ip_translation.h"
#include "base/tunnels/packet_resize.h"

namespace snf {

namespace internal {
// Tells the guard of the call, if there is one, that the packet has another
// size now (nf_call.h).
void NoteResize(size_t bytes);
}  // namespace internal

// A packet as an NF sees it, valid during one process_packet call. The bytes
// may be rewritten in place.
class Packet {
 public:
  // A packet whose size cannot change.
  Packet(const PacketInfo& info, std::span<std::byte> bytes)
      : info_(info), bytes_(bytes) {}
  // A packet at the beginning of `room`, in which it may grow by up to
  // kMaxPacketGrowth bytes. `info` follows.
  Packet(PacketInfo& info, std::span<std::byte> bytes,
         std::span<std::byte> room)
      : info_(info),
        bytes_(bytes),
        resizable_(&info),
        room_bytes_(std::min(room.size(), bytes.size() + kMaxPacketGrowth)) {}
  Packet(const Packet&) = delete;
  Packet& operator=(const Packet&) = delete;

  // The frame as captured, from its link header on. May be shorter than
  // original_length(): captures are often cut.
  std::span<std::byte> bytes() const { return bytes_; }
  uint32_t original_length() const { return info_.original_length; }
  // Return how many packets this stands for, and the bytes that they take on
  // the wire, headers included. Not 1 and original_length() if the NF
  // takes_merged() and the frame is one of several packets.
  uint32_t wire_packets() const { return headers().packets(); }
  uint64_t wire_bytes() const {
    return original_length() +
           uint64_t{wire_packets() - 1} * headers().payload_offset;
  }
  LinkType link() const { return info_.link; }

  // The places of its headers (base/packet/packet_parser.h); has_ip() is true.
  const ParsedPacket& headers() const { return info_.headers; }

  // The side from which it comes, if live ports or inside endpoints tell it. A
  // packet made by an NF comes from the inside.
  Side side() const { return info_.side; }

  // The outside end of its connection, if the NF's flows are inside endpoints:
  // address and port (ICMP queries: 0). Fragments and ICMP errors have
  // that of the connection to which they belong.
  const IpAddress& far_address() const { return info_.far_address; }
  be16 far_port() const { return info_.far_port; }

  // Change the packet's size in place (base/tunnels/packet_resize.h has the
  // rules): prepend puts headers in front of the IP packet, behind the link
  // header; decapsulate removes bytes there, so that an inner IP packet
  // remains; append and trim change the end of its payload. headers() and
  // bytes() then show the packet as it is now; the result of an earlier bytes()
  // is not valid any more. `mtu` is the most bytes of the IP packet. A
  // packet may grow by kMaxPacketGrowth bytes in all.
  PacketResize prepend(std::span<const std::byte> headers, uint32_t mtu) {
    return Resize(
        [&] { return PrependHeaders(*resizable_, room(), headers, mtu); });
  }
  PacketResize decapsulate(uint32_t bytes) {
    return Resize([&] { return RemoveHeaders(*resizable_, room(), bytes); });
  }
  PacketResize append(std::span<const std::byte> data, uint32_t mtu) {
    return Resize(
        [&] { return AppendPayload(*resizable_, room(), data, mtu); });
  }
  PacketResize trim(uint32_t bytes) {
    return Resize([&] { return TrimPayload(*resizable_, room(), bytes); });
  }
  // Translates it to the other version of IP (base/tunnels/ip_translation.h).
  PacketResize translate(const IpTranslation& translation, uint32_t mtu) {
    return Resize(
        [&] { return TranslateIp(*resizable_, room(), translation, mtu); });
  }
  bool is_resized() const { return is_resized_; }

  // The time at which it reached SNF. An NF should use no other time: this one
  // is the same wherever and whenever the packet is processed.
  Instant arrival() const { return info_.arrival; }

 private:
  friend class ChainUndo;

  std::span<std::byte> room() const { return {bytes_.data(), room_bytes_}; }
  template <typename Change>
  PacketResize Resize(const Change& change) {
    if (resizable_ == nullptr) return PacketResize::kNoRoom;
    const PacketResize outcome = change();
    if (outcome == PacketResize::kDone) SetSize(resizable_->length, true);
    return outcome;
  }
  void SetSize(size_t bytes, bool is_resized) {
    bytes_ = room().first(bytes);
    is_resized_ = is_resized;
    internal::NoteResize(bytes);
  }

  const PacketInfo& info_;
  std::span<std::byte> bytes_;
  PacketInfo* resizable_ = nullptr;  // info_, if its size may change
  size_t room_bytes_ = 0;
  bool is_resized_ = false;
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_PACKET_H_
