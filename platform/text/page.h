// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_TEXT_PAGE_H_
#define SNF_PLATFORM_TEXT_PAGE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "platform/text/text_style.h"

namespace snf {

// Writes a report line by line in a given style. Columns are counted in
// characters of UTF-8, each of which is taken to be one column wide.
class Page {
 public:
  static constexpr int kLeastColumns = 72;
  static constexpr size_t kLabelColumns = 12;

  explicit Page(const TextStyle& style)
      : style_(style),
        columns_(static_cast<size_t>(std::max(style.columns, kLeastColumns))) {}

  // As wide as the widest number.
  void set_number_columns(size_t columns) { number_columns_ = columns; }
  size_t columns() const { return columns_; }

  void Blank() { text_ += '\n'; }
  void Raw(std::string_view text) { text_ += text; }
  void Heading(std::string_view text) { Emphasise("\033[1m", text); }
  void Alarm(std::string_view text) { Emphasise("\033[1;31m", text); }

  // "Label   + 1,234  what it counts"
  void Row(std::string_view label, std::string_view sign,
           std::string_view number, const std::string& what);
  void Count(std::string_view label, uint64_t count, const std::string& what);
  // "Label         what there is to say"
  void Say(std::string_view label, std::string_view prose);

  // Prose between `indent` and the last column, `front` before its first line.
  // A number and its unit stay together.
  void Wrap(std::string_view front, size_t indent, std::string_view prose);
  void Prose(std::string_view prose) { Wrap("  ", 2, prose); }
  void Item(std::string_view prose) { Wrap("  - ", 4, prose); }

  // A command on as many lines as it needs, to be pasted as it is.
  void Command(const std::vector<std::string>& words);

  // What was written. Call once.
  std::string Take();

 private:
  void Emphasise(std::string_view escape, std::string_view text);

  TextStyle style_;
  size_t columns_;
  size_t number_columns_ = 7;
  std::string text_;
};

size_t ColumnsOf(std::string_view text);

// What a terminal does not take as text is shown as '?'.
std::string Printable(std::string text);

// "a.pcap, b.pcap, c.pcap and 2 more", printable.
std::string FileList(const std::vector<std::string>& files);

// "1 packet", "1,234 packets".
std::string Plural(uint64_t count, std::string_view one);

}  // namespace snf

#endif  // SNF_PLATFORM_TEXT_PAGE_H_
