// SPDX-License-Identifier: Apache-2.0
#include "nfs/snort/option_text.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/ascii.h"

namespace snf::snort {
namespace {

constexpr std::string_view kSpaces = " \t\r\n\v\f";

}  // namespace

std::vector<std::string_view> SplitAt(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string_view StrippedView(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

std::optional<int64_t> IntegerIn(std::string_view text) {
  text = StrippedView(text);
  bool is_negative = false;
  if (text.starts_with('-') || text.starts_with('+')) {
    is_negative = text[0] == '-';
    text.remove_prefix(1);
  }
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    base = 16;
    text.remove_prefix(2);
  }
  uint64_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value, base);
  if (error != std::errc() || end != last || text.empty() ||
      value > uint64_t{INT64_MAX}) {
    return std::nullopt;
  }
  const auto number = static_cast<int64_t>(value);
  return is_negative ? -number : number;
}

std::optional<std::string> QuotedText(std::string_view value) {
  value = StrippedView(value);
  if (value.size() < 2 || value.front() != '"' || value.back() != '"') {
    return std::nullopt;
  }
  value = value.substr(1, value.size() - 2);
  std::string text;
  for (size_t i = 0; i < value.size(); ++i) {
    if (value[i] == '\\' && i + 1 < value.size() &&
        std::string_view(";\"\\:").find(value[i + 1]) !=
            std::string_view::npos) {
      ++i;
    }
    text += value[i];
  }
  return text;
}

std::optional<std::string> PatternBytes(std::string_view value,
                                        std::string& why) {
  value = StrippedView(value);
  if (value.size() < 2 || value.front() != '"' || value.back() != '"') {
    why = "want a content in quotes";
    return std::nullopt;
  }
  value = value.substr(1, value.size() - 2);
  std::string bytes;
  bool is_hex = false;
  int digits = 0;
  int byte = 0;
  for (size_t i = 0; i < value.size(); ++i) {
    const char c = value[i];
    if (c == '|') {
      if (digits != 0) {
        why = Cat("half a byte before the bar at byte ", i + 1);
        return std::nullopt;
      }
      is_hex = !is_hex;
    } else if (is_hex) {
      const auto u = static_cast<unsigned char>(c);
      if (absl::ascii_isspace(u)) continue;
      if (!absl::ascii_isxdigit(u)) {
        why = Cat("\"", std::string(1, c), "\" at byte ", i + 1,
                  " is no hexadecimal digit");
        return std::nullopt;
      }
      const int digit =
          absl::ascii_isdigit(u) ? c - '0' : absl::ascii_tolower(u) - 'a' + 10;
      byte = byte * 16 + digit;
      if (++digits == 2) {
        bytes += static_cast<char>(byte);
        digits = byte = 0;
      }
    } else {
      if (c == '\\' && i + 1 < value.size()) ++i;
      bytes += value[i];
    }
  }
  if (is_hex) {
    why = "the bars do not match";
    return std::nullopt;
  }
  if (bytes.empty()) {
    why = "has no bytes";
    return std::nullopt;
  }
  return bytes;
}

std::string UnescapedForPcre(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      if (text[i + 1] != ';' && text[i + 1] != '"') out += '\\';
      ++i;
    }
    out += text[i];
  }
  return out;
}

bool OptionScanner::Next() {
  size_t i = next_;
  while (i < text_.size() &&
         absl::ascii_isspace(static_cast<unsigned char>(text_[i]))) {
    ++i;
  }
  at_ = i;
  name_ = value_ = {};
  if (i < text_.size() && text_[i] == ')') {
    const std::string_view rest = StrippedView(text_.substr(i + 1));
    if (!rest.empty() && rest.front() != '#') {
      at_ = i + 1;
      error_ = "there is text behind the options";
    }
    return false;
  }
  if (i == text_.size()) {
    error_ = "the options have no ) at their end";
    return false;
  }
  const size_t begin = i;
  size_t colon = std::string_view::npos;
  // As in Snort, also a semicolon in quotes ends an option: rules write \;.
  for (; i < text_.size(); ++i) {
    const char c = text_[i];
    if (c == '\\') {
      ++i;
    } else if (c == ':' && colon == std::string_view::npos) {
      colon = i;
    } else if (c == ';') {
      break;
    }
  }
  const size_t name_end = std::min(colon, std::min(i, text_.size()));
  name_ = StrippedView(text_.substr(begin, name_end - begin));
  if (i >= text_.size()) {
    error_ = "no ; behind the option";
    name_ = name_.substr(0, name_.find_first_of(" )"));
    return false;
  }
  if (name_.empty()) {
    error_ = "an option without a name";
    return false;
  }
  if (colon != std::string_view::npos) {
    value_ = StrippedView(text_.substr(colon + 1, i - colon - 1));
  }
  next_ = i + 1;
  return true;
}

}  // namespace snf::snort
