// SPDX-License-Identifier: Apache-2.0
#include "nfs/snort/problem.h"

#include <algorithm>

#include "nfs/snort/option_text.h"

namespace snf::snort {

std::string Problem::ToText() const {
  std::string text = Cat(place.file, ":", place.line, ":", place.column, ": ");
  if (!option.empty()) {
    constexpr size_t kMaxShown = 80;
    Append(text, option);
    if (!value.empty()) {
      Append(text, ":", value.substr(0, kMaxShown),
             value.size() > kMaxShown ? "…" : "");
    }
    Append(text, ": ");
  }
  return text + reason;
}

void LogicalLine::Append(std::string_view text, uint32_t line) {
  pieces_.push_back({text_.size(), line});
  text_ += text;
}

Place LogicalLine::PlaceOf(const std::string& file, size_t at) const {
  size_t piece = pieces_.size() - 1;
  while (piece > 0 && pieces_[piece].begin > at) --piece;
  return {file, pieces_[piece].line,
          static_cast<uint32_t>(at - pieces_[piece].begin + 1)};
}

std::vector<LogicalLine> LogicalLinesOf(std::string_view text) {
  std::vector<LogicalLine> lines;
  bool continues = false;
  uint32_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool goes_on = line.ends_with('\\');
    if (goes_on) line.remove_suffix(1);
    const bool is_blank =
        line.find_first_not_of(" \t") == std::string_view::npos;
    if (!continues && is_blank && !goes_on) continue;
    if (!continues) lines.emplace_back();
    lines.back().Append(line, number);
    continues = goes_on;
  }
  return lines;
}

}  // namespace snf::snort
