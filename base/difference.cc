// SPDX-License-Identifier: Apache-2.0
#include "base/difference.h"

#include "absl/strings/str_cat.h"

namespace snf {
namespace {

std::string ValueOf(const NamedValues& values, const std::string& name) {
  const auto at = values.find(name);
  return at == values.end() ? "nothing" : absl::StrCat("\"", at->second, "\"");
}

}  // namespace

std::string DifferenceOf(const NamedValues& was, const NamedValues& is,
                         std::string_view prefix) {
  NamedValues all = was;
  all.insert(is.begin(), is.end());
  std::string text;
  for (const auto& [name, ignored] : all) {
    const std::string before = ValueOf(was, name);
    const std::string after = ValueOf(is, name);
    if (before == after) continue;
    absl::StrAppend(&text, text.empty() ? "" : "; ", std::string(prefix), name,
                    " ", before, ", not ", after);
  }
  return text;
}

}  // namespace snf
