// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_TEXT_PAGE_H_
#define SNF_BASE_TEXT_PAGE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/terminal.h"
#include "base/text/wording.h"
#include "base/text/wrapping.h"

namespace snf {

// Writes a report line by line, for a terminal or a file. Its lines are as wide
// as the terminal, but not less than 72 columns, for tables need some, and not
// more than 100, for longer lines are hard to read. Owner-thread only.
class Page {
 public:
  static constexpr size_t kLeastColumns = 72;
  static constexpr size_t kMostColumns = 100;
  static constexpr size_t kLabelColumns = 12;

  explicit Page(const Terminal& terminal)
      : terminal_(terminal),
        columns_(std::clamp(terminal.columns, kLeastColumns, kMostColumns)) {}

  // Sets the width of the numbers that Row and Count align.
  void set_number_columns(size_t columns) { number_columns_ = columns; }
  size_t columns() const { return columns_; }

  void Blank() { text_ += '\n'; }
  void Raw(std::string_view text) { text_ += text; }
  void Heading(std::string_view text) { Emphasise("\033[1m", text); }
  void Alarm(std::string_view text) { Emphasise("\033[1;31m", text); }

  // Adds "Label   + 1,234  meaning of the count".
  void Row(std::string_view label, std::string_view sign,
           std::string_view number, const std::string& what);
  void Count(std::string_view label, uint64_t count, const std::string& what);
  // Adds "Label         prose".
  void Say(std::string_view label, std::string_view prose);

  // Adds prose between `indent` and the last column, with `front` before its
  // first line. A number and its unit stay together.
  void Wrap(std::string_view front, size_t indent, std::string_view prose);
  void Prose(std::string_view prose) { Wrap("  ", 2, prose); }
  void Item(std::string_view prose) { Wrap("  - ", 4, prose); }

  // Adds a command on as many lines as it needs, to be pasted as it is.
  void Command(const std::vector<std::string>& words);

  // Returns the text, in ASCII where the terminal shows no other. Call once.
  std::string Take();

 private:
  void Emphasise(std::string_view escape, std::string_view text);

  Terminal terminal_;
  size_t columns_;
  size_t number_columns_ = 7;
  std::string text_;
};

}  // namespace snf

#endif  // SNF_BASE_TEXT_PAGE_H_
