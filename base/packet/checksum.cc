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

be16 Complement(uint64_t sum) { return ChecksumChange::ComplementOf(sum); }

uint32_t Raw(be32 word) { return std::bit_cast<uint32_t>(word); }

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

}  // namespace snf
