// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_QUANTITY_H_
#define SNF_BASE_QUANTITY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace snf {

// Quantities as people write them in flags and read them in reports.
//
// All arithmetic is decimal and exact: "0.1us" is 100 ns, never 99. A number is
// digits with an optional fraction; one space may stand before the unit; there
// is no sign, no exponent and no thousands separator. What is no number, has an
// unknown unit, is finer than the smallest unit ("0.5ns") or does not fit int64
// is InvalidArgument or OutOfRange, with a message that quotes the text and
// shows what is right. Pure functions; they allocate only their strings.

// "500us", "1.5 ms", "2h", "0". Units: ns, us (also µs), ms, s, m or min, h.
absl::StatusOr<Nanos> ParseDuration(const std::string& text);

// As ParseDuration, and "inf" is Nanos::max(): for flags that may be without
// limit.
absl::StatusOr<Nanos> ParseDurationOrInfinity(const std::string& text);

// "15KB" = 15,000, "1MiB" = 1,048,576, "96B", "96". Units: B, KB or kB, MB, GB,
// TB; KiB, MiB, GiB, TiB.
absl::StatusOr<int64_t> ParseBytes(const std::string& text);

// Bits per second: "1Gbps", "93.5 Gbit/s", "100kbit/s". Units: bps or bit/s,
// alone or after k (also K), M, G, T.
absl::StatusOr<int64_t> ParseBitRate(const std::string& text);

enum class Precision : uint8_t {
  // For reading: three significant digits, rounded half up: "1.25 ms",
  // "15.0 KB", "812 Mbit/s"; below the first scaled unit whole: "7 ns".
  kThreeDigits,
  // For giving back to Parse…: all digits, no trailing zeros: "1.2345 ms".
  kExact,
};

// "500 µs", "1.25 ms"; from 1,000 s minutes and from 2 h hours ("39,569 h"),
// but seconds if exact. Nanos::max() is "inf".
std::string FormatDuration(Nanos duration,
                           Precision precision = Precision::kThreeDigits);
// "96 B", "15.0 KB", "1.05 MB": powers of ten.
std::string FormatBytes(int64_t bytes,
                        Precision precision = Precision::kThreeDigits);
// "812 Mbit/s", "1.00 Gbit/s".
std::string FormatBitRate(int64_t rate_bps,
                          Precision precision = Precision::kThreeDigits);
// "182,637".
std::string FormatCount(uint64_t count);

}  // namespace snf

#endif  // SNF_BASE_QUANTITY_H_
