// SPDX-License-Identifier: Apache-2.0
#include "base/rules/rule_sets.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "base/rules/rule_text.h"
#include "base/text_file.h"

namespace snf {
namespace {

std::optional<uint16_t> PortIn(std::string_view text) {
  uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, port);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return port;
}

absl::Status AddEntry(std::string_view word, RuleSet& set) {
  if (word.find_first_of(".:") != std::string_view::npos) {
    auto prefix = ParsePrefixes(word);
    if (!prefix.ok()) return prefix.status();
    set.prefixes.push_back(prefix->front());
  } else if (absl::ascii_isdigit(static_cast<unsigned char>(word.front()))) {
    const auto range = ParsePortRange(word);
    if (!range.ok()) return range.status();
    set.ports.push_back(*range);
  } else {
    return WrongWord(word, "want an address, a prefix, a port or a range");
  }
  if (!set.prefixes.empty() && !set.ports.empty()) {
    return WrongWord(word, "want a set of addresses or of ports, not of both");
  }
  if (set.prefixes.size() + set.ports.size() > kMaxSetEntries) {
    return WrongWord(word, "more than ", kMaxSetEntries, " entries");
  }
  return absl::OkStatus();
}

absl::StatusOr<RuleSet> ReadSet(std::string_view name, std::string_view items) {
  if (!items.starts_with('@')) {
    return ParseRuleSet(name, items, absl::StrCat("set ", std::string(name)));
  }
  const std::string file(items.substr(1));
  const auto text = ReadTextFile(file, kMaxSetFileBytes);
  if (!text.ok()) return text.status();
  return ParseRuleSet(name, *text, file);
}

}  // namespace

absl::StatusOr<PortRange> ParsePortRange(std::string_view text) {
  const size_t dash = std::min(text.find('-'), text.size());
  const auto first = PortIn(text.substr(0, dash));
  const auto last = dash == text.size() ? first : PortIn(text.substr(dash + 1));
  if (!first || !last) {
    return WrongWord(text,
                     "want a port from 0 to 65535, or a range as 8000-8999");
  }
  if (*first > *last) {
    return WrongWord(text, "the range ends before it begins");
  }
  return PortRange{*first, *last};
}

bool IsSetName(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
           c == '-' || c == '.';
  });
}

absl::StatusOr<RuleSet> ParseRuleSet(std::string_view name,
                                     std::string_view text,
                                     const std::string& place) {
  RuleSet set;
  set.name = std::string(name);
  for (uint32_t line = 1; !text.empty(); ++line) {
    std::string_view rest = NextLine(text);
    for (std::string_view word = NextWord(rest, " ,\t\r\f\v"); !word.empty();
         word = NextWord(rest, " ,\t\r\f\v")) {
      const absl::Status status = AddEntry(word, set);
      if (!status.ok()) {
        return absl::InvalidArgumentError(absl::StrCat(
            place, ":", line, ": ", std::string(status.message())));
      }
    }
  }
  return set;
}

absl::StatusOr<std::vector<RuleSet>> ParseRuleSets(std::string_view text) {
  std::vector<RuleSet> sets;
  size_t entries = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find(';'), text.size());
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t colon = std::min(one.find(':'), one.size());
    const std::string_view name = one.substr(0, colon);
    if (!IsSetName(name) || colon == one.size()) {
      return WrongWord(one, "want a set as bad:@FILE or web:80,443");
    }
    if (std::ranges::find(sets, name, &RuleSet::name) != sets.end()) {
      return WrongWord(name, "there are two sets of this name");
    }
    if (sets.size() == kMaxSets) {
      return WrongWord(name, "more than ", kMaxSets, " sets");
    }
    auto set = ReadSet(name, one.substr(colon + 1));
    if (!set.ok()) return set.status();
    entries += set->prefixes.size() + set->ports.size();
    if (entries > kMaxSetEntries) {
      return WrongWord(name, "more than ", kMaxSetEntries,
                       " entries of all sets together");
    }
    sets.push_back(*std::move(set));
  }
  return sets;
}

}  // namespace snf
