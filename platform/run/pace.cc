// SPDX-License-Identifier: Apache-2.0
#include "platform/run/pace.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/quantity.h"

namespace snf {
namespace {

constexpr int64_t kMaxTimes_1000 = 1'000'000'000;  // a million times

// a · b / c, held at the limits of int64; all at least 0.
Nanos Scaled(uint64_t a, uint64_t b, uint64_t c) {
  using Wide = unsigned __int128;
  const Wide scaled = Wide{a} * b / c;
  constexpr Wide kMost = std::numeric_limits<int64_t>::max();
  return {static_cast<int64_t>(std::min(scaled, kMost))};
}

}  // namespace

absl::StatusOr<Speed> ParseSpeed(const std::string& text) {
  const auto bad = [&text] {
    return absl::InvalidArgumentError(fmt::format(
        "\"{}\" is no speed; want for example 1x (the capture's own), 0.5x, "
        "2Gbps, 100kpps or max",
        text));
  };
  if (text == "max") return Speed{.kind = Speed::Kind::kMax, .value = 0};
  Speed speed;
  absl::StatusOr<int64_t> value = bad();
  if (text.ends_with("pps")) {
    speed.kind = Speed::Kind::kPackets;
    value = ParsePacketRate(text);
  } else if (text.ends_with("x")) {
    // In thousandths: a duration in seconds says the same in milliseconds.
    const auto times = ParseDuration(text.substr(0, text.size() - 1) + "us");
    if (times.ok()) value = times->ns;
    if (times.ok() && times->ns > kMaxTimes_1000) value = bad();
  } else {
    speed.kind = Speed::Kind::kBits;
    value = ParseBitRate(text);
  }
  if (!value.ok() || *value <= 0) return bad();
  speed.value = *value;
  return speed;
}

std::string FormatSpeed(const Speed& speed) {
  switch (speed.kind) {
    case Speed::Kind::kTimes: {
      std::string text =
          fmt::format("{}.{:03}", speed.value / 1'000, speed.value % 1'000);
      text.erase(text.find_last_not_of('0') + 1);
      if (text.ends_with('.')) text.pop_back();
      return text + "x";
    }
    case Speed::Kind::kBits: {
      std::string text = FormatBitRate(speed.value, Precision::kExact);
      std::erase(text, ' ');
      return text;
    }
    case Speed::Kind::kPackets: {
      std::string text = FormatPacketRate(speed.value, Precision::kExact);
      std::erase(text, ' ');
      return text;
    }
    case Speed::Kind::kMax:
      break;
  }
  return "max";
}

Instant Pace::Due(Instant time, uint32_t original_length) {
  SNF_CHECK(has_schedule());
  if (is_first_) {
    is_first_ = false;
    first_ = last_due_ = time;
  }
  const auto value = static_cast<uint64_t>(speed_.value);
  Nanos since;
  switch (speed_.kind) {
    case Speed::Kind::kTimes: {
      const Nanos own = std::max(time - first_, Nanos{});
      since = Scaled(static_cast<uint64_t>(own.ns), 1'000, value);
      break;
    }
    case Speed::Kind::kBits:
      since = Scaled(bytes_, 8'000'000'000, value);
      break;
    case Speed::Kind::kPackets:
      since = Scaled(packets_, 1'000'000'000, value);
      break;
    case Speed::Kind::kMax:
      break;
  }
  ++packets_;
  bytes_ += original_length;
  last_due_ = std::max(last_due_, first_ + since);
  return last_due_;
}

}  // namespace snf
