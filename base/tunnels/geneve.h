// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_TUNNELS_GENEVE_H_
#define SNF_BASE_TUNNELS_GENEVE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/packet/protocol_numbers.h"

namespace snf {

// Theory of operation. A GENEVE header (RFC 8926) follows an outer UDP header:
// eight bytes, then a list of options, then the inner packet.
//
//   byte 0     version (2 bits), length of the options in words (6 bits)
//   byte 1     O: control message, C: critical options, 6 reserved bits
//   bytes 2-3  type of the inner packet
//   bytes 4-7  virtual network identifier (24 bits), reserved byte
//
// An option has its class (16 bits), its type (8 bits, the upper one says that
// it is critical), the length of its data in words (5 bits), and the data.
//
// Worked example: AWS's three options have 8, 8 and 4 bytes of data, so the
// list has 12 + 12 + 8 = 32 bytes, byte 0 is 8, and the header has 40 bytes.
//
// Nothing is read behind the list of options, whatever lengths say.

inline constexpr uint16_t kGenevePort = 6081;
// The type of an inner packet that is a whole Ethernet frame.
inline constexpr EtherType kBridgedFrame{0x6558};
// The type of bytes of shared memory between two hosts of SNF (IEEE 802 local
// experimental EtherType 1).
inline constexpr EtherType kMirrorBytes{0x88b5};
inline constexpr size_t kGeneveFixedBytes = 8;
inline constexpr size_t kMaxGeneveOptionsBytes = 63 * 4;
inline constexpr size_t kMaxGeneveBytes =
    kGeneveFixedBytes + kMaxGeneveOptionsBytes;
inline constexpr size_t kGeneveOptionHeaderBytes = 4;
inline constexpr size_t kMaxGeneveOptionData = 31 * 4;

// The fault of a header that cannot be parsed or built.
enum class GeneveFault : uint8_t {
  kNone,
  kTruncated,         // the bytes end inside the eight bytes
  kOtherVersion,      // the version is not 0
  kOptionsTruncated,  // the bytes end inside the list of options
  kOptionLength,      // an option ends behind the list, or is not whole words
  kCriticalOption,    // a critical option that the caller does not know
  kInnerProtocol,     // not IPv4, IPv6, Ethernet or kMirrorBytes
  kOptionsTooLong,    // to build: more than kMaxGeneveOptionsBytes
  kNoRoom,            // to build: the room is too small
};
inline constexpr size_t kGeneveFaults = 9;
// Returns "none", "truncated" …
std::string_view Name(GeneveFault fault);

// The name of an option. `type` includes the critical bit.
struct GeneveOptionName {
  static constexpr uint8_t kCritical = 0x80;

  uint16_t option_class = 0;
  uint8_t type = 0;

  bool is_critical() const { return (type & kCritical) != 0; }
  friend bool operator==(const GeneveOptionName&,
                         const GeneveOptionName&) = default;
};

// An option and its data, which lies in the header.
struct GeneveOption {
  GeneveOptionName name;
  std::span<const std::byte> data;
};

// Goes through a list of options, in its order. The list need not be right.
class GeneveOptions {
 public:
  explicit GeneveOptions(std::span<const std::byte> list) : left_(list) {}

  // Returns the next option; nothing at the end of the list, or where an option
  // would end behind it.
  std::optional<GeneveOption> Next();
  // Returns true if an option would end behind the list.
  bool is_broken() const { return is_broken_; }

 private:
  std::span<const std::byte> left_;
  bool is_broken_ = false;
};

// A header. Spans lie in the parsed bytes.
struct GeneveHeader {
  bool is_control = false;  // a message to the tunnel's end
  EtherType protocol{};
  uint32_t network = 0;  // 24 bits
  std::span<const std::byte> options{};

  size_t bytes() const { return kGeneveFixedBytes + options.size(); }
};

// Parses the header with which the payload of an outer UDP packet begins.
// `known` are the critical options that the caller understands: others refuse
// the packet (RFC 8926 §3.5). Reserved bits are ignored. Unless the result is
// kNone, `header` holds anything.
//
// Budget: ≤ 20 ns for three options; no allocation.
GeneveFault ParseGeneve(std::span<const std::byte> payload,
                        std::span<const GeneveOptionName> known,
                        GeneveHeader& header);

// The outcome of BuildGeneve.
struct BuiltGeneve {
  GeneveFault fault = GeneveFault::kNone;
  size_t bytes = 0;  // 0 unless the fault is kNone
};

// Writes a header with these options to the beginning of `room`; the options of
// `header` itself are ignored. If one of the options is critical, the header
// says so. `header.network` has at most 24 bits. Unless the fault is kNone,
// `room` is as it was.
BuiltGeneve BuildGeneve(const GeneveHeader& header,
                        std::span<const GeneveOption> options,
                        std::span<std::byte> room);

}  // namespace snf

#endif  // SNF_BASE_TUNNELS_GENEVE_H_
