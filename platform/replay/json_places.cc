// SPDX-License-Identifier: Apache-2.0
#include "platform/replay/json_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace snf {
namespace {

// Of what lies deeper the place of what it is in is told: paths stay short.
constexpr size_t kMaxDepth = 16;

struct Level {
  std::string path;
  bool is_array;
  size_t index = 0;      // in an array
  std::string key = {};  // in an object
  bool has_begun = false;

  std::string Path() const {
    if (is_array) return fmt::format("{}[{}]", path, index);
    return path.empty() ? key : path + "." + key;
  }
};

// protobuf takes the names of fields in two forms, and tells them in one:
// maxUnits is max_units.
std::string InSnakeCase(std::string_view text) {
  std::string snake;
  for (const char c : text) {
    const bool is_capital = c >= 'A' && c <= 'Z';
    if (is_capital) snake += '_';
    snake += is_capital ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return snake;
}

// The end of the string that begins at `at`.
size_t EndOfString(std::string_view text, size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at, text.size());
}

}  // namespace

JsonPlaces::JsonPlaces(std::string_view text) {
  std::vector<Level> levels;
  size_t line = 1;
  size_t line_begin = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\n') {
      ++line;
      line_begin = at + 1;
    }
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ':') continue;
    if (c == ']' || c == '}') {
      levels.pop_back();
      continue;
    }
    const size_t begin = at;
    if (c == '"') at = EndOfString(text, at);
    if (!levels.empty()) {
      Level& level = levels.back();
      if (c == ',') {
        ++level.index;
        level.has_begun = false;
        continue;
      }
      if (!level.has_begun) {
        level.has_begun = true;
        if (!level.is_array) {
          level.key = InSnakeCase(text.substr(begin + 1, at - begin - 1));
        }
        if (levels.size() <= kMaxDepth) {
          places_.emplace(level.Path(),
                          fmt::format(":{}:{}", line, begin - line_begin + 1));
        }
      }
    }
    if (c != '[' && c != '{') continue;
    const bool has_path = !levels.empty() && levels.size() <= kMaxDepth;
    levels.push_back(
        {.path = has_path ? levels.back().Path() : "", .is_array = c == '['});
  }
}

std::string JsonPlaces::Of(std::string_view of) const {
  std::string path = InSnakeCase(of);
  while (!path.empty()) {
    const auto found = places_.find(path);
    if (found != places_.end()) return found->second;
    path.resize(std::min(path.find_last_of(".["), path.size() - 1));
  }
  return "";
}

std::string JsonPlaces::OfByte(std::string_view text, size_t at) {
  const std::string_view before = text.substr(0, at);
  const size_t line_begin = before.rfind('\n') + 1;  // 0 for none
  return fmt::format(":{}:{}", std::ranges::count(before, '\n') + 1,
                     before.size() - line_begin + 1);
}

}  // namespace snf
