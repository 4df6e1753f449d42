// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_TEXT_WRAPPING_H_
#define SNF_BASE_TEXT_WRAPPING_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace snf {

// Counts the columns that `text`, in UTF-8, takes on a terminal. Every
// character is taken to be one column wide.
size_t ColumnsOf(std::string_view text);

// Splits prose at its blanks. A number and its unit, as in "12 ms", stay one
// word. Two blanks side by side yield an empty word, so that Wrap keeps both.
// The words point into `prose`.
std::vector<std::string_view> WordsOf(std::string_view prose);

// How a text is broken into lines.
struct Wrapping {
  size_t columns = 80;  // of the widest line
  size_t indent = 0;    // of every line but the first
  // Stands between two pieces, without its last blanks where a line ends.
  std::string_view separator = " ";
  // Ends each line that another one continues.
  std::string_view continued = "";
};

// Puts `front` and then the pieces on lines, the last of which ends with '\n',
// too. A line is longer than wrapping.columns only where a single piece is. No
// line ends with a blank.
//
// Example: Wrap("  - ", WordsOf("one two"), {.columns = 8, .indent = 4}) is
// "  - one\n    two\n".
std::string Wrap(std::string_view front,
                 std::span<const std::string_view> pieces,
                 const Wrapping& wrapping);
std::string Wrap(std::string_view front, std::span<const std::string> pieces,
                 const Wrapping& wrapping);

}  // namespace snf

#endif  // SNF_BASE_TEXT_WRAPPING_H_
