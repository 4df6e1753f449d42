// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_CAPTURE_FORMAT_H_
#define SNF_TRACES_CAPTURE_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/packet/link_type.h"

// The numbers of the pcap and pcapng file formats, for the readers and the
// writer of this folder (draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng).
namespace snf {

// The format of a capture file, compression aside.
enum class CaptureFormat : uint8_t { kPcap, kPcapng };

// Returns the format's name, which is also the suffix of its files.
constexpr std::string_view Name(CaptureFormat format) {
  return format == CaptureFormat::kPcap ? "pcap" : "pcapng";
}

// Limits. A file that exceeds one of them is refused with its offset and value.
inline constexpr uint32_t kMaxCapturedBytes = 262'144;
inline constexpr uint32_t kMaxBlockBytes = 16u << 20;      // pcapng block
inline constexpr uint32_t kMaxSectionInterfaces = 65'536;  // pcapng section

// The first word of a pcap file, as the recording host stores it.
inline constexpr uint32_t kPcapMicroseconds = 0xa1b2c3d4;
inline constexpr uint32_t kPcapNanoseconds = 0xa1b23c4d;
inline constexpr uint32_t kPcapModified = 0xa1b2cd34;  // Kuznetzov, 24-byte
                                                       // record headers
inline constexpr uint32_t kPcapHeaderBytes = 24;
inline constexpr uint32_t kPcapRecordBytes = 16;
inline constexpr uint32_t kPcapModifiedRecordBytes = 24;

// The block types of pcapng, and the options of blocks that are read or
// written here.
inline constexpr uint32_t kByteOrderMagic = 0x1a2b3c4d;
inline constexpr uint32_t kSectionHeaderBlock = 0x0a0d0d0a;
inline constexpr uint32_t kInterfaceBlock = 1;
inline constexpr uint32_t kOldPacketBlock = 2;
inline constexpr uint32_t kSimplePacketBlock = 3;
inline constexpr uint32_t kEnhancedPacketBlock = 6;
inline constexpr uint32_t kMinBlockBytes = 12;
inline constexpr uint16_t kOptionEnd = 0;
inline constexpr uint16_t kOptionComment = 1;
inline constexpr uint16_t kOptionTsresol = 9;
inline constexpr uint16_t kOptionTsoffset = 14;

// Returns the framing that a LINKTYPE_ number names, or nothing for a framing
// that is not read here.
constexpr std::optional<LinkType> LinkTypeOf(uint32_t number) {
  switch (number) {
    case 0:
      return LinkType::kNull;
    case 1:
      return LinkType::kEthernet;
    case 9:
    case 50:
      return LinkType::kPpp;
    case 12:
    case 14:
    case 101:
    case 228:
    case 229:
      return LinkType::kRawIp;
    case 108:
      return LinkType::kLoop;
    case 113:
      return LinkType::kLinuxSll;
    case 239:
      return LinkType::kNflog;
    case 276:
      return LinkType::kLinuxSll2;
    default:
      return std::nullopt;
  }
}

// Returns the name of a framing that is not read here and is often met; "" for
// others.
constexpr std::string_view UnreadLinkName(uint32_t number) {
  switch (number) {
    case 51:
      return "PPPoE";
    case 104:
      return "Cisco HDLC";
    case 105:
      return "802.11";
    case 107:
      return "frame relay";
    case 119:
      return "802.11 Prism";
    case 127:
      return "802.11 radiotap";
    case 163:
      return "802.11 AVS";
    case 187:
    case 201:
      return "Bluetooth HCI";
    case 189:
    case 220:
      return "USB";
    case 192:
      return "PPI";
    case 195:
    case 230:
      return "802.15.4";
    case 227:
      return "CAN";
    case 249:
      return "USBPcap";
    case 253:
      return "netlink";
    default:
      return "";
  }
}

// Returns the LINKTYPE_ number to write for `link`.
constexpr uint16_t LinkTypeNumber(LinkType link) {
  switch (link) {
    case LinkType::kEthernet:
      return 1;
    case LinkType::kRawIp:
      return 101;
    case LinkType::kLinuxSll:
      return 113;
    case LinkType::kLinuxSll2:
      return 276;
    case LinkType::kNull:
      return 0;
    case LinkType::kLoop:
      return 108;
    case LinkType::kPpp:
      return 9;
    case LinkType::kNflog:
      return 239;
  }
  return 0;
}

// Loads the integers of a file whose recording host may have had the other
// byte order. The bytes need no alignment.
class FieldLoader {
 public:
  FieldLoader() = default;
  explicit FieldLoader(bool swapped) : swapped_(swapped) {}

  uint16_t Load16(const std::byte* bytes) const {
    uint16_t field = 0;
    std::memcpy(&field, bytes, sizeof(field));
    return swapped_ ? __builtin_bswap16(field) : field;
  }
  uint32_t Load32(const std::byte* bytes) const {
    uint32_t field = 0;
    std::memcpy(&field, bytes, sizeof(field));
    return swapped_ ? __builtin_bswap32(field) : field;
  }
  uint64_t Load64(const std::byte* bytes) const {
    uint64_t field = 0;
    std::memcpy(&field, bytes, sizeof(field));
    return swapped_ ? __builtin_bswap64(field) : field;
  }

 private:
  bool swapped_ = false;
};

// The code and the length that precede the value of an option in pcapng.
inline constexpr uint32_t kOptionHeaderBytes = 4;

// Returns the bytes as messages show them, in two hexadecimal digits each.
inline std::string Hex(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const std::byte each : bytes) {
    const auto octet = std::to_integer<unsigned>(each);
    hex += kDigits[octet >> 4];
    hex += kDigits[octet & 15];
  }
  return hex;
}

}  // namespace snf

#endif  // SNF_TRACES_CAPTURE_FORMAT_H_
