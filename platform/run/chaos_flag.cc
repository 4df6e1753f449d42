// SPDX-License-Identifier: Apache-2.0
#include "platform/run/chaos_flag.h"

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "fmt/format.h"

namespace snf {
namespace {

constexpr size_t kMostDecimals = 9;

// A key is of a range of delays, or of a probability.
struct Key {
  std::string_view name;
  Nanos ChaosOptions::*min = nullptr;
  Nanos ChaosOptions::*max = nullptr;
  uint32_t ChaosOptions::*of_65536 = nullptr;
};
using Chaos = ChaosOptions;
constexpr std::array<Key, 10> kKeys = {{
    {"state_delay", &Chaos::state_delay_min, &Chaos::state_delay_max},
    {"state_loss", nullptr, nullptr, &Chaos::state_loss_65536},
    {"state_duplicate", nullptr, nullptr, &Chaos::state_duplicate_65536},
    {"start_failure", nullptr, nullptr, &Chaos::start_failure_65536},
    {"logger_delay", &Chaos::logger_delay_min, &Chaos::logger_delay_max},
    {"logger_loss", nullptr, nullptr, &Chaos::logger_loss_65536},
    {"logger_duplicate", nullptr, nullptr, &Chaos::logger_duplicate_65536},
    {"lease_delay", &Chaos::lease_delay_min, &Chaos::lease_delay_max},
    {"lease_loss", nullptr, nullptr, &Chaos::lease_loss_65536},
    {"lease_duplicate", nullptr, nullptr, &Chaos::lease_duplicate_65536},
}};

std::string NamesOfKeys() {
  std::string names;
  for (const Key& key : kKeys) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", key.name);
  }
  return names;
}

absl::Status Bad(std::string_view key, std::string_view value,
                 std::string_view what) {
  return absl::InvalidArgumentError(
      fmt::format("{}=\"{}\" {}", key, value, what));
}

absl::Status ParseProbability(std::string_view key, std::string_view value,
                              uint32_t& of_65536) {
  const std::optional<Share> parsed = ShareOf(value);
  if (!parsed.has_value() || parsed->of_65536 > kMaxChaos65536) {
    return Bad(key, value, "is not a probability from 0 to 0.9");
  }
  if (parsed->vanished) {
    return Bad(key, value, "is less than can be told from 0; least is 0.00001");
  }
  of_65536 = parsed->of_65536;
  return absl::OkStatus();
}

absl::Status ParseRange(const Key& key, const std::string& value,
                        ChaosOptions& chaos) {
  const size_t dots = value.find("..");
  const std::string low = value.substr(0, dots);
  const std::string high =
      dots == std::string::npos ? low : value.substr(dots + 2);
  Nanos& min = chaos.*key.min;
  Nanos& max = chaos.*key.max;
  for (const auto& [text, nanos] :
       {std::pair{&low, &min}, std::pair{&high, &max}}) {
    const absl::StatusOr<Nanos> parsed = ParseDuration(*text);
    if (!parsed.ok()) {
      return Bad(key.name, value,
                 "is bad: " + std::string(parsed.status().message()));
    }
    if (*parsed > kMaxChaosDelay) return Bad(key.name, value, "is above 10 s");
    *nanos = *parsed;
  }
  if (min > max) return Bad(key.name, value, "begins above its end");
  return absl::OkStatus();
}

}  // namespace

std::optional<Share> ShareOf(std::string_view text) {
  uint64_t number = 0;
  uint64_t one = 1;
  bool point = false;
  size_t digits = 0;
  for (const char c : text) {
    if (c == '.' && !point) {
      point = true;
      continue;
    }
    if (c < '0' || c > '9' || ++digits > kMostDecimals) return std::nullopt;
    number = number * 10 + static_cast<uint64_t>(c - '0');
    if (point) one *= 10;
  }
  if (digits == 0 || number > one) return std::nullopt;
  const auto nearest = static_cast<uint32_t>((number * 65'536 + one / 2) / one);
  return Share{.of_65536 = nearest, .vanished = nearest == 0 && number > 0};
}

std::string FormatPlainDuration(Nanos duration) {
  if (duration.ns == 0) return "0";
  std::string text = FormatDuration(duration, Precision::kExact);
  std::erase(text, ' ');
  if (const size_t micro = text.find("µ"); micro != std::string::npos) {
    text.replace(micro, std::string_view("µ").size(), "u");
  }
  return text;
}

std::string FormatShare(uint32_t of_65536) {
  uint64_t one = 1;
  for (size_t decimals = 1; decimals < kMostDecimals; ++decimals) {
    one *= 10;
    const uint64_t number = (of_65536 * one + 32'768) / 65'536;
    const std::string text = fmt::format("0.{:0{}}", number, decimals);
    if (number == 0 || number == one) continue;
    if (ShareOf(text)->of_65536 == of_65536) return text;
  }
  return "1";
}

absl::StatusOr<ChaosOptions> ParseChaos(const std::string& text) {
  ChaosOptions chaos;
  std::vector<std::string> seen;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const auto key = std::ranges::find(kKeys, name, &Key::name);
    if (key == kKeys.end()) {
      return absl::InvalidArgumentError(
          fmt::format("\"{}\" is none of {}", name, NamesOfKeys()));
    }
    if (equals == std::string::npos) {
      return absl::InvalidArgumentError(
          fmt::format("{0} has no value; want for example {0}={1}", name,
                      key->min != nullptr ? "0..2ms" : "0.01"));
    }
    const std::string value = word.substr(equals + 1);
    if (std::ranges::find(seen, name) != seen.end()) {
      return Bad(name, value, "is the second one of this key");
    }
    seen.push_back(name);
    const absl::Status status =
        key->min != nullptr
            ? ParseRange(*key, value, chaos)
            : ParseProbability(name, value, chaos.*key->of_65536);
    if (!status.ok()) return status;
  }
  if (seen.empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "\"{}\" names no chaos; want for example state_delay=0..2ms", text));
  }
  return chaos;
}

std::string FormatChaos(const ChaosOptions& chaos) {
  std::string text;
  const auto add = [&text](std::string_view key, const std::string& value) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, value);
  };
  for (const Key& key : kKeys) {
    if (key.min == nullptr) {
      const uint32_t of_65536 = chaos.*key.of_65536;
      if (of_65536 > 0) add(key.name, FormatShare(of_65536));
      continue;
    }
    const Nanos min = chaos.*key.min;
    const Nanos max = chaos.*key.max;
    if (max.ns == 0) continue;
    add(key.name, min == max ? FormatPlainDuration(max)
                             : FormatPlainDuration(min) + ".." +
                                   FormatPlainDuration(max));
  }
  return text;
}

}  // namespace snf
