// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_LINK_HEADERS_H_
#define SNF_BASE_PACKET_LINK_HEADERS_H_

#include <span>

#include "base/packet/header_view.h"
#include "base/packet/protocol_numbers.h"

namespace snf {

// Ethernet II or IEEE 802.3: destination, source, type or length.
template <ByteOrConstByte Byte>
class EthernetHeader : public HeaderView<Byte> {
 public:
  static constexpr size_t kBytes = 14;

  static EthernetHeader At(std::span<Byte> bytes, size_t offset) {
    if (!EthernetHeader::Fits(bytes, offset, kBytes)) return {};
    return EthernetHeader(bytes.data() + offset);
  }

  std::span<Byte, 6> destination() const {
    return std::span<Byte, 6>(this->at(0), 6);
  }
  std::span<Byte, 6> source() const {
    return std::span<Byte, 6>(this->at(6), 6);
  }
  EtherType type() const { return EtherType{this->u16(12)}; }

 private:
  using HeaderView<Byte>::HeaderView;
};

// The four bytes behind an IEEE 802.1Q or 802.1ad Ethernet type: tag and type
// of what follows.
template <ByteOrConstByte Byte>
class VlanTag : public HeaderView<Byte> {
 public:
  static constexpr size_t kBytes = 4;

  static VlanTag At(std::span<Byte> bytes, size_t offset) {
    if (!VlanTag::Fits(bytes, offset, kBytes)) return {};
    return VlanTag(bytes.data() + offset);
  }

  // 0 if the tag carries a priority and no VLAN.
  uint16_t id() const { return this->u16(0) & 0x0fff; }
  uint8_t priority() const { return static_cast<uint8_t>(this->u8(0) >> 5); }
  EtherType type() const { return EtherType{this->u16(2)}; }

 private:
  using HeaderView<Byte>::HeaderView;
};

// LLC (IEEE 802.2) behind an IEEE 802.3 length: destination and source access
// point, and control.
template <ByteOrConstByte Byte>
class LlcHeader : public HeaderView<Byte> {
 public:
  static constexpr size_t kBytes = 3;

  static LlcHeader At(std::span<Byte> bytes, size_t offset) {
    if (!LlcHeader::Fits(bytes, offset, kBytes)) return {};
    return LlcHeader(bytes.data() + offset);
  }

  // True for spanning trees (0x42) and for IS-IS (0xfe).
  bool is_control() const {
    const uint16_t points = this->u16(0);
    return (points == 0x4242 || points == 0xfefe) && this->u8(2) == 0x03;
  }

 private:
  using HeaderView<Byte>::HeaderView;
};

// LLC and SNAP (IEEE 802.2, RFC 1042) behind an IEEE 802.3 length.
template <ByteOrConstByte Byte>
class SnapHeader : public HeaderView<Byte> {
 public:
  static constexpr size_t kBytes = 8;

  static SnapHeader At(std::span<Byte> bytes, size_t offset) {
    if (!SnapHeader::Fits(bytes, offset, kBytes)) return {};
    return SnapHeader(bytes.data() + offset);
  }

  // True if an Ethernet type follows: LLC says SNAP, unnumbered, and the
  // organisation is 0 (RFC 1042) or 0000f8 (802.1H).
  bool has_type() const {
    const uint32_t organisation = this->u32(2) & 0x00ff'ffff;
    return this->u16(0) == 0xaaaa && this->u8(2) == 0x03 &&
           (organisation == 0 || organisation == 0x0000f8);
  }
  EtherType type() const { return EtherType{this->u16(6)}; }
  // True for control messages of Cisco switches: PAgP, PVST+, UDLD, CDP,
  // VTP, DTP.
  bool is_control() const {
    if (this->u16(0) != 0xaaaa || this->u32(2) != 0x0300'000c) return false;
    const uint16_t protocol = this->u16(6);
    return protocol == 0x0104 || protocol == 0x010b || protocol == 0x0111 ||
           (protocol >= 0x2000 && protocol <= 0x2004);
  }

 private:
  using HeaderView<Byte>::HeaderView;
};

// A PPPoE session packet (RFC 2516) with the PPP protocol number behind it.
template <ByteOrConstByte Byte>
class PppoeHeader : public HeaderView<Byte> {
 public:
  static constexpr size_t kBytes = 8;

  static PppoeHeader At(std::span<Byte> bytes, size_t offset) {
    if (!PppoeHeader::Fits(bytes, offset, kBytes)) return {};
    return PppoeHeader(bytes.data() + offset);
  }

  // True for version 1, type 1 and code 0, which mark session data.
  bool is_session_data() const { return this->u16(0) == 0x1100; }
  uint16_t session() const { return this->u16(2); }
  PppProtocol protocol() const { return PppProtocol{this->u16(6)}; }

 private:
  using HeaderView<Byte>::HeaderView;
};

// One entry of an MPLS label stack (RFC 3032).
template <ByteOrConstByte Byte>
class MplsEntry : public HeaderView<Byte> {
 public:
  static constexpr size_t kBytes = 4;

  static MplsEntry At(std::span<Byte> bytes, size_t offset) {
    if (!MplsEntry::Fits(bytes, offset, kBytes)) return {};
    return MplsEntry(bytes.data() + offset);
  }

  uint32_t label() const { return this->u32(0) >> 12; }
  bool is_bottom() const { return (this->u8(2) & 1) != 0; }
  uint8_t ttl() const { return this->u8(3); }

 private:
  using HeaderView<Byte>::HeaderView;
};

// Linux "cooked" capture (tcpdump.org/linktypes/LINKTYPE_LINUX_SLL.html).
template <ByteOrConstByte Byte>
class LinuxSllHeader : public HeaderView<Byte> {
 public:
  static constexpr size_t kBytes = 16;

  static LinuxSllHeader At(std::span<Byte> bytes, size_t offset) {
    if (!LinuxSllHeader::Fits(bytes, offset, kBytes)) return {};
    return LinuxSllHeader(bytes.data() + offset);
  }

  uint16_t packet_type() const { return this->u16(0); }
  EtherType type() const { return EtherType{this->u16(14)}; }

 private:
  using HeaderView<Byte>::HeaderView;
};

// The second version of Linux "cooked" capture
// (tcpdump.org/linktypes/LINKTYPE_LINUX_SLL2.html).
template <ByteOrConstByte Byte>
class LinuxSll2Header : public HeaderView<Byte> {
 public:
  static constexpr size_t kBytes = 20;

  static LinuxSll2Header At(std::span<Byte> bytes, size_t offset) {
    if (!LinuxSll2Header::Fits(bytes, offset, kBytes)) return {};
    return LinuxSll2Header(bytes.data() + offset);
  }

  EtherType type() const { return EtherType{this->u16(0)}; }
  uint32_t interface_index() const { return this->u32(4); }
  uint8_t packet_type() const { return this->u8(10); }

 private:
  using HeaderView<Byte>::HeaderView;
};

// One attribute of a packet from Linux's netfilter log
// (tcpdump.org/linktypes/LINKTYPE_NFLOG.html). Length and type are in the
// recording host's byte order. Types are small numbers, so that the value shows
// the order. The first attribute stands behind family, version and group.
template <ByteOrConstByte Byte>
class NflogAttribute : public HeaderView<Byte> {
 public:
  static constexpr size_t kFirst = 4;
  static constexpr size_t kBytes = 4;

  // Returns nothing too if the attribute says that it is shorter than that.
  static NflogAttribute At(std::span<Byte> bytes, size_t offset) {
    if (!NflogAttribute::Fits(bytes, offset, kBytes)) return {};
    const NflogAttribute attribute(bytes.data() + offset);
    if (attribute.bytes() < kBytes) return {};
    return attribute;
  }

  // The size of the attribute with its own header.
  uint16_t bytes() const { return is_swapped() ? swapped(0) : this->u16(0); }
  size_t padded_bytes() const { return (size_t{bytes()} + 3) / 4 * 4; }
  bool is_packet() const {
    return (is_swapped() ? swapped(2) : this->u16(2)) == 9;
  }

 private:
  using HeaderView<Byte>::HeaderView;

  bool is_swapped() const { return this->u16(2) > 0xff; }
  uint16_t swapped(size_t offset) const {
    return __builtin_bswap16(this->u16(offset));
  }
};

// The address family of BSD loopback captures: network order with
// LINKTYPE_LOOP, the recording host's with LINKTYPE_NULL. Families are small
// numbers, so the value itself shows its byte order and one accessor serves
// both.
template <ByteOrConstByte Byte>
class LoopbackHeader : public HeaderView<Byte> {
 public:
  static constexpr size_t kBytes = 4;

  static LoopbackHeader At(std::span<Byte> bytes, size_t offset) {
    if (!LoopbackHeader::Fits(bytes, offset, kBytes)) return {};
    return LoopbackHeader(bytes.data() + offset);
  }

  uint32_t family() const {
    const uint32_t family = this->u32(0);
    return family > 0xffff ? __builtin_bswap32(family) : family;
  }
  bool is_ipv4() const { return family() == 2; }
  // 10 on Linux, 24 on NetBSD and OpenBSD, 28 on FreeBSD, 30 on macOS.
  bool is_ipv6() const {
    const uint32_t value = family();
    return value == 10 || value == 24 || value == 28 || value == 30;
  }

 private:
  using HeaderView<Byte>::HeaderView;
};

}  // namespace snf

#endif  // SNF_BASE_PACKET_LINK_HEADERS_H_
