// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_SNORT_OPTION_ANSWER_H_
#define SNF_NFS_SNORT_OPTION_ANSWER_H_

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "nfs/snort/rule_parser.h"

namespace snf::snort {

// The reason for which an option is refused.
struct Refusal {
  RuleParser::Outcome outcome;
  std::string reason;
};
using Answer = std::optional<Refusal>;

inline Refusal Bad(std::string reason) {
  return {RuleParser::Outcome::kWrong, std::move(reason)};
}
inline Refusal NotSupported(std::string reason) {
  return {RuleParser::Outcome::kUnsupported, std::move(reason)};
}

// An option by its name, and what reads its value.
template <typename Reader>
struct Option {
  std::string_view name;
  Answer (Reader::*read)(std::string_view value);
};
// Reads an option that is in the table. Returns nothing if it is not there.
template <typename Reader>
std::optional<Answer> ReadFrom(std::span<const Option<Reader>> table,
                               Reader& reader, std::string_view name,
                               std::string_view value) {
  const auto found = std::ranges::find(table, name, &Option<Reader>::name);
  if (found == table.end()) return {};
  return (reader.*found->read)(value);
}

}  // namespace snf::snort

#endif  // SNF_NFS_SNORT_OPTION_ANSWER_H_
