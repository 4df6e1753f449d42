// SPDX-License-Identifier: Apache-2.0
#include "base/packet/checksum.h"

#include <bit>
#include <cstring>

namespace snf {
namespace {

// Adds in one's complement, in the machine's byte order: the carry is added to
// the lowest bit.
uint64_t Add(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  const bool carry = __builtin_add_overflow(a, b, &sum);
  return sum + carry;
}

uint64_t AddBytes(uint64_t sum, std::span<const std::byte> bytes) {
  while (bytes.size() >= 8) {
    sum = Add(sum, LoadAs<uint64_t>(bytes.data()));
    bytes = bytes.subspan(8);
  }
  uint64_t last = 0;
  if (!bytes.empty()) std::memcpy(&last, bytes.data(), bytes.size());
  return Add(sum, last);
}

uint16_t Fold(uint64_t sum) {
  sum = (sum & 0xffff'ffff) + (sum >> 32);
  sum = (sum & 0xffff'ffff) + (sum >> 32);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>((sum & 0xffff) + (sum >> 16));
}

be16 Complement(uint64_t sum) {
  return std::bit_cast<be16>(static_cast<uint16_t>(~Fold(sum)));
}

uint16_t Raw(be16 word) { return std::bit_cast<uint16_t>(word); }
uint32_t Raw(be32 word) { return std::bit_cast<uint32_t>(word); }

// Computes ~(~HC + ~m + m') from HC, ~m and m'.
be16 Update(be16 checksum, uint64_t not_before, uint64_t after) {
  const auto not_checksum = static_cast<uint16_t>(~Raw(checksum));
  return Complement(Add(Add(not_checksum, not_before), after));
}

}  // namespace

be16 InternetChecksum(std::span<const std::byte> bytes) {
  return Complement(AddBytes(0, bytes));
}

be16 L4Checksum(const IpAddress& source, const IpAddress& destination,
                IpProtocol protocol, std::span<const std::byte> l4) {
  uint64_t sum = Raw(be32(static_cast<uint32_t>(l4.size())));
  sum = Add(sum, Raw(be32(static_cast<uint32_t>(protocol))));
  sum = AddBytes(sum, source.bytes);
  sum = AddBytes(sum, destination.bytes);
  return Complement(AddBytes(sum, l4));
}

be16 UpdateChecksum(be16 checksum, be16 before, be16 after) {
  return Update(checksum, static_cast<uint16_t>(~Raw(before)), Raw(after));
}

be16 UpdateChecksum(be16 checksum, be32 before, be32 after) {
  return Update(checksum, ~Raw(before), Raw(after));
}

be16 UpdateChecksum(be16 checksum, const IpAddress& before,
                    const IpAddress& after) {
  const uint64_t sum = AddBytes(0, before.bytes);
  return Update(checksum, ~sum, AddBytes(0, after.bytes));
}

}  // namespace snf
