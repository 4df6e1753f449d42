// SPDX-License-Identifier: Apache-2.0
#include "platform/options/store_flag.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>
#include <string_view>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/quantity.h"
#include "fmt/format.h"

namespace snf {
namespace {

constexpr uint32_t kMostThreads = 64;
constexpr Nanos kLongest = Seconds(10);

struct Time {
  std::string_view name;
  Nanos StoreOptions::*place;
  Nanos least;
};
constexpr std::array<Time, 4> kTimes = {{
    {"operation", &StoreOptions::operation, Nanos{0}},
    {"poll", &StoreOptions::poll, Microseconds(1)},
    {"timeout", &StoreOptions::timeout, Milliseconds(1)},
    {"patience", &StoreOptions::patience, Milliseconds(1)},
}};

absl::Status BadKey(std::string_view key, std::string_view value,
                    std::string_view what) {
  return absl::InvalidArgumentError(
      fmt::format("{}=\"{}\" {}", key, value, what));
}

absl::Status ReadTime(std::string_view key, const std::string& value,
                      Nanos least, Nanos& time) {
  const absl::StatusOr<Nanos> parsed = ParseDuration(value);
  if (!parsed.ok()) {
    return BadKey(key, value,
                  "is bad: " + std::string(parsed.status().message()));
  }
  if (*parsed < least) return BadKey(key, value, "is too short");
  if (*parsed > kLongest) return BadKey(key, value, "is above 10 s");
  time = *parsed;
  return absl::OkStatus();
}

absl::Status ReadRoundTrips(const std::string& value, StoreOptions& store) {
  const std::vector<std::string> parts = absl::StrSplit(value, ',');
  if (parts.size() != store.round_trips.size()) {
    return BadKey("round_trips", value,
                  "is not five times: the least, p50, p90, p99, p99.9");
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    absl::Status read =
        ReadTime("round_trips", parts[i], Nanos{0}, store.round_trips[i]);
    if (!read.ok()) return read;
  }
  if (!std::ranges::is_sorted(store.round_trips)) {
    return BadKey("round_trips", value, "does not rise");
  }
  return absl::OkStatus();
}

absl::Status ReadThreads(const std::string& value, StoreOptions& store) {
  const char* const end = value.data() + value.size();
  const auto parsed = std::from_chars(value.data(), end, store.threads);
  if (parsed.ec != std::errc() || parsed.ptr != end || store.threads == 0 ||
      store.threads > kMostThreads) {
    return BadKey("threads", value,
                  fmt::format("is not from 1 to {}", kMostThreads));
  }
  return absl::OkStatus();
}

absl::Status ReadKey(const std::string& name, const std::string& value,
                     StoreOptions& store) {
  if (name == "round_trips") return ReadRoundTrips(value, store);
  if (name == "threads") return ReadThreads(value, store);
  const auto time = std::ranges::find(kTimes, name, &Time::name);
  if (time != kTimes.end()) {
    return ReadTime(name, value, time->least, store.*time->place);
  }
  return absl::InvalidArgumentError(fmt::format(
      "\"{}\" is none of round_trips, operation, threads, poll, timeout, "
      "patience",
      name));
}

std::string TimeText(Nanos time) {
  if (time.ns == 0) return "0";
  std::string text = FormatDuration(time, Precision::kExact);
  std::erase(text, ' ');
  if (const size_t micro = text.find("µ"); micro != std::string::npos) {
    text.replace(micro, std::string_view("µ").size(), "u");
  }
  return text;
}

}  // namespace

absl::StatusOr<StoreOptions> ParseStore(const std::string& text) {
  StoreOptions store;
  std::vector<std::string> seen;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (std::ranges::find(seen, name) != seen.end()) {
      return absl::InvalidArgumentError(
          fmt::format("\"{}\" is the second one of this key", word));
    }
    seen.push_back(name);
    const std::string value =
        equals == std::string::npos ? "" : word.substr(equals + 1);
    absl::Status read = ReadKey(name, value, store);
    if (!read.ok()) return read;
  }
  if (seen.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" names nothing; want for example poll=50us", text));
  }
  if (store.timeout > store.patience) {
    return absl::InvalidArgumentError(
        fmt::format("timeout={} is above patience={}", TimeText(store.timeout),
                    TimeText(store.patience)));
  }
  return store;
}

std::string FormatStore(const StoreOptions& store) {
  std::string trips;
  for (const Nanos trip : store.round_trips) {
    trips += (trips.empty() ? "" : ",") + TimeText(trip);
  }
  std::string text =
      fmt::format("round_trips={} threads={}", trips, store.threads);
  for (const Time& time : kTimes) {
    text += fmt::format(" {}={}", time.name, TimeText(store.*time.place));
  }
  return text;
}

}  // namespace snf
