// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_RULES_RULE_TEXT_H_
#define SNF_BASE_RULES_RULE_TEXT_H_

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace snf {

// Returns the word in quotes, at most its first 60 bytes.
inline std::string QuotedWord(std::string_view word) {
  constexpr size_t kMaxQuoted = 60;
  const bool is_long = word.size() > kMaxQuoted;
  return absl::StrCat(
      "\"", absl::Utf8SafeCEscape(std::string(word.substr(0, kMaxQuoted))),
      is_long ? "…\"" : "\"");
}

// Returns InvalidArgument that quotes the word and says what is right.
template <typename... Parts>
absl::Status WrongWord(std::string_view word, const Parts&... parts) {
  return absl::InvalidArgumentError(
      absl::StrCat(QuotedWord(word), ": ", parts...));
}

// Removes the next word from the text and returns it; the word is empty at the
// end of the text. Words end at a blank or at one of `separators`.
inline std::string_view NextWord(std::string_view& text,
                                 std::string_view separators = " \t\r\f\v") {
  const size_t begin =
      std::min(text.find_first_not_of(separators), text.size());
  text.remove_prefix(begin);
  const size_t end = std::min(text.find_first_of(separators), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

// Removes the next line from the text, and from the line what stands behind
// "#".
inline std::string_view NextLine(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line.substr(0, line.find('#'));
}

}  // namespace snf

#endif  // SNF_BASE_RULES_RULE_TEXT_H_
