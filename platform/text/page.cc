// SPDX-License-Identifier: Apache-2.0
#include "platform/text/page.h"

#include <utility>

#include "base/quantity.h"
#include "fmt/format.h"

namespace snf {
namespace {

// Where the first word of `prose` ends; a number and its unit are one word.
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

void Page::Row(std::string_view label, std::string_view sign,
               std::string_view number, const std::string& what) {
  const std::string front =
      fmt::format("{:<{}}{:>1} {:>{}}", label, kLabelColumns, sign, number,
                  number_columns_);
  if (what.empty()) {
    text_ += front + '\n';
    return;
  }
  Wrap(front + "  ", ColumnsOf(front) + 2, what);
}

void Page::Count(std::string_view label, uint64_t count,
                 const std::string& what) {
  Row(label, "", FormatCount(count), what);
}

void Page::Say(std::string_view label, std::string_view prose) {
  Wrap(fmt::format("{:<{}}  ", label, kLabelColumns), kLabelColumns + 2, prose);
}

void Page::Wrap(std::string_view front, size_t indent, std::string_view prose) {
  text_ += front;
  size_t column = indent;
  bool first = true;
  while (!prose.empty()) {
    const size_t end = EndOfWord(prose);
    const std::string_view word = prose.substr(0, end);
    prose.remove_prefix(std::min(end + 1, prose.size()));
    if (!first && column + 1 + ColumnsOf(word) > columns_) {
      text_.append(1, '\n').append(indent, ' ');
      column = indent;
      first = true;
    }
    if (!first) text_ += ' ';
    text_ += word;
    column += ColumnsOf(word) + (first ? 0 : 1);
    first = false;
  }
  text_ += '\n';
}

void Page::Command(const std::vector<std::string>& words) {
  text_ += "    ";
  size_t column = 4;
  for (size_t i = 0; i < words.size(); ++i) {
    // Room for this word and " \".
    if (i > 0 && column + 1 + ColumnsOf(words[i]) + 2 > columns_) {
      text_ += " \\\n      ";
      column = 6;
    } else if (i > 0) {
      text_ += ' ';
      ++column;
    }
    text_ += words[i];
    column += ColumnsOf(words[i]);
  }
  text_ += '\n';
}

std::string Page::Take() {
  if (style_.utf8) return std::move(text_);
  std::string ascii;
  for (size_t i = 0; i < text_.size(); ++i) {
    const bool micro = text_.compare(i, 2, "µ") == 0;
    ascii += micro ? 'u' : text_[i];
    i += micro ? 1 : 0;
  }
  return ascii;
}

void Page::Emphasise(std::string_view escape, std::string_view text) {
  if (style_.colour) text_ += escape;
  text_ += text;
  text_ += style_.colour ? "\033[0m\n" : "\n";
}

size_t ColumnsOf(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string Printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

std::string FileList(const std::vector<std::string>& files) {
  constexpr size_t kShown = 3;
  std::string list;
  for (size_t i = 0; i < std::min(files.size(), kShown); ++i) {
    list += (i == 0 ? "" : ", ") + Printable(files[i]);
  }
  if (files.size() <= kShown) return list;
  return list + fmt::format(" and {} more", files.size() - kShown);
}

std::string Plural(uint64_t count, std::string_view one) {
  return fmt::format("{} {}{}", FormatCount(count), one, count == 1 ? "" : "s");
}

}  // namespace snf
