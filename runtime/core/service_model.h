// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_SERVICE_MODEL_H_
#define SNF_RUNTIME_CORE_SERVICE_MODEL_H_

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace snf {

// A unit as a serial server (proto/decisions.md 5): a packet keeps it busy for
// its original length × 8 / capacity or 1 / packets per second, whichever is
// longer, rounded up to a nanosecond. Used by every driver, so that a unit is
// as fast in virtual time as on the real clock. A length of more than 2^31
// bytes, which only a broken capture has, counts as 2^31.
//
// Example: at 1 Gbit/s and 1 million packets/s 1500 bytes take 12 µs, and 60
// bytes 1 µs.
class ServiceModel {
 public:
  // packets_ps 0 sets no limit.
  explicit ServiceModel(int64_t capacity_bps, int64_t packets_ps = 0)
      : capacity_bps_(static_cast<uint64_t>(capacity_bps)),
        least_{packets_ps == 0
                   ? 0
                   : (1'000'000'000 + packets_ps - 1) / packets_ps} {}

  Nanos ServiceTime(uint32_t original_length) const {
    // 2^31 × 8·10^9 is less than 2^64, 2^32 × 8·10^9 is not.
    const uint64_t bytes = std::min(original_length, uint32_t{1} << 31);
    const uint64_t work = bytes * 8'000'000'000;
    const Nanos of_bits = {
        static_cast<int64_t>((work + capacity_bps_ - 1) / capacity_bps_)};
    return std::max(of_bits, least_);
  }

 private:
  uint64_t capacity_bps_;
  Nanos least_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_SERVICE_MODEL_H_
