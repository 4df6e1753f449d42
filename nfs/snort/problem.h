// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_SNORT_PROBLEM_H_
#define SNF_NFS_SNORT_PROBLEM_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace snf::snort {

// A place in a file. Lines and columns (bytes) count from 1.
struct Place {
  std::string file;
  uint32_t line = 0;
  uint32_t column = 0;
};

// An error in a rule file, or a part of a rule that is not honoured.
struct Problem {
  Place place;
  std::string option;  // "depth"; empty if the problem is not in an option
  std::string value;
  std::string reason;

  // Returns "web.rules:12:80: depth:no: not a number".
  std::string ToText() const;
};

// A line with its continuations (a backslash at the end of a line) joined.
class LogicalLine {
 public:
  // Appends a physical line without its end.
  void Append(std::string_view text, uint32_t line);

  const std::string& text() const { return text_; }
  uint32_t first_line() const { return pieces_.front().line; }
  // Returns the place of text()[at].
  Place PlaceOf(const std::string& file, size_t at) const;

 private:
  struct Piece {
    size_t begin;  // in text_
    uint32_t line;
  };
  std::string text_;
  std::vector<Piece> pieces_;
};

// Divides a file into logical lines; empty ones are left out.
std::vector<LogicalLine> LogicalLinesOf(std::string_view text);

}  // namespace snf::snort

#endif  // SNF_NFS_SNORT_PROBLEM_H_
