// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_CHECKSUM_H_
#define SNF_BASE_PACKET_CHECKSUM_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_order.h"
#include "base/packet/ip_address.h"
#include "base/packet/ip_headers.h"
#include "base/packet/protocol_numbers.h"

namespace snf {

// Theory of operation. The Internet checksum (RFC 1071) is the complement of
// the one's complement sum of 16-bit words. Its sum does not depend on the
// order of the bytes in a word nor on the width it is added up in, so bytes are
// added as 64-bit words in the machine's order and folded at the end.
//
// A header that holds its right checksum sums up to a checksum of 0. So: to
// verify, compute over the bytes as they are and compare with 0; to fill in,
// set the field to 0, compute, and store.
//
// Example (RFC 1071 §3): over 00 01 f2 03 f4 f5 f6 f7 the sum is ddf2 and the
// checksum 220d.

// Returns the Internet checksum of `bytes`; an odd last byte counts as the
// upper half of a word.
be16 InternetChecksum(std::span<const std::byte> bytes);

// Returns the checksum of TCP, UDP or ICMPv6: over the pseudo header (RFC 9293
// §3.1, RFC 8200 §8.1) and `l4`, which is the whole header and payload. It
// serves both versions of IP, for the bytes that mapping adds to an IPv4
// address sum up to zero.
be16 L4Checksum(const IpAddress& source, const IpAddress& destination,
                IpProtocol protocol, std::span<const std::byte> l4);

// A computed UDP checksum of 0 is sent as ffff, since 0 says that there is none
// (RFC 768; the two are the same number in one's complement).
inline be16 UdpChecksumToSend(be16 computed) {
  return computed == be16(0) ? be16(0xffff) : computed;
}

// Updates checksums after covered words have changed: HC' = ~(~HC + ~m + m')
// (RFC 1624, equation 3), with the sum of ~m + m' over all words. Words begin
// at even offsets. The caller must not pass a word that the checksum does not
// cover. A wrong checksum stays as wrong as it was. One change serves several
// checksums; at most 2^16 words fit.
class ChecksumChange {
 public:
  void Replace(be16 before, be16 after) {
    sum_ += uint64_t{static_cast<uint16_t>(~Raw(before))} + Raw(after);
  }
  void Replace(be32 before, be32 after) {
    sum_ += uint64_t{~Raw(before)} + Raw(after);
  }
  void Replace(const IpAddress& before, const IpAddress& after) {
    for (size_t i = 0; i < before.bytes.size(); i += sizeof(uint32_t)) {
      Replace(LoadAs<be32>(&before.bytes[i]), LoadAs<be32>(&after.bytes[i]));
    }
  }
  be16 ApplyTo(be16 checksum) const {
    return ComplementOf(sum_ + static_cast<uint16_t>(~Raw(checksum)));
  }

  // Returns the complement of a one's complement sum in the machine's order.
  static be16 ComplementOf(uint64_t sum) {
    sum = (sum & 0xffff'ffff) + (sum >> 32);  // at most 33 bits
    sum = (sum & 0xffff) + (sum >> 16);       // at most 18 bits
    sum = (sum & 0xffff) + (sum >> 16);
    return std::bit_cast<be16>(
        static_cast<uint16_t>(~((sum & 0xffff) + (sum >> 16))));
  }

 private:
  static uint16_t Raw(be16 word) { return std::bit_cast<uint16_t>(word); }
  static uint32_t Raw(be32 word) { return std::bit_cast<uint32_t>(word); }

  uint64_t sum_ = 0;
};

// Returns the checksum after one covered word or address changed from `before`
// to `after`. Budget: ≤ 2 ns.
template <typename Word>
be16 UpdateChecksum(be16 checksum, const Word& before, const Word& after) {
  ChecksumChange change;
  change.Replace(before, after);
  return change.ApplyTo(checksum);
}

// Updates the checksum of UDP, where 0 means "no checksum" and stays 0.
template <typename Word>
be16 UpdateUdpChecksum(be16 checksum, const Word& before, const Word& after) {
  if (checksum == be16(0)) return checksum;
  return UdpChecksumToSend(UpdateChecksum(checksum, before, after));
}

// Sets the header checksum to the correct value.
inline void FillIpv4Checksum(Ipv4Header<std::byte> ip) {
  ip.set_checksum(be16(0));
  ip.set_checksum(InternetChecksum(ip.header()));
}

}  // namespace snf

#endif  // SNF_BASE_PACKET_CHECKSUM_H_
