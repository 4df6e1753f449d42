// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/nf_options.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/packet/ip_address_text.h"
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
  const bool is_known =
      is_changing_ &&
      std::ranges::find(described_, key, &Description::key) != described_.end();
  if (!is_known) {
    described_.push_back({.key = key,
                          .values = std::move(values),
                          .otherwise = std::move(otherwise),
                          .help = std::string(help)});
  }
  const auto found = values_.find(key);
  if (found != values_.end()) found->second.asked = true;
  Value* latest = found == values_.end() ? nullptr : &found->second;
  if (!is_changing_) return latest == nullptr ? nullptr : &latest->text;
  Instant latest_from = Instant::min();
  for (auto& [dated, value] : values_) {
    if (!dated.starts_with(key + "@")) continue;
    value.asked = true;
    const std::optional<Instant> from = TimeOf(dated);
    if (!from.has_value() || *from > as_of_ || *from < latest_from) continue;
    latest = &value;
    latest_from = *from;
  }
  return latest == nullptr ? nullptr : &latest->text;
}

std::optional<Instant> NfOptions::TimeOf(std::string_view key) {
  const size_t at = key.find('@');
  if (at == std::string_view::npos) return std::nullopt;
  const absl::StatusOr<Nanos> time =
      ParseDuration(std::string(key.substr(at + 1)));
  if (!time.ok() || time->ns < 0) return std::nullopt;
  return Instant{} + *time;
}

void NfOptions::BeginChanging() {
  is_changing_ = true;
  as_of_ = Instant::min();
}

bool NfOptions::NextChange() {
  Instant next = Instant::max();
  for (const auto& [key, value] : values_) {
    const std::optional<Instant> from = TimeOf(key);
    if (from.has_value() && *from > as_of_) next = std::min(next, *from);
  }
  is_changing_ = next != Instant::max();
  as_of_ = is_changing_ ? next : Instant::min();
  return is_changing_;
}

std::vector<std::string> NfOptions::List(const std::string& key,
                                         std::string_view values,
                                         std::string_view help) {
  std::string text =
      Text(key, "", absl::StrCat(std::string(values), "[+…]"), help);
  if (text.empty()) return {};
  return absl::StrSplit(text, '+');
}

std::optional<NfOptions::Endpoint> NfOptions::ParseEndpoint(
    std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  std::string_view address = text.substr(0, colon);
  const std::string_view number = text.substr(colon + 1);
  uint16_t port = 0;
  const char* const end = number.data() + number.size();
  const auto [rest, error] = std::from_chars(number.data(), end, port);
  if (error != std::errc() || rest != end || port == 0) return std::nullopt;
  Endpoint endpoint = {.address = {}, .port = be16(port)};
  std::optional<IpAddress> parsed;
  if (address.starts_with('[') && address.ends_with(']')) {
    parsed = ParseIpv6(address.substr(1, address.size() - 2));
    endpoint.is_ipv6 = true;
  } else {
    parsed = ParseIpv4(address);
  }
  if (!parsed.has_value()) return std::nullopt;
  endpoint.address = *parsed;
  return endpoint;
}

std::string NfOptions::ToText(const Endpoint& endpoint) {
  return endpoint.is_ipv6 ? absl::StrCat("[", Ipv6Text(endpoint.address),
                                         "]:", endpoint.port.host())
                          : absl::StrCat(Ipv4Text(endpoint.address), ":",
                                         endpoint.port.host());
}

std::vector<NfOptions::Endpoint> NfOptions::Endpoints(const std::string& key,
                                                      std::string_view help) {
  std::vector<Endpoint> endpoints;
  for (const std::string& part : List(key, "ADDRESS:PORT", help)) {
    const std::optional<Endpoint> endpoint = ParseEndpoint(part);
    if (endpoint.has_value()) {
      endpoints.push_back(*endpoint);
    } else {
      Fail(key, absl::StrCat("addresses with ports, joined by +, such as "
                             "192.0.2.1:80 or [2001:db8::1]:80; not \"",
                             part, "\""));
    }
  }
  return endpoints;
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
  std::string name = key;
  auto found = values_.find(key);
  if (is_changing_) {
    for (auto one = values_.begin(); one != values_.end(); ++one) {
      if (!one->first.starts_with(key + "@") || TimeOf(one->first) != as_of_) {
        continue;
      }
      name = one->first;
      found = one;
    }
  }
  error_ = absl::InvalidArgumentError(
      name + "=" + (found == values_.end() ? "" : found->second.text) +
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
    const size_t at = key.find('@');
    if (at != std::string::npos && !TimeOf(key).has_value()) {
      return absl::InvalidArgumentError(
          key + "=" + value.text +
          ": behind @ must be a time since the epoch, such as 12s");
    }
    if (value.asked) continue;
    if (at != std::string::npos &&
        std::ranges::find(described_, key.substr(0, at), &Description::key) !=
            described_.end()) {
      return absl::InvalidArgumentError(
          key + "=" + value.text + ": the option \"" + key.substr(0, at) +
          "\" cannot change while packets go through");
    }
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
