// SPDX-License-Identifier: Apache-2.0
#include "nfs/snort/rule_parser.h"

#include <algorithm>
#include <array>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "nfs/snort/option_reader.h"
#include "nfs/snort/option_text.h"

namespace snf::snort {
namespace {

using Outcome = RuleParser::Outcome;

// The words of a header: actions, addresses, ports, with their places.
struct HeaderWord {
  std::string_view text;
  size_t at;
};

std::vector<HeaderWord> HeaderWordsOf(std::string_view text, size_t begin) {
  std::vector<HeaderWord> words;
  size_t at = begin;
  while (at < text.size() && text[at] != '(') {
    if (absl::ascii_isspace(static_cast<unsigned char>(text[at]))) {
      ++at;
      continue;
    }
    const size_t first = at;
    int depth = 0;
    while (at < text.size()) {
      const char c = text[at];
      if (c == '[') ++depth;
      if (c == ']') --depth;
      const bool is_space = absl::ascii_isspace(static_cast<unsigned char>(c));
      // "$(NAME)" is a variable, and no begin of options.
      const bool opens = c == '(' && (at == 0 || text[at - 1] != '$');
      if (depth <= 0 && (is_space || opens)) break;
      ++at;
    }
    words.push_back({text.substr(first, at - first), first});
  }
  return words;
}

// A list without an address is right, but its rule never matches.
Outcome OutcomeOf(const absl::Status& list) {
  return absl::IsOutOfRange(list) ? Outcome::kUnsupported : Outcome::kWrong;
}

}  // namespace

uint32_t FlowbitNames::NumberOf(std::string_view name) {
  const auto found = numbers_.find(name);
  if (found != numbers_.end()) return found->second;
  const auto number = static_cast<uint32_t>(numbers_.size());
  numbers_.emplace(name, number);
  return number;
}

std::vector<std::string> FlowbitNames::names() const {
  std::vector<std::string> names(numbers_.size());
  for (const auto& [name, number] : numbers_) names[number] = name;
  return names;
}

absl::StatusOr<Threshold> ParseThreshold(std::string_view text,
                                         bool is_filter) {
  Threshold threshold;
  bool has_type = is_filter, has_track = false, has_count = false,
       has_seconds = false;
  if (is_filter) threshold.kind = Threshold::Kind::kDetectionFilter;
  for (const std::string_view part : SplitAt(text, ',')) {
    const std::string_view item = StrippedView(part);
    const size_t space = item.find_first_of(" \t");
    const std::string_view key = item.substr(0, space);
    const std::string_view value =
        space == std::string_view::npos ? "" : StrippedView(item.substr(space));
    const auto number = IntegerIn(value);
    const auto wrong = [&item] {
      return absl::InvalidArgumentError(Cat("wrong: \"", item, "\""));
    };
    if (key == "type" && !is_filter) {
      has_type = true;
      if (value == "limit") {
        threshold.kind = Threshold::Kind::kLimit;
      } else if (value == "threshold") {
        threshold.kind = Threshold::Kind::kThreshold;
      } else if (value == "both") {
        threshold.kind = Threshold::Kind::kBoth;
      } else {
        return wrong();
      }
    } else if (key == "track") {
      has_track = true;
      threshold.by_destination = value == "by_dst";
      if (value != "by_dst" && value != "by_src") return wrong();
    } else if (key == "count" && number && *number > 0 &&
               *number <= UINT32_MAX) {
      has_count = true;
      threshold.count = static_cast<uint32_t>(*number);
    } else if (key == "seconds" && number && *number > 0 &&
               *number <= UINT32_MAX) {
      has_seconds = true;
      threshold.seconds = static_cast<uint32_t>(*number);
    } else {
      return wrong();
    }
  }
  if (!has_type || !has_track || !has_count || !has_seconds) {
    return absl::InvalidArgumentError("want type, track, count and seconds");
  }
  return threshold;
}

bool RuleParser::LooksLikeRule(std::string_view text) {
  text = StrippedView(text);
  const std::string_view word = text.substr(0, text.find_first_of(" \t"));
  static constexpr std::array<std::string_view, 9> kActions = {
      "alert", "log",     "pass",     "drop", "reject",
      "sdrop", "dynamic", "activate", "block"};
  return std::ranges::find(kActions, word) != kActions.end();
}

RuleParser::Result RuleParser::Parse(const LogicalLine& line,
                                     const std::string& file, size_t begin) {
  Result result;
  Rule& rule = result.rule;
  const std::string_view text = line.text();
  rule.place = line.PlaceOf(
      file, std::min(text.find_first_not_of(" \t", begin), text.size()));
  const auto fail = [&](Outcome outcome, size_t at, std::string_view option,
                        std::string_view value, std::string reason) {
    if (result.outcome >= Outcome::kUnsupported) return;
    result.outcome = outcome;
    result.problem = {line.PlaceOf(file, at), std::string(option),
                      std::string(value), std::move(reason)};
  };

  const std::vector<HeaderWord> words = HeaderWordsOf(text, begin);
  if (words.size() < 7) {
    fail(Outcome::kWrong, words.empty() ? begin : words.back().at, "", "",
         "a rule begins with action, protocol, address, port, direction, "
         "address, port");
    return result;
  }
  if (words.size() > 7) {
    fail(Outcome::kWrong, words[7].at, "", "",
         Cat("\"", words[7].text, "\" is too much before ("));
    return result;
  }
  const std::string_view action = words[0].text;
  if (action == "pass") {
    rule.action = Rule::Action::kPass;
  } else if (action == "drop" || action == "reject" || action == "sdrop" ||
             action == "block") {
    rule.action = Rule::Action::kDrop;
    if (action == "reject") {
      rule.ignored.push_back({line.PlaceOf(file, words[0].at), "reject", "",
                              "drops, but sends no answer"});
    }
  } else if (action == "log") {
    rule.ignored.push_back(
        {line.PlaceOf(file, words[0].at), "log", "", "is an alert"});
  } else if (action != "alert") {
    const bool is_known = action == "dynamic" || action == "activate";
    fail(is_known ? Outcome::kUnsupported : Outcome::kWrong, words[0].at,
         action, "",
         is_known ? "this action is not supported" : "there is no such action");
  }
  static constexpr std::array<std::string_view, 4> kProtocols = {"ip", "tcp",
                                                                 "udp", "icmp"};
  const auto protocol = std::ranges::find(kProtocols, words[1].text);
  if (protocol == kProtocols.end()) {
    fail(Outcome::kWrong, words[1].at, "", "",
         Cat("\"", words[1].text,
             "\" is no protocol: want ip, tcp, udp or icmp"));
  } else {
    rule.protocol = static_cast<Rule::Protocol>(protocol - kProtocols.begin());
  }
  for (const size_t at : {size_t{2}, size_t{5}}) {
    auto addresses = variables_.Addresses(words[at].text);
    if (!addresses.ok()) {
      fail(OutcomeOf(addresses.status()), words[at].at, "", "",
           std::string(addresses.status().message()));
      continue;
    }
    (at == 2 ? rule.source : rule.destination) = *addresses;
  }
  for (const size_t at : {size_t{3}, size_t{6}}) {
    auto ports = variables_.Ports(words[at].text);
    if (!ports.ok()) {
      fail(OutcomeOf(ports.status()), words[at].at, "", "",
           std::string(ports.status().message()));
      continue;
    }
    (at == 3 ? rule.source_ports : rule.destination_ports) = *ports;
  }
  rule.both_ways = words[4].text == "<>";
  if (words[4].text != "->" && !rule.both_ways) {
    fail(Outcome::kWrong, words[4].at, "", "",
         Cat("\"", words[4].text, "\": want -> or <>"));
  }

  size_t at = words[6].at + words[6].text.size();
  at = text.find('(', at);
  if (at == std::string_view::npos) {
    fail(Outcome::kWrong, text.size(), "", "", "has no options in ( )");
    return result;
  }
  OptionReader reader(rule, flowbits_);
  OptionScanner scanner(text, at + 1);
  while (scanner.Next()) {
    const std::string_view name = scanner.name();
    const std::string_view value = scanner.value();
    if (const Answer refusal = reader.Read(name, value)) {
      fail(refusal->outcome, scanner.at(), name, value, refusal->reason);
    } else if (!reader.ignored().empty()) {
      rule.ignored.push_back({line.PlaceOf(file, scanner.at()),
                              std::string(name), std::string(value),
                              reader.ignored()});
    }
  }
  if (!scanner.error().empty()) {
    fail(Outcome::kWrong, scanner.at(), scanner.name(), "", scanner.error());
    return result;
  }
  if (const Answer refusal = reader.End()) {
    fail(refusal->outcome, at, "", "", refusal->reason);
  }
  if (result.outcome != Outcome::kSupported) return result;
  if (rule.sid == 0) {
    fail(Outcome::kWrong, at, "sid", "", "a rule needs a sid above 0");
    return result;
  }
  const auto is_mail = [](const PortSet& ports) {
    return !ports.is_all() && (ports.Contains(25) || ports.Contains(110) ||
                               ports.Contains(143) || ports.Contains(587));
  };
  if (rule.uses(Buffer::kFileData) && !rule.needs_http() &&
      (is_mail(*rule.source_ports) || is_mail(*rule.destination_ports))) {
    rule.ignored.push_back({rule.place, "file_data", "",
                            "mail is not decoded: the payload is matched"});
  }
  if (rule.threshold.has_value() && rule.action == Rule::Action::kDrop &&
      rule.threshold->kind == Threshold::Kind::kDetectionFilter) {
    rule.ignored.push_back({rule.place, "detection_filter", "",
                            "the rule alerts, but does not drop"});
  }
  if (!rule.ignored.empty()) result.outcome = Outcome::kPartly;
  return result;
}

}  // namespace snf::snort
