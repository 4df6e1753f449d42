// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/nf_options.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "absl/strings/ascii.h"
#include "base/quantity.h"

namespace snf {
namespace {

std::string Join(std::span<const std::string_view> names, const char* between) {
  std::string joined;
  for (const std::string_view name : names) {
    joined += (joined.empty() ? "" : between) + std::string(name);
  }
  return joined;
}

}  // namespace

absl::StatusOr<NfOptions> NfOptions::Parse(std::string_view text) {
  NfOptions options;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t equals = item.find('=');
    if (equals == 0 || equals == std::string_view::npos) {
      return absl::InvalidArgumentError("\"" + std::string(item) +
                                        "\" is no key=value");
    }
    const std::string key(item.substr(0, equals));
    if (!options.values_
             .emplace(key, Value{std::string(item.substr(equals + 1))})
             .second) {
      return absl::InvalidArgumentError("\"" + key + "\" is given twice");
    }
  }
  return options;
}

NfOptions::NfOptions(const std::map<std::string, std::string>& values) {
  for (const auto& [key, text] : values) values_[key] = {.text = text};
}

const std::string* NfOptions::Ask(const std::string& key, std::string values,
                                  std::string otherwise,
                                  std::string_view help) {
  described_.push_back({.key = key,
                        .values = std::move(values),
                        .otherwise = std::move(otherwise),
                        .help = std::string(help)});
  const auto found = values_.find(key);
  if (found == values_.end()) return nullptr;
  found->second.asked = true;
  return &found->second.text;
}

// Reads a quantity of one kind; `parse` reads and `print` writes such a one.
template <typename T, typename ParseOne, typename PrintOne>
T NfOptions::Quantity(const std::string& key, std::string_view kind,
                      T otherwise, T min, T max, std::string_view help,
                      ParseOne parse, PrintOne print) {
  const std::string range = print(min, Precision::kThreeDigits) + " to " +
                            print(max, Precision::kThreeDigits);
  const std::string* const text =
      Ask(key, absl::AsciiStrToUpper(std::string(kind)) + ", " + range,
          print(otherwise, Precision::kExact), help);
  if (text == nullptr) return otherwise;
  const absl::StatusOr<T> value = parse(*text);
  if (value.ok() && *value >= min && *value <= max) return *value;
  Fail(key, "a " + std::string(kind) + " from " + range);
  return otherwise;
}

std::string NfOptions::Text(const std::string& key, std::string_view otherwise,
                            std::string_view values, std::string_view help) {
  const std::string* const text =
      Ask(key, std::string(values), std::string(otherwise), help);
  return text == nullptr ? std::string(otherwise) : *text;
}

int64_t NfOptions::Integer(const std::string& key, int64_t otherwise,
                           int64_t min, int64_t max, std::string_view help) {
  return Quantity(
      key, "whole number", otherwise, min, max, help,
      [](const std::string& text) -> absl::StatusOr<int64_t> {
        int64_t number = 0;
        const char* const end = text.data() + text.size();
        const auto [rest, error] = std::from_chars(text.data(), end, number);
        if (error == std::errc() && rest == end) return number;
        return absl::InvalidArgumentError(text);
      },
      [](int64_t number, Precision) { return std::to_string(number); });
}

Nanos NfOptions::Duration(const std::string& key, Nanos otherwise, Nanos min,
                          Nanos max, std::string_view help) {
  return Quantity(key, "time", otherwise, min, max, help, ParseDuration,
                  FormatDuration);
}

int64_t NfOptions::BitRate(const std::string& key, int64_t otherwise,
                           int64_t min, int64_t max, std::string_view help) {
  return Quantity(key, "bit rate", otherwise, min, max, help, ParseBitRate,
                  FormatBitRate);
}

int64_t NfOptions::Bytes(const std::string& key, int64_t otherwise, int64_t min,
                         int64_t max, std::string_view help) {
  return Quantity(key, "number of bytes", otherwise, min, max, help, ParseBytes,
                  FormatBytes);
}

size_t NfOptions::Choice(const std::string& key, size_t otherwise,
                         std::span<const std::string_view> names,
                         std::string_view help) {
  const std::string* const text =
      Ask(key, Join(names, "|"), std::string(names[otherwise]), help);
  if (text == nullptr) return otherwise;
  const auto found = std::ranges::find(names, std::string_view(*text));
  if (found != names.end()) {
    return static_cast<size_t>(found - names.begin());
  }
  Fail(key, "one of " + Join(names, ", "));
  return otherwise;
}

bool NfOptions::Flag(const std::string& key, bool otherwise,
                     std::string_view help) {
  static constexpr std::array<std::string_view, 2> kNames = {"false", "true"};
  return Choice(key, otherwise ? 1 : 0, kNames, help) == 1;
}

void NfOptions::Fail(const std::string& key, const std::string& message) {
  if (!error_.ok()) return;
  const auto found = values_.find(key);
  error_ = absl::InvalidArgumentError(
      key + "=" + (found == values_.end() ? "" : found->second.text) +
      ": must be " + message);
}

void NfOptions::FailWith(const absl::Status& status) {
  if (error_.ok()) error_ = status;
}

std::string NfOptions::text() const {
  std::string text;
  for (const auto& [key, value] : values_) {
    text += (text.empty() ? "" : ",") + key + "=" + value.text;
  }
  return text;
}

std::map<std::string, std::string> NfOptions::values() const {
  std::map<std::string, std::string> values;
  for (const auto& [key, value] : values_) values[key] = value.text;
  return values;
}

absl::Status NfOptions::status() const {
  if (!error_.ok()) return error_;
  for (const auto& [key, value] : values_) {
    if (value.asked) continue;
    std::vector<std::string_view> keys;
    for (const Description& one : described_) keys.push_back(one.key);
    std::ranges::sort(keys);
    return absl::InvalidArgumentError(
        key + "=" + value.text + ": there is no option \"" + key + "\"; " +
        (keys.empty() ? "it takes none" : "there is: " + Join(keys, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace snf
