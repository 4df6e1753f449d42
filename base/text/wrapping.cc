// SPDX-License-Identifier: Apache-2.0
#include "base/text/wrapping.h"

#include <algorithm>

namespace snf {
namespace {

std::string_view WithoutLastBlanks(std::string_view text) {
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

// Returns where the first word of `prose` ends.
size_t EndOfWord(std::string_view prose) {
  size_t end = 0;
  do {
    const size_t begin = end == 0 ? 0 : end + 1;
    end = std::min(prose.find(' ', begin), prose.size());
    const std::string_view word = prose.substr(begin, end - begin);
    if (word.find_first_not_of("(0123456789.,") != std::string_view::npos ||
        word.empty() || word.back() == '.' || word.back() == ',') {
      break;
    }
  } while (end < prose.size());
  return end;
}

}  // namespace

size_t ColumnsOf(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

std::vector<std::string_view> WordsOf(std::string_view prose) {
  std::vector<std::string_view> words;
  while (!prose.empty()) {
    const size_t end = EndOfWord(prose);
    words.push_back(prose.substr(0, end));
    prose.remove_prefix(std::min(end + 1, prose.size()));
  }
  return words;
}

std::string Wrap(std::string_view front,
                 std::span<const std::string_view> pieces,
                 const Wrapping& wrapping) {
  const std::string_view separator = wrapping.separator;
  const size_t behind = ColumnsOf(WithoutLastBlanks(separator));
  std::string text;
  std::string line(front);
  size_t columns = ColumnsOf(front);
  bool is_begun = false;  // the line has a piece
  for (size_t i = 0; i < pieces.size(); ++i) {
    const bool is_last = i + 1 == pieces.size();
    const size_t wanted = columns + ColumnsOf(pieces[i]) +
                          (is_last ? 0 : behind) +
                          ColumnsOf(wrapping.continued);
    if (is_begun && wanted > wrapping.columns) {
      text.append(WithoutLastBlanks(line)).append(wrapping.continued) += '\n';
      line.assign(wrapping.indent, ' ');
      columns = wrapping.indent;
    }
    line += pieces[i];
    columns += ColumnsOf(pieces[i]);
    is_begun = true;
    if (is_last) continue;
    line += separator;
    columns += ColumnsOf(separator);
  }
  return text.append(WithoutLastBlanks(line)) += '\n';
}

std::string Wrap(std::string_view front, std::span<const std::string> pieces,
                 const Wrapping& wrapping) {
  return Wrap(front,
              std::vector<std::string_view>(pieces.begin(), pieces.end()),
              wrapping);
}

}  // namespace snf
