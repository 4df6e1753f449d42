// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_IP_HEADERS_H_
#define SNF_BASE_PACKET_IP_HEADERS_H_

#include <cstring>
#include <span>

#include "base/packet/header_view.h"
#include "base/packet/ip_address.h"
#include "base/packet/protocol_numbers.h"

namespace snf {

// IPv4 with its options (RFC 791). `At` requires version 4 and the whole
// header, options included. It ignores the total length, which may exceed the
// captured bytes, and does not verify the checksum.
//
// A setter changes only its field: the caller updates the checksums that cover
// it (checksum.h).
template <ByteOrConstByte Byte>
class Ipv4Header : public HeaderView<Byte> {
 public:
  static constexpr size_t kMinBytes = 20;
  static constexpr size_t kChecksumOffset = 10;

  static Ipv4Header At(std::span<Byte> bytes, size_t offset) {
    if (!Ipv4Header::Fits(bytes, offset, kMinBytes)) return {};
    const Ipv4Header header(bytes.data() + offset);
    if (header.version() != 4 || header.header_bytes() < kMinBytes ||
        !Ipv4Header::Fits(bytes, offset, header.header_bytes())) {
      return {};
    }
    return header;
  }

  uint8_t version() const { return static_cast<uint8_t>(this->u8(0) >> 4); }
  size_t header_bytes() const { return size_t{this->u8(0)} % 16 * 4; }
  uint8_t traffic_class() const { return this->u8(1); }
  uint16_t total_bytes() const { return this->u16(2); }
  uint16_t id() const { return this->u16(4); }
  bool dont_fragment() const { return (this->u8(6) & 0x40) != 0; }
  bool more_fragments() const { return (this->u8(6) & 0x20) != 0; }
  uint16_t fragment_offset_bytes() const {
    return static_cast<uint16_t>((this->u16(6) & 0x1fff) * 8);
  }
  bool is_fragment() const { return (this->u16(6) & 0x3fff) != 0; }
  uint8_t ttl() const { return this->u8(8); }
  IpProtocol protocol() const { return IpProtocol{this->u8(9)}; }
  be16 checksum() const { return this->b16(kChecksumOffset); }
  be32 source() const { return this->b32(12); }
  be32 destination() const { return this->b32(16); }
  std::span<Byte> header() const { return {this->at(0), header_bytes()}; }
  std::span<Byte> options() const { return header().subspan(kMinBytes); }

  void set_total_bytes(uint16_t bytes) const {
    Store(this->at(2), be16(bytes));
  }
  void set_ttl(uint8_t ttl) const { *this->at(8) = std::byte{ttl}; }
  void set_checksum(be16 checksum) const {
    Store(this->at(kChecksumOffset), checksum);
  }
  void set_source(be32 address) const { Store(this->at(12), address); }
  void set_destination(be32 address) const { Store(this->at(16), address); }

 private:
  using HeaderView<Byte>::HeaderView;
};

// IPv6 (RFC 8200), the fixed header of 40 bytes.
template <ByteOrConstByte Byte>
class Ipv6Header : public HeaderView<Byte> {
 public:
  static constexpr size_t kBytes = 40;

  static Ipv6Header At(std::span<Byte> bytes, size_t offset) {
    if (!Ipv6Header::Fits(bytes, offset, kBytes)) return {};
    const Ipv6Header header(bytes.data() + offset);
    if (header.version() != 6) return {};
    return header;
  }

  uint8_t version() const { return static_cast<uint8_t>(this->u8(0) >> 4); }
  uint8_t traffic_class() const {
    return static_cast<uint8_t>(this->u16(0) >> 4);
  }
  uint32_t flow_label() const { return this->u32(0) & 0x000f'ffff; }
  // The length of everything behind the fixed header; 0 in a jumbogram (RFC
  // 2675).
  uint16_t payload_bytes() const { return this->u16(4); }
  IpProtocol next_header() const { return IpProtocol{this->u8(6)}; }
  uint8_t hop_limit() const { return this->u8(7); }
  IpAddress source() const { return LoadAs<IpAddress>(this->at(8)); }
  IpAddress destination() const { return LoadAs<IpAddress>(this->at(24)); }

  void set_payload_bytes(uint16_t bytes) const {
    Store(this->at(4), be16(bytes));
  }
  void set_hop_limit(uint8_t limit) const { *this->at(7) = std::byte{limit}; }
  void set_source(const IpAddress& address) const {
    std::memcpy(this->at(8), address.bytes.data(), sizeof address);
  }
  void set_destination(const IpAddress& address) const {
    std::memcpy(this->at(24), address.bytes.data(), sizeof address);
  }

 private:
  using HeaderView<Byte>::HeaderView;
};

// Returns true if an IPv6 header of this number is followed by another header
// and every host walks it (RFC 8200 §4). ESP (50) is not among them: the bytes
// behind it are encrypted.
constexpr bool IsIpv6Extension(IpProtocol protocol) {
  return protocol == IpProtocol::kHopByHop ||
         protocol == IpProtocol::kRouting ||
         protocol == IpProtocol::kFragment ||
         protocol == IpProtocol::kAuthentication ||
         protocol == IpProtocol::kDestinationOptions;
}

// Returns true for headers of hosts that roam or have several addresses, which
// have a next-header field (RFC 7045 §4). Messages of these protocols have "no
// next header" there, and hosts without the protocol look no further.
constexpr bool IsHostIdentityHeader(IpProtocol protocol) {
  return protocol == IpProtocol::kMobility || protocol == IpProtocol::kHip ||
         protocol == IpProtocol::kShim6;
}

// An IPv6 extension header of kind `kind` (RFC 8200 §4, RFC 4302 for the
// authentication header).
template <ByteOrConstByte Byte>
class Ipv6ExtensionHeader : public HeaderView<Byte> {
 public:
  static constexpr size_t kMinBytes = 8;

  static Ipv6ExtensionHeader At(std::span<Byte> bytes, size_t offset,
                                IpProtocol kind) {
    if (!Ipv6ExtensionHeader::Fits(bytes, offset, kMinBytes)) {
      return {};
    }
    const Ipv6ExtensionHeader header(bytes.data() + offset, kind);
    if (!Ipv6ExtensionHeader::Fits(bytes, offset, header.header_bytes())) {
      return {};
    }
    return header;
  }

  IpProtocol next_header() const { return IpProtocol{this->u8(0)}; }
  size_t header_bytes() const {
    const size_t length = this->u8(1);
    if (kind_ == IpProtocol::kFragment) return kMinBytes;
    return kind_ == IpProtocol::kAuthentication ? (length + 2) * 4
                                                : (length + 1) * 8;
  }

 private:
  Ipv6ExtensionHeader() = default;
  Ipv6ExtensionHeader(Byte* start, IpProtocol kind)
      : HeaderView<Byte>(start), kind_(kind) {}

  IpProtocol kind_{};
};

// The IPv6 fragment header (RFC 8200 §4.5).
template <ByteOrConstByte Byte>
class Ipv6FragmentHeader : public HeaderView<Byte> {
 public:
  static constexpr size_t kBytes = 8;

  static Ipv6FragmentHeader At(std::span<Byte> bytes, size_t offset) {
    if (!Ipv6FragmentHeader::Fits(bytes, offset, kBytes)) return {};
    return Ipv6FragmentHeader(bytes.data() + offset);
  }

  IpProtocol next_header() const { return IpProtocol{this->u8(0)}; }
  uint16_t fragment_offset_bytes() const { return this->u16(2) & 0xfff8; }
  bool more_fragments() const { return (this->u8(3) & 1) != 0; }
  uint32_t id() const { return this->u32(4); }

 private:
  using HeaderView<Byte>::HeaderView;
};

}  // namespace snf

#endif  // SNF_BASE_PACKET_IP_HEADERS_H_
