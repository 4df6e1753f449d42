// SPDX-License-Identifier: Apache-2.0
#include "base/text/wording.h"

#include <algorithm>

#include "base/quantity.h"
#include "fmt/format.h"

namespace snf {
namespace {

bool IsControl(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

}  // namespace

std::string Printable(std::string text) {
  std::ranges::replace_if(text, IsControl, '?');
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
  const std::string_view ending = one.ends_with('s') ? "es" : "s";
  return fmt::format("{} {}{}", FormatCount(count), one,
                     count == 1 ? "" : ending);
}

std::string Percent(double share) {
  const double percent = share * 100;
  if (percent > 0 && percent < 0.05) return "less than 0.1 %";
  if (percent >= 9.95 || percent == 0) return fmt::format("{:.0f} %", percent);
  return fmt::format("{:.1f} %", percent);
}

std::string ShellWord(const std::string& word) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || static_cast<unsigned char>(c) >= 0x80 ||
           std::string_view("_-./=:,+%@").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, plain)) return word;
  const bool control = std::ranges::any_of(word, IsControl);
  std::string quoted = control ? "$'" : "'";
  for (const char c : word) {
    if (IsControl(c)) {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else if (control && (c == '\'' || c == '\\')) {
      quoted += {'\\', c};
    } else if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string FlagText(std::string quantity) {
  std::erase(quantity, ' ');
  constexpr std::string_view kMicro = "µ";
  if (const size_t micro = quantity.find(kMicro); micro != quantity.npos) {
    quantity.replace(micro, kMicro.size(), "u");
  }
  return quantity;
}

}  // namespace snf
