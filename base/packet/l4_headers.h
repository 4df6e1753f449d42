// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_L4_HEADERS_H_
#define SNF_BASE_PACKET_L4_HEADERS_H_

#include <span>

#include "base/packet/header_view.h"
#include "base/packet/protocol_numbers.h"

namespace snf {

// The two ports with which TCP, UDP, UDP-Lite, SCTP and DCCP begin. A truncated
// frame, or the packet quoted in an ICMP error, may hold no more of the header.
template <ByteOrConstByte Byte>
class PortsView : public HeaderView<Byte> {
 public:
  static constexpr size_t kBytes = 4;

  static PortsView At(std::span<Byte> bytes, size_t offset) {
    if (!PortsView::Fits(bytes, offset, kBytes)) return {};
    return PortsView(bytes.data() + offset);
  }

  be16 source_port() const { return this->b16(0); }
  be16 destination_port() const { return this->b16(2); }

  void set_source_port(be16 port) const { Store(this->at(0), port); }
  void set_destination_port(be16 port) const { Store(this->at(2), port); }

 private:
  using HeaderView<Byte>::HeaderView;
};

// TCP with its options (RFC 9293). `At` requires the whole header. A setter
// changes only its field; the caller updates the checksum (checksum.h).
template <ByteOrConstByte Byte>
class TcpHeader : public HeaderView<Byte> {
 public:
  static constexpr size_t kMinBytes = 20;
  static constexpr size_t kChecksumOffset = 16;
  static constexpr uint8_t kFin = 0x01, kSyn = 0x02, kRst = 0x04, kPsh = 0x08,
                           kAck = 0x10, kUrg = 0x20;

  static TcpHeader At(std::span<Byte> bytes, size_t offset) {
    if (!TcpHeader::Fits(bytes, offset, kMinBytes)) return {};
    const TcpHeader header(bytes.data() + offset);
    if (header.header_bytes() < kMinBytes ||
        !TcpHeader::Fits(bytes, offset, header.header_bytes())) {
      return {};
    }
    return header;
  }

  be16 source_port() const { return this->b16(0); }
  be16 destination_port() const { return this->b16(2); }
  uint32_t sequence() const { return this->u32(4); }
  uint32_t acknowledgement() const { return this->u32(8); }
  size_t header_bytes() const { return size_t{this->u8(12)} / 16 * 4; }
  uint8_t flags() const { return this->u8(13); }
  uint16_t window() const { return this->u16(14); }
  be16 checksum() const { return this->b16(kChecksumOffset); }
  std::span<Byte> options() const {
    return {this->at(kMinBytes), header_bytes() - kMinBytes};
  }

  void set_source_port(be16 port) const { Store(this->at(0), port); }
  void set_destination_port(be16 port) const { Store(this->at(2), port); }
  void set_checksum(be16 checksum) const {
    Store(this->at(kChecksumOffset), checksum);
  }

 private:
  using HeaderView<Byte>::HeaderView;
};

// UDP (RFC 768). A checksum of 0 means that there is none.
template <ByteOrConstByte Byte>
class UdpHeader : public HeaderView<Byte> {
 public:
  static constexpr size_t kBytes = 8;
  static constexpr size_t kChecksumOffset = 6;

  static UdpHeader At(std::span<Byte> bytes, size_t offset) {
    if (!UdpHeader::Fits(bytes, offset, kBytes)) return {};
    return UdpHeader(bytes.data() + offset);
  }

  be16 source_port() const { return this->b16(0); }
  be16 destination_port() const { return this->b16(2); }
  // The length of header and payload together, as the header gives it.
  uint16_t length_bytes() const { return this->u16(4); }
  be16 checksum() const { return this->b16(kChecksumOffset); }

  void set_source_port(be16 port) const { Store(this->at(0), port); }
  void set_destination_port(be16 port) const { Store(this->at(2), port); }
  void set_length_bytes(uint16_t bytes) const {
    Store(this->at(4), be16(bytes));
  }
  void set_checksum(be16 checksum) const {
    Store(this->at(kChecksumOffset), checksum);
  }

 private:
  using HeaderView<Byte>::HeaderView;
};

// ICMP (RFC 792) or ICMPv6 (RFC 4443): the eight bytes that their queries and
// errors share. A type means different things in the two, hence the parameter
// `protocol`.
template <ByteOrConstByte Byte>
class IcmpHeader : public HeaderView<Byte> {
 public:
  static constexpr size_t kBytes = 8;
  static constexpr size_t kChecksumOffset = 2;

  static IcmpHeader At(std::span<Byte> bytes, size_t offset,
                       IpProtocol protocol) {
    if (!IcmpHeader::Fits(bytes, offset, kBytes)) return {};
    return IcmpHeader(bytes.data() + offset, protocol);
  }

  uint8_t type() const { return this->u8(0); }
  uint8_t code() const { return this->u8(1); }
  be16 checksum() const { return this->b16(kChecksumOffset); }
  // The identifier and the sequence number of a query or its reply.
  be16 identifier() const { return this->b16(4); }
  be16 sequence() const { return this->b16(6); }

  // True if the IP packet that caused the message is quoted behind these eight
  // bytes. ICMP: unreachable, source quench, redirect, time exceeded, parameter
  // problem. ICMPv6: every type below 128.
  bool is_error() const {
    const uint8_t t = type();
    if (protocol_ == IpProtocol::kIcmpv6) return t < 128;
    return t == 3 || t == 4 || t == 5 || t == 11 || t == 12;
  }

  // True if the message has an identifier. ICMP: echo, timestamp, information,
  // address mask and extended echo (RFC 8335); ICMPv6: echo and extended echo.
  bool is_query() const {
    const uint8_t t = type();
    if (protocol_ == IpProtocol::kIcmpv6) {
      return t == 128 || t == 129 || t == 160 || t == 161;
    }
    return t == 0 || t == 8 || (t >= 13 && t <= 18) || t == 42 || t == 43;
  }

  void set_identifier(be16 identifier) const { Store(this->at(4), identifier); }
  void set_checksum(be16 checksum) const {
    Store(this->at(kChecksumOffset), checksum);
  }

 private:
  IcmpHeader() = default;
  IcmpHeader(Byte* start, IpProtocol protocol)
      : HeaderView<Byte>(start), protocol_(protocol) {}

  IpProtocol protocol_{};
};

}  // namespace snf

#endif  // SNF_BASE_PACKET_L4_HEADERS_H_
