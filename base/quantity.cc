// SPDX-License-Identifier: Apache-2.0
#include "base/quantity.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "absl/status/status.h"

namespace snf {
namespace {

using uint128 = unsigned __int128;

constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();

struct Unit {
  std::string_view name;
  uint64_t size;  // in the smallest unit: ns, B, bit/s
};

// A kind of quantity, and its words in error messages.
struct Kind {
  std::string_view noun;
  std::string_view smallest;
  std::string_view examples;
  std::span<const Unit> units;
};

constexpr std::array kDurationUnits = {
    Unit{"ns", 1},
    Unit{"us", 1'000},
    Unit{"\u00b5s", 1'000},  // micro sign
    Unit{"\u03bcs", 1'000},  // Greek mu
    Unit{"ms", 1'000'000},
    Unit{"s", 1'000'000'000},
    Unit{"m", 60'000'000'000},
    Unit{"min", 60'000'000'000},
    Unit{"h", 3'600'000'000'000},
};
constexpr std::array kByteUnits = {
    Unit{"", 1},
    Unit{"B", 1},
    Unit{"KB", 1'000},
    Unit{"kB", 1'000},
    Unit{"MB", 1'000'000},
    Unit{"GB", 1'000'000'000},
    Unit{"TB", 1'000'000'000'000},
    Unit{"KiB", uint64_t{1} << 10},
    Unit{"MiB", uint64_t{1} << 20},
    Unit{"GiB", uint64_t{1} << 30},
    Unit{"TiB", uint64_t{1} << 40},
};
constexpr std::array kBitRateUnits = {
    Unit{"bps", 1},
    Unit{"bit/s", 1},
    Unit{"kbps", 1'000},
    Unit{"kbit/s", 1'000},
    Unit{"Kbps", 1'000},
    Unit{"Kbit/s", 1'000},
    Unit{"Mbps", 1'000'000},
    Unit{"Mbit/s", 1'000'000},
    Unit{"Gbps", 1'000'000'000},
    Unit{"Gbit/s", 1'000'000'000},
    Unit{"Tbps", 1'000'000'000'000},
    Unit{"Tbit/s", 1'000'000'000'000},
};

constexpr std::array kPacketRateUnits = {Unit{"pps", 1},
                                         Unit{"kpps", 1'000},
                                         Unit{"Kpps", 1'000},
                                         Unit{"Mpps", 1'000'000},
                                         Unit{"Gpps", 1'000'000'000},
                                         Unit{"Tpps", 1'000'000'000'000}};

constexpr Kind kDuration{"duration", "1 ns", "\"500us\", \"1.5ms\" or \"30s\"",
                         kDurationUnits};
constexpr Kind kBytes{"size", "1 byte", "\"96B\", \"15KB\" or \"1MiB\"",
                      kByteUnits};
constexpr Kind kBitRate{"rate", "1 bit/s",
                        "\"500Mbps\", \"1Gbps\" or \"100kbit/s\"",
                        kBitRateUnits};
constexpr Kind kPacketRate{
    "rate", "1 pps", "\"1Mpps\", \"250kpps\" or \"900pps\"", kPacketRateUnits};

std::string Message(const Kind& kind, const std::string& text,
                    std::string_view what) {
  std::string message(kind.noun);
  message.append(" \"").append(text).append("\" ").append(what);
  return message.append("; want for example ").append(kind.examples);
}

// Returns the digits at the front of `rest` and removes them from it.
std::string_view TakeDigits(std::string_view& rest) {
  size_t n = 0;
  while (n < rest.size() && rest[n] >= '0' && rest[n] <= '9') ++n;
  const std::string_view digits = rest.substr(0, n);
  rest.remove_prefix(n);
  return digits;
}

// Returns the number, or nothing if it has more than 19 digits without leading
// zeros.
std::optional<uint64_t> ToNumber(std::string_view digits) {
  const size_t zeros = digits.find_first_not_of('0');
  digits.remove_prefix(std::min(zeros, digits.size()));
  if (digits.size() > 19) return std::nullopt;
  uint64_t number = 0;
  for (char c : digits) number = number * 10 + static_cast<uint64_t>(c - '0');
  return number;
}

std::optional<uint64_t> SizeOf(const Kind& kind, std::string_view unit) {
  for (const Unit& known : kind.units) {
    if (known.name == unit) return known.size;
  }
  return std::nullopt;
}

absl::StatusOr<int64_t> Parse(const Kind& kind, const std::string& text) {
  const auto invalid = [&](std::string_view what) {
    return absl::InvalidArgumentError(Message(kind, text, what));
  };
  std::string_view rest = text;
  const std::string_view whole_digits = TakeDigits(rest);
  if (whole_digits.empty()) return invalid("is no number with a unit");
  std::string_view fraction_digits;
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    fraction_digits = TakeDigits(rest);
    if (fraction_digits.empty()) return invalid("has no digit after its point");
  }
  if (rest.starts_with(' ')) {
    rest.remove_prefix(1);
    if (rest.empty()) return invalid("ends in a space");
  }
  const std::optional<uint64_t> size = SizeOf(kind, rest);
  if (!size) return invalid(rest.empty() ? "has no unit" : "has no known unit");

  while (fraction_digits.ends_with('0')) fraction_digits.remove_suffix(1);
  if (fraction_digits.size() > 18) {
    return invalid("has more than 18 digits after its point");
  }
  uint128 fraction = uint128{*ToNumber(fraction_digits)} * *size;
  for (size_t i = 0; i < fraction_digits.size(); ++i) {
    if (fraction % 10 != 0) {
      return invalid("is finer than " + std::string(kind.smallest));
    }
    fraction /= 10;
  }
  const std::optional<uint64_t> whole = ToNumber(whole_digits);
  const uint128 sum = uint128{whole.value_or(0)} * *size + fraction;
  if (!whole || sum > kMax) {
    return absl::OutOfRangeError(Message(kind, text, "is too large"));
  }
  return static_cast<int64_t>(sum);
}

// The units of the printed forms, smallest first.
using Scale = std::span<const Unit>;
constexpr std::array kDurationScale = {Unit{"ns", 1}, Unit{"\u00b5s", 1'000},
                                       Unit{"ms", 1'000'000},
                                       Unit{"s", 1'000'000'000}};
constexpr std::array kByteScale = {
    Unit{"B", 1}, Unit{"KB", 1'000}, Unit{"MB", 1'000'000},
    Unit{"GB", 1'000'000'000}, Unit{"TB", 1'000'000'000'000}};
constexpr std::array kBitRateScale = {
    Unit{"bit/s", 1}, Unit{"kbit/s", 1'000}, Unit{"Mbit/s", 1'000'000},
    Unit{"Gbit/s", 1'000'000'000}, Unit{"Tbit/s", 1'000'000'000'000}};

constexpr std::array kPacketRateScale = {
    Unit{"pps", 1}, Unit{"kpps", 1'000}, Unit{"Mpps", 1'000'000},
    Unit{"Gpps", 1'000'000'000}, Unit{"Tpps", 1'000'000'000'000}};

std::string WithUnit(std::string number, std::string_view unit) {
  return number.append(" ").append(unit);
}

// Writes `value` in `unit` with this many decimals, rounded half up.
std::string Rounded(uint64_t value, const Unit& unit, int decimals) {
  uint64_t power = 1;
  for (int i = 0; i < decimals; ++i) power *= 10;
  const uint128 scaled = uint128{value} * power;
  const uint64_t rounded =
      static_cast<uint64_t>((scaled + unit.size / 2) / unit.size);
  std::string number = FormatCount(rounded / power);
  if (decimals > 0) {
    const std::string digits = std::to_string(power + rounded % power);
    number.append(".").append(digits, 1);
  }
  return WithUnit(number, unit.name);
}

// Returns true if `value`, rounded to whole units, is at least `count` of them.
bool AtLeast(uint64_t value, uint64_t unit_size, uint64_t count) {
  return uint128{value} * 2 >= uint128{unit_size} * (2 * count - 1);
}

// Writes 1.23, 12.3 or 123 units. A value that rounds up to 10 loses a decimal:
// 9.995 is 10.0.
std::string ThreeDigitsIn(uint64_t value, const Unit& unit) {
  if (!AtLeast(value, unit.size / 100, 1'000)) return Rounded(value, unit, 2);
  if (!AtLeast(value, unit.size / 10, 1'000)) return Rounded(value, unit, 1);
  return Rounded(value, unit, 0);
}

std::string ThreeDigits(uint64_t value, Scale scale) {
  size_t i = 0;
  while (i + 1 < scale.size() && AtLeast(value, scale[i].size, 1'000)) ++i;
  return i == 0 ? Rounded(value, scale[0], 0) : ThreeDigitsIn(value, scale[i]);
}

std::string AllDigits(uint64_t value, Scale scale) {
  size_t i = 0;
  while (i + 1 < scale.size() && value >= scale[i + 1].size) ++i;
  std::string number = std::to_string(value / scale[i].size);
  const uint64_t fraction = value % scale[i].size;
  if (fraction != 0) {
    const std::string digits = std::to_string(scale[i].size + fraction);
    number.append(".").append(digits, 1);
    number.erase(number.find_last_not_of('0') + 1);
  }
  return WithUnit(number, scale[i].name);
}

std::string Format(int64_t value, Scale scale, Precision precision) {
  // The smallest int64 can be negated only as a uint64_t.
  const uint64_t bits = static_cast<uint64_t>(value);
  const uint64_t magnitude = value < 0 ? -bits : bits;
  const std::string text = precision == Precision::kExact
                               ? AllDigits(magnitude, scale)
                               : ThreeDigits(magnitude, scale);
  return value < 0 ? "-" + text : text;
}

}  // namespace

absl::StatusOr<Nanos> ParseDuration(const std::string& text) {
  if (text == "0") return Nanos{0};
  const absl::StatusOr<int64_t> ns = Parse(kDuration, text);
  if (!ns.ok()) return ns.status();
  return Nanos{*ns};
}

absl::StatusOr<Nanos> ParseDurationOrInfinity(const std::string& text) {
  if (text == "inf") return Nanos::max();
  return ParseDuration(text);
}

absl::StatusOr<int64_t> ParseBytes(const std::string& text) {
  return Parse(kBytes, text);
}

absl::StatusOr<int64_t> ParseBitRate(const std::string& text) {
  return Parse(kBitRate, text);
}

absl::StatusOr<int64_t> ParsePacketRate(const std::string& text) {
  return Parse(kPacketRate, text);
}

std::string FormatDuration(Nanos duration, Precision precision) {
  constexpr Unit kMinute{"min", 60'000'000'000};
  constexpr Unit kHour{"h", 3'600'000'000'000};
  constexpr int64_t kMinutesFrom = Seconds(1'000).ns;
  constexpr int64_t kHoursFrom = Seconds(7'200).ns;
  if (duration == Nanos::max()) return "inf";
  if (precision == Precision::kThreeDigits && duration.ns >= kMinutesFrom) {
    const Unit& unit = duration.ns >= kHoursFrom ? kHour : kMinute;
    return ThreeDigitsIn(static_cast<uint64_t>(duration.ns), unit);
  }
  return Format(duration.ns, kDurationScale, precision);
}

std::string FormatBytes(int64_t bytes, Precision precision) {
  return Format(bytes, kByteScale, precision);
}

std::string FormatBitRate(int64_t rate_bps, Precision precision) {
  return Format(rate_bps, kBitRateScale, precision);
}

std::string FormatPacketRate(int64_t rate_pps, Precision precision) {
  return Format(rate_pps, kPacketRateScale, precision);
}

std::string FormatCount(uint64_t count) {
  std::string text = std::to_string(count);
  for (size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, 1, ',');
  return text;
}

}  // namespace snf
