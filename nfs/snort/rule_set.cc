// SPDX-License-Identifier: Apache-2.0
#include "nfs/snort/rule_set.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/text_file.h"
#include "nfs/snort/option_text.h"

namespace snf::snort {
namespace {

using Outcome = RuleParser::Outcome;

// Snort's own classification.config.
struct UsualClass {
  const char* name;
  const char* text;
  uint32_t priority;
};
constexpr std::array<UsualClass, 42> kUsualClasses = {
    {{"not-suspicious", "Not Suspicious Traffic", 3},
     {"unknown", "Unknown Traffic", 3},
     {"bad-unknown", "Potentially Bad Traffic", 2},
     {"attempted-recon", "Attempted Information Leak", 2},
     {"successful-recon-limited", "Information Leak", 2},
     {"successful-recon-largescale", "Large Scale Information Leak", 2},
     {"attempted-dos", "Attempted Denial of Service", 2},
     {"successful-dos", "Denial of Service", 2},
     {"attempted-user", "Attempted User Privilege Gain", 1},
     {"unsuccessful-user", "Unsuccessful User Privilege Gain", 1},
     {"successful-user", "Successful User Privilege Gain", 1},
     {"attempted-admin", "Attempted Administrator Privilege Gain", 1},
     {"successful-admin", "Successful Administrator Privilege Gain", 1},
     {"rpc-portmap-decode", "Decode of an RPC Query", 2},
     {"shellcode-detect", "Executable code was detected", 1},
     {"string-detect", "A suspicious string was detected", 3},
     {"suspicious-filename-detect", "A suspicious filename was detected", 2},
     {"suspicious-login",
      "An attempted login using a suspicious username was "
      "detected",
      2},
     {"system-call-detect", "A system call was detected", 2},
     {"tcp-connection", "A TCP connection was detected", 4},
     {"trojan-activity", "A Network Trojan was detected", 1},
     {"unusual-client-port-connection", "A client was using an unusual port",
      2},
     {"network-scan", "Detection of a Network Scan", 3},
     {"denial-of-service", "Detection of a Denial of Service Attack", 2},
     {"non-standard-protocol", "Detection of a non-standard protocol or event",
      2},
     {"protocol-command-decode", "Generic Protocol Command Decode", 3},
     {"web-application-activity",
      "access to a potentially vulnerable web application", 2},
     {"web-application-attack", "Web Application Attack", 1},
     {"misc-activity", "Misc activity", 3},
     {"misc-attack", "Misc Attack", 2},
     {"icmp-event", "Generic ICMP event", 3},
     {"kickass-porn", "SCORE! Get the lotion!", 1},
     {"inappropriate-content", "Inappropriate Content was Detected", 1},
     {"policy-violation", "Potential Corporate Privacy Violation", 1},
     {"default-login-attempt",
      "Attempt to login by a default username and password", 2},
     {"sdf", "Sensitive Data was Transmitted Across the Network", 2},
     {"file-format", "Known malicious file or file based exploit", 1},
     {"malware-cnc", "Known malware command and control traffic", 1},
     {"client-side-exploit", "Known client side exploit attempt", 1},
     {"targeted-activity", "Targeted Malicious Activity was Detected", 1},
     {"exploit-kit", "Exploit Kit Activity Detected", 1},
     {"social-engineering", "Social Engineering Attempted", 2}}};

// Words with which lines of a snort.conf begin that have no effect here.
constexpr std::array<std::string_view, 10> kOtherLines = {
    "preprocessor",     "output",   "dynamicpreprocessor", "dynamicengine",
    "dynamicdetection", "ruletype", "rate_filter",         "attribute_table",
    "sidechannel",      "hosts"};

// Divides "gen_id 1, sig_id 5, …" and takes the two ids out.
struct FilterText {
  uint32_t gid = 1;
  uint32_t sid = 0;
  std::string rest;
};
std::optional<FilterText> FilterTextIn(std::string_view value) {
  FilterText filter;
  for (const std::string_view part : SplitAt(value, ',')) {
    const std::string_view item = StrippedView(part);
    const size_t space = std::min(item.find_first_of(" \t"), item.size());
    const std::string_view key = item.substr(0, space);
    if (key == "gen_id" || key == "sig_id") {
      const auto number = IntegerIn(item.substr(space));
      if (!number || *number < 0 || *number > UINT32_MAX) return std::nullopt;
      (key == "gen_id" ? filter.gid : filter.sid) =
          static_cast<uint32_t>(*number);
    } else {
      Append(filter.rest, filter.rest.empty() ? "" : ",", item);
    }
  }
  return filter;
}

}  // namespace

uint64_t RuleSet::CountOf(Outcome outcome) const {
  return static_cast<uint64_t>(
      std::ranges::count(findings, outcome, &Finding::outcome));
}

RuleSetReader::RuleSetReader(Options options) : options_(options) {
  for (const UsualClass& usual : kUsualClasses) {
    classes_[usual.name] = {usual.text, usual.priority};
  }
}

absl::Status RuleSetReader::ReadFile(const std::string& file) {
  const auto text = ReadTextFile(file, kMaxFileBytes);
  if (!text.ok()) return text.status();
  open_files_.push_back(file);
  const absl::Status read = ReadText(*text, file);
  open_files_.pop_back();
  return read;
}

absl::Status RuleSetReader::ReadText(std::string_view text,
                                     const std::string& file) {
  for (const LogicalLine& line : LogicalLinesOf(text)) {
    if (const absl::Status read = ReadLine(line, file); !read.ok()) return read;
  }
  return absl::OkStatus();
}

absl::Status RuleSetReader::ReadLine(const LogicalLine& line,
                                     const std::string& file) {
  const std::string_view whole = line.text();
  const std::string_view text = StrippedView(whole);
  const auto begin = static_cast<size_t>(text.data() - whole.data());
  if (text.empty()) return absl::OkStatus();
  if (text.starts_with('#')) {
    const size_t at = text.find_first_not_of("# \t");
    if (options_.with_commented && at != std::string_view::npos &&
        RuleParser::LooksLikeRule(text.substr(at)) &&
        text.find("sid:") != std::string_view::npos) {
      ReadRule(line, file, begin + at, true);
    }
    return absl::OkStatus();
  }
  if (RuleParser::LooksLikeRule(text)) {
    ReadRule(line, file, begin, false);
    return absl::OkStatus();
  }
  size_t end = text.find_first_of(" \t:");
  if (end == std::string_view::npos) end = text.size();
  const std::string_view word = text.substr(0, end);
  std::string_view value = StrippedView(text.substr(end));
  if (value.starts_with(':')) value = StrippedView(value.substr(1));
  absl::Status status;
  if (word == "ipvar" || word == "portvar" || word == "var") {
    const size_t space = value.find_first_of(" \t");
    if (space == std::string_view::npos) {
      status = absl::InvalidArgumentError("want a name and a value");
    } else {
      const std::string name(value.substr(0, space));
      const std::string set(StrippedView(value.substr(space)));
      variables_.Set(name, set);
      texts_[name] = set;
      // An error is told where the variable is, not where it is used.
      if (word == "ipvar") status = variables_.Addresses("$" + name).status();
      if (word == "portvar") status = variables_.Ports("$" + name).status();
    }
  } else if (word == "include") {
    const absl::StatusOr<std::string> path = PathOf(value, file);
    // An error inside of the other file has its own place.
    if (path.ok()) return ReadFile(*path);
    status = path.status();
  } else if (word == "config") {
    status = ReadConfig(value);
    if (absl::IsNotFound(status)) {
      set_.notes.push_back({line.PlaceOf(file, begin), "config", "",
                            std::string(status.message())});
      return absl::OkStatus();
    }
  } else if (word == "event_filter" || word == "threshold") {
    status = ReadFilter(value);
  } else if (word == "suppress") {
    status = ReadSuppression(value);
  } else if (std::ranges::find(kOtherLines, word) != kOtherLines.end()) {
    set_.notes.push_back(
        {line.PlaceOf(file, begin), std::string(word), "", "has no effect"});
  } else {
    status = absl::InvalidArgumentError(
        Cat("\"", word, "\" begins no rule and no known line"));
  }
  if (status.ok()) return status;
  const Problem problem = {line.PlaceOf(file, begin), std::string(word), "",
                           std::string(status.message())};
  return absl::InvalidArgumentError(problem.ToText());
}

void RuleSetReader::ReadRule(const LogicalLine& line, const std::string& file,
                             size_t begin, bool is_commented) {
  RuleParser parser(variables_, flowbits_);
  RuleParser::Result result = parser.Parse(line, file, begin);
  Rule& rule = result.rule;
  RuleSet::Finding finding = {.place = rule.place,
                              .gid = rule.gid,
                              .sid = rule.sid,
                              .message = rule.message,
                              .is_commented = is_commented,
                              .outcome = result.outcome,
                              .problems = rule.ignored};
  if (result.outcome >= Outcome::kUnsupported) {
    finding.problems = {result.problem};
    set_.findings.push_back(std::move(finding));
    return;
  }
  set_.findings.push_back(std::move(finding));
  const auto [known, is_new] =
      by_sid_.emplace(std::pair(rule.gid, rule.sid), set_.rules.size());
  if (is_new) {
    set_.rules.push_back(std::move(rule));
    return;
  }
  // As in Snort, the higher revision counts.
  Rule& other = set_.rules[known->second];
  set_.notes.push_back({rule.place, "sid", Cat(rule.sid),
                        Cat("is also at ", other.place.file, ":",
                            other.place.line, "; the higher revision counts")});
  if (rule.revision > other.revision) other = std::move(rule);
}

absl::StatusOr<std::string> RuleSetReader::PathOf(
    std::string_view value, const std::string& file) const {
  std::string path(value);
  if (path.starts_with('$')) {
    const size_t end = std::min(path.find('/'), path.size());
    const auto known = texts_.find(path.substr(1, end - 1));
    if (known == texts_.end()) {
      return absl::InvalidArgumentError(
          Cat(path.substr(0, end), " is not defined"));
    }
    path = known->second + path.substr(end);
  }
  if (path.empty()) return absl::InvalidArgumentError("want a file");
  const size_t slash = file.rfind('/');
  if (!path.starts_with('/') && slash != std::string::npos) {
    path = file.substr(0, slash + 1) + path;
  }
  // Two names of one file are caught by the limit.
  if (std::ranges::find(open_files_, path) != open_files_.end()) {
    return absl::InvalidArgumentError(Cat(path, " includes itself"));
  }
  if (open_files_.size() == kMaxIncludes) {
    return absl::InvalidArgumentError(
        Cat(path, ": more than ", kMaxIncludes, " files include one another"));
  }
  return path;
}

absl::Status RuleSetReader::ReadConfig(std::string_view value) {
  const size_t colon = value.find(':');
  const std::string_view key = StrippedView(value.substr(0, colon));
  if (key == "reference") return absl::OkStatus();  // where to read more
  if (key != "classification") {
    return absl::NotFoundError(Cat(key, " has no effect"));
  }
  const std::vector<std::string_view> parts =
      SplitAt(value.substr(std::min(colon + 1, value.size())), ',');
  const auto priority =
      parts.size() < 3 ? std::nullopt : IntegerIn(parts.back());
  if (!priority || *priority < 0 || *priority > 255) {
    return absl::InvalidArgumentError("want NAME,TEXT,PRIORITY");
  }
  const auto text_begin = static_cast<size_t>(parts[1].data() - value.data());
  const auto text_end =
      static_cast<size_t>(parts.back().data() - value.data()) - 1;
  classes_[std::string(StrippedView(parts[0]))] = {
      std::string(
          StrippedView(value.substr(text_begin, text_end - text_begin))),
      static_cast<uint32_t>(*priority)};
  return absl::OkStatus();
}

absl::Status RuleSetReader::ReadFilter(std::string_view value) {
  const auto filter = FilterTextIn(value);
  if (!filter.has_value()) {
    return absl::InvalidArgumentError("want gen_id and sig_id as numbers");
  }
  const auto threshold = ParseThreshold(filter->rest, false);
  if (!threshold.ok()) return threshold.status();
  filters_[{filter->gid, filter->sid}] = *threshold;
  return absl::OkStatus();
}

absl::Status RuleSetReader::ReadSuppression(std::string_view value) {
  RuleSet::Suppression suppression;
  // A list of addresses has commas of its own.
  const size_t ip = value.find("ip ");
  const std::string_view before =
      value.substr(0, ip == std::string_view::npos ? value.size() : ip);
  const auto filter = FilterTextIn(before);
  if (!filter.has_value()) {
    return absl::InvalidArgumentError("want gen_id and sig_id as numbers");
  }
  suppression.gid = filter->gid;
  suppression.sid = filter->sid;
  const std::string rest = filter->rest;
  suppression.by_destination = rest.find("by_dst") != std::string::npos;
  const bool has_track = rest.find("track by_") != std::string::npos;
  if (has_track != (ip != std::string_view::npos)) {
    return absl::InvalidArgumentError("want track by_src or by_dst, and ip");
  }
  if (has_track) {
    const auto addresses = variables_.Addresses(value.substr(ip + 3));
    if (!addresses.ok()) return addresses.status();
    suppression.addresses = *addresses;
  }
  set_.suppressions.push_back(suppression);
  return absl::OkStatus();
}

RuleSet RuleSetReader::Take() {
  for (Rule& rule : set_.rules) {
    const auto known = classes_.find(rule.class_name);
    if (known != classes_.end()) {
      rule.category = known->second.text;
      if (!rule.has_priority) rule.priority = known->second.priority;
    }
    // The filter of a rule's own line counts first, as in Snort.
    if (rule.threshold.has_value()) continue;
    auto filter = filters_.find({rule.gid, rule.sid});
    if (filter == filters_.end()) filter = filters_.find({rule.gid, 0});
    if (filter != filters_.end()) rule.threshold = filter->second;
  }
  set_.flowbits = flowbits_.size();
  set_.flowbit_names = flowbits_.names();
  return std::move(set_);
}

}  // namespace snf::snort
