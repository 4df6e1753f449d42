// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_SERVICE_MODEL_H_
#define SNF_PLATFORM_RUN_SERVICE_MODEL_H_

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace snf {

// A unit as a serial server (proto/decisions.md 5): a packet keeps it busy for
// its original length × 8 / capacity, rounded up to a nanosecond. Used by every
// driver, so that a unit is as fast in virtual time as on the real clock. A
// length of more than 2^31 bytes, which only a broken capture has, counts as
// 2^31.
//
// Example: 1500 bytes at 1 Gbit/s take 12 µs.
class ServiceModel {
 public:
  explicit ServiceModel(int64_t capacity_bps)
      : capacity_bps_(static_cast<uint64_t>(capacity_bps)) {}

  Nanos ServiceTime(uint32_t original_length) const {
    // 2^31 × 8·10^9 is less than 2^64, 2^32 × 8·10^9 is not.
    const uint64_t bytes = std::min(original_length, uint32_t{1} << 31);
    const uint64_t work = bytes * 8'000'000'000;
    return {static_cast<int64_t>((work + capacity_bps_ - 1) / capacity_bps_)};
  }

 private:
  uint64_t capacity_bps_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_SERVICE_MODEL_H_
