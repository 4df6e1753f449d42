// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_PACE_H_
#define SNF_PLATFORM_RUN_PACE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace snf {

// Says how fast a capture is replayed in real time.
struct Speed {
  enum class Kind : uint8_t {
    kTimes,    // its own gaps, `value` / 1000 times as fast
    kBits,     // `value` bits per second, by the lengths on the wire
    kPackets,  // `value` packets per second
    kMax,      // each packet as soon as the one before is taken
  };
  Kind kind = Kind::kTimes;
  int64_t value = 1'000;

  friend bool operator==(const Speed&, const Speed&) = default;
};

// "1x", "0.5x", "2Gbps", "100kpps", "max".
absl::StatusOr<Speed> ParseSpeed(const std::string& text);
std::string FormatSpeed(const Speed& speed);

// When each packet of a replay is due: an absolute schedule, so that a packet
// that is late delays no other. The first is due at its own time; a packet
// earlier than the one before is due with it. A value.
//
// Example: at 2x, packets of times 10.0 s, 10.4 s and 10.2 s are due at 10.0,
// 10.2 and 10.2 s; at 1 kpps at 10.000, 10.001 and 10.002 s.
class Pace {
 public:
  explicit Pace(const Speed& speed) : speed_(speed) {}

  bool has_schedule() const { return speed_.kind != Speed::Kind::kMax; }
  // Returns when the next packet is due. Call only with a schedule.
  Instant Due(Instant time, uint32_t original_length);

 private:
  Speed speed_;
  bool is_first_ = true;
  Instant first_;
  Instant last_due_;
  uint64_t packets_ = 0;
  uint64_t bytes_ = 0;  // of all packets before
};

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_PACE_H_
