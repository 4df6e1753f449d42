// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_HOST_BUCKET_H_
#define SNF_PLATFORM_PORTS_HOST_BUCKET_H_

#include <cstddef>
#include <cstdint>

#include "base/byte_order.h"
#include "base/packet/ip_address.h"

namespace snf {

// Returns the bucket of a host inside, as Steering's programs find it: the
// place of its packets. `is_v6` tells the version of its packets.
inline uint32_t BucketOf(const IpAddress& host, bool is_v6) {
  constexpr uint32_t kGolden = 0x9e37'79b1;
  uint32_t folded = host.ipv4().host();
  if (is_v6) {
    folded = 0;
    for (size_t at = 0; at < host.bytes.size(); at += 4) {
      folded = (folded ^ LoadBe32(&host.bytes[at]).host()) * kGolden;
    }
  }
  return (folded * kGolden) >> 24;
}

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_HOST_BUCKET_H_
