// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_SNORT_OPTION_TEXT_H_
#define SNF_NFS_SNORT_OPTION_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace snf::snort {

// Append texts and numbers to a text. (Debian's absl::StrCat takes no
// std::string_view.)
template <typename... Parts>
void Append(std::string& text, const Parts&... parts) {
  const auto add = [&text](const auto& part) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>) {
      text += std::to_string(part);
    } else {
      text += part;
    }
  };
  (add(parts), ...);
}
template <typename... Parts>
std::string Cat(const Parts&... parts) {
  std::string text;
  Append(text, parts...);
  return text;
}

// Return bytes as text, and text as bytes; views.
inline std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::span<const std::byte> BytesOf(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// Returns the parts between the separators; at least one.
std::vector<std::string_view> SplitAt(std::string_view text, char separator);

// Returns the text without spaces around it.
std::string_view StrippedView(std::string_view text);

// Reads a decimal number, or a hexadecimal one with 0x, with a sign or without.
std::optional<int64_t> IntegerIn(std::string_view text);

// Returns the text between quotes, without backslashes before ; " \ and :.
std::optional<std::string> QuotedText(std::string_view value);

// Returns the bytes of a content: text, and hexadecimal between bars, as
// "GET |0d 0a|". Returns nothing, and says why, if the value is no content.
std::optional<std::string> PatternBytes(std::string_view value,
                                        std::string& why);

// Returns a pcre's text without the backslashes that only the rule's form
// needs: before ; and ".
std::string UnescapedForPcre(std::string_view text);

// Goes through "name:value; name; …)".
class OptionScanner {
 public:
  // `begin` is behind the opening parenthesis.
  OptionScanner(std::string_view text, size_t begin)
      : text_(text), next_(begin), at_(begin) {}

  // Goes to the next option. Returns false at the end, or at an error.
  bool Next();
  std::string_view name() const { return name_; }
  std::string_view value() const { return value_; }
  size_t at() const { return at_; }  // of the name, or of the error
  const std::string& error() const { return error_; }

 private:
  std::string_view text_;
  size_t next_;
  size_t at_;
  std::string_view name_;
  std::string_view value_;
  std::string error_;
};

}  // namespace snf::snort

#endif  // SNF_NFS_SNORT_OPTION_TEXT_H_
