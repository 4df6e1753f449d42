// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/nf_options.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/quantity.h"

namespace snf {

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

const std::string* NfOptions::Ask(const std::string& key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return nullptr;
  found->second.asked = true;
  return &found->second.text;
}

std::string NfOptions::Text(const std::string& key,
                            std::string_view otherwise) {
  const std::string* const text = Ask(key);
  return text == nullptr ? std::string(otherwise) : *text;
}

int64_t NfOptions::Integer(const std::string& key, int64_t otherwise,
                           int64_t min, int64_t max) {
  const std::string* const text = Ask(key);
  if (text == nullptr) return otherwise;
  int64_t number = 0;
  const char* const end = text->data() + text->size();
  const auto [rest, error] = std::from_chars(text->data(), end, number);
  if (error == std::errc() && rest == end && number >= min && number <= max) {
    return number;
  }
  Fail(key, "a whole number from " + std::to_string(min) + " to " +
                std::to_string(max));
  return otherwise;
}

Nanos NfOptions::Duration(const std::string& key, Nanos otherwise, Nanos min,
                          Nanos max) {
  const std::string* const text = Ask(key);
  if (text == nullptr) return otherwise;
  const absl::StatusOr<Nanos> duration = ParseDuration(*text);
  if (duration.ok() && *duration >= min && *duration <= max) return *duration;
  Fail(key,
       "a time from " + FormatDuration(min) + " to " + FormatDuration(max));
  return otherwise;
}

size_t NfOptions::Choice(const std::string& key, size_t otherwise,
                         std::span<const std::string_view> names) {
  const std::string* const text = Ask(key);
  if (text == nullptr) return otherwise;
  const auto found = std::ranges::find(names, std::string_view(*text));
  if (found != names.end()) {
    return static_cast<size_t>(found - names.begin());
  }
  std::string all;
  for (const std::string_view name : names) {
    all += (all.empty() ? "one of " : ", ") + std::string(name);
  }
  Fail(key, all);
  return otherwise;
}

bool NfOptions::Flag(const std::string& key, bool otherwise) {
  static constexpr std::array<std::string_view, 2> kNames = {"false", "true"};
  return Choice(key, otherwise ? 1 : 0, kNames) == 1;
}

void NfOptions::Fail(const std::string& key, const std::string& message) {
  if (!error_.ok()) return;
  const auto found = values_.find(key);
  error_ = absl::InvalidArgumentError(
      key + "=" + (found == values_.end() ? "" : found->second.text) +
      ": must be " + message);
}

absl::Status NfOptions::status() const {
  if (!error_.ok()) return error_;
  for (const auto& [key, value] : values_) {
    if (value.asked) continue;
    return absl::InvalidArgumentError(key + "=" + value.text +
                                      ": there is no option \"" + key + "\"");
  }
  return absl::OkStatus();
}

}  // namespace snf
