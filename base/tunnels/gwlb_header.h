// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_TUNNELS_GWLB_HEADER_H_
#define SNF_BASE_TUNNELS_GWLB_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/tunnels/geneve.h"

namespace snf {

// The options of AWS's Gateway Load Balancer, all of class 0x0108. A packet
// without one of the three is not from a gateway load balancer.
inline constexpr uint16_t kAwsOptionClass = 0x0108;
inline constexpr uint8_t kEndpointOption = 1;    // 8 bytes: the GWLB endpoint
inline constexpr uint8_t kAttachmentOption = 2;  // 8 bytes: the VPC attachment
inline constexpr uint8_t kCookieOption = 3;      // 4 bytes: the flow

// The longest inner packet that a gateway load balancer forwards.
inline constexpr uint32_t kGwlbMtu = 8'500;

// The reason why a packet of UDP port 6081 is refused.
enum class GwlbRefusal : uint8_t {
  kNone,
  kTruncated,  // this and the next four: as GeneveFault
  kVersion,
  kOptionsTruncated,
  kOptionLength,
  kCriticalOption,
  kInnerProtocol,    // the inner packet is neither IPv4 nor IPv6
  kControl,          // a message to the tunnel's end, which has no packet
  kAwsOptionLength,  // one of the three options has another length
  kAwsOptionTwice,   // one of the three options is there twice
  kNoEndpoint,
  kNoAttachment,
  kNoCookie,
  kInnerEmpty,
  kInnerTooLong,  // longer than kGwlbMtu
};
inline constexpr size_t kGwlbRefusals = 15;
// Returns "none", "truncated", "version" …
std::string_view Name(GwlbRefusal refusal);

// Parses the payload of an outer UDP packet. Unless the result is kNone,
// `header` holds anything.
//
// Budget: ≤ 40 ns; no allocation.
GwlbRefusal ParseGwlb(std::span<const std::byte> payload, GeneveHeader& header);

// The data of the three options.
struct GwlbMetadata {
  uint64_t endpoint = 0;
  uint64_t attachment = 0;
  uint32_t cookie = 0;

  friend bool operator==(const GwlbMetadata&, const GwlbMetadata&) = default;
};
// Returns the data of a header that ParseGwlb has taken.
GwlbMetadata ReadGwlbMetadata(const GeneveHeader& header);

// The bytes of a header with the three options alone.
inline constexpr size_t kGwlbHeaderBytes =
    kGeneveFixedBytes + 3 * kGeneveOptionHeaderBytes + 8 + 8 + 4;
// Writes such a header, in front of an inner packet of this type, which is IPv4
// or IPv6, to the beginning of `room`.
void BuildGwlb(const GwlbMetadata& metadata, EtherType inner,
               std::span<std::byte, kGwlbHeaderBytes> room);

}  // namespace snf

#endif  // SNF_BASE_TUNNELS_GWLB_HEADER_H_
