// SPDX-License-Identifier: Apache-2.0
#include "base/text/page.h"

#include <utility>

#include "base/quantity.h"
#include "fmt/format.h"

namespace snf {

void Page::Row(std::string_view label, std::string_view sign,
               std::string_view number, const std::string& what) {
  const std::string front =
      fmt::format("{:<{}}{:>1} {:>{}}", label, kLabelColumns, sign, number,
                  number_columns_);
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
  text_ +=
      snf::Wrap(front, WordsOf(prose), {.columns = columns_, .indent = indent});
}

void Page::Command(const std::vector<std::string>& words) {
  text_ += snf::Wrap("    ", words,
                     {.columns = columns_, .indent = 6, .continued = " \\"});
}

std::string Page::Take() {
  if (terminal_.utf8) return std::move(text_);
  std::string ascii;
  for (size_t i = 0; i < text_.size(); ++i) {
    const bool micro = text_.compare(i, 2, "µ") == 0;
    ascii += micro ? 'u' : text_[i];
    i += micro ? 1 : 0;
  }
  return ascii;
}

void Page::Emphasise(std::string_view escape, std::string_view text) {
  if (terminal_.colour) text_ += escape;
  text_ += text;
  text_ += terminal_.colour ? "\033[0m\n" : "\n";
}

}  // namespace snf
