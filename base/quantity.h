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
// is no sign, no exponent and no thousands separator. A text that is no number,
// has an unknown unit or is finer than the smallest unit ("0.5ns") gives
// InvalidArgument, one too large for int64 OutOfRange; the message quotes the
// text and shows a correct one. Pure functions; they allocate only their
// strings.

// Reads "500us", "1.5 ms", "2h", "0". Units: ns, us (also µs), ms, s, m or min,
// h.
absl::StatusOr<Nanos> ParseDuration(const std::string& text);

// Reads the same as ParseDuration, and "inf" as Nanos::max(), for limits that
// may be switched off.
absl::StatusOr<Nanos> ParseDurationOrInfinity(const std::string& text);

// Reads "15KB" = 15,000, "1MiB" = 1,048,576, "96B", "96". Units: B, KB or kB,
// MB, GB, TB; KiB, MiB, GiB, TiB.
absl::StatusOr<int64_t> ParseBytes(const std::string& text);

// Reads bits per second: "1Gbps", "93.5 Gbit/s", "100kbit/s". Units: bps or
// bit/s, alone or after k (also K), M, G, T.
absl::StatusOr<int64_t> ParseBitRate(const std::string& text);

// Reads packets per second: "1Mpps", "14.88 Mpps", "250kpps". Units: pps, alone
// or after k (also K), M, G, T.
absl::StatusOr<int64_t> ParsePacketRate(const std::string& text);

enum class Precision : uint8_t {
  // For people: three significant digits, rounded half up: "1.25 ms", "15.0
  // KB", "812 Mbit/s"; in the smallest unit whole numbers: "7 ns".
  kThreeDigits,
  // For reading back with the Parse functions: all digits, no trailing zeros:
  // "1.2345 ms".
  kExact,
};

// Writes "500 µs", "1.25 ms"; with three digits, 1,000 s and more in minutes
// and 2 h and more in hours ("39,569 h"). Nanos::max() is "inf".
std::string FormatDuration(Nanos duration,
                           Precision precision = Precision::kThreeDigits);
// Writes "96 B", "15.0 KB", "1.05 MB", in powers of ten.
std::string FormatBytes(int64_t bytes,
                        Precision precision = Precision::kThreeDigits);
// Writes "812 Mbit/s", "1.00 Gbit/s".
std::string FormatBitRate(int64_t rate_bps,
                          Precision precision = Precision::kThreeDigits);
// Writes "1.00 Mpps", "250 kpps".
std::string FormatPacketRate(int64_t rate_pps,
                             Precision precision = Precision::kThreeDigits);
// Writes "182,637".
std::string FormatCount(uint64_t count);

}  // namespace snf

#endif  // SNF_BASE_QUANTITY_H_
