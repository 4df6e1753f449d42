// SPDX-License-Identifier: Apache-2.0
#include "nfs/ids_options.h"

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "nfs/snort/rule_set.h"

namespace snf {
namespace {

// The options that decide about the rules.
struct IdsSource {
  std::vector<std::string> rules;
  std::vector<std::string> vars;
  std::string home_net;
  std::string external_net;
  std::string cache;
  bool skips_bad = false;
};

// Reads "10.0.0.0/8+!10.1.0.0/16", since values of options have no commas.
std::string ListOf(std::string text) {
  for (char& c : text) c = c == '+' ? ',' : c;
  return text.find(',') == std::string::npos ? text : "[" + text + "]";
}

// The rules that all objects of a run share. The first object reads them, since
// its options decide how.
struct SharedRules {
  std::string files;  // joined by +
  mutable absl::Status status;
  mutable std::shared_ptr<const snort::RuleMatcher> matcher;
};

absl::StatusOr<snort::RuleMatcher> LoadRules(const IdsSource& source) {
  snort::RuleSetReader reader;
  for (const auto& [name, text] :
       {std::pair("HOME_NET", source.home_net),
        std::pair("EXTERNAL_NET", source.external_net)}) {
    if (text.empty()) continue;
    reader.variables().Fix(name, ListOf(text));
    const auto read = reader.variables().Addresses(std::string("$") + name);
    if (!read.ok()) return read.status();
  }
  for (const auto* const files : {&source.vars, &source.rules}) {
    for (const std::string& file : *files) {
      const absl::Status status = reader.ReadFile(file);
      if (!status.ok()) return status;
    }
  }
  snort::RuleSet set = reader.Take();
  for (const snort::RuleSet::Finding& finding : set.findings) {
    if (finding.outcome == snort::RuleParser::Outcome::kWrong &&
        !source.skips_bad) {
      return absl::InvalidArgumentError(finding.problems[0].ToText());
    }
  }
  if (set.rules.empty()) {
    return absl::InvalidArgumentError("there is no rule that is supported");
  }
  const std::string folder = source.cache == "auto"
                                 ? snort::DatabaseCache::UsualFolder()
                             : source.cache == "off" ? ""
                                                     : source.cache;
  return snort::RuleMatcher::Create(std::move(set),
                                    snort::DatabaseCache(folder));
}

}  // namespace

IdsOptions::IdsOptions(NfOptions& options) {
  IdsSource source;
  const auto shared = options.Load<SharedRules>(
      "rules", "files of Snort 2.9 rules, joined by +",
      [](const std::string& files) -> absl::StatusOr<SharedRules> {
        return SharedRules{.files = files, .status = {}, .matcher = nullptr};
      });
  source.vars = options.List(
      "vars", "FILE",
      "files that define variables, classifications and event filters; read "
      "before the rules");
  source.home_net =
      options.Text("home_net", "", "ADDRESS[/LENGTH][+…]",
                   "HOME_NET, whatever the files say; by default theirs, any");
  source.external_net = options.Text(
      "external_net", "", "ADDRESS[/LENGTH][+…]",
      "EXTERNAL_NET, likewise; !$HOME_NET is all outside of HOME_NET");
  static constexpr std::array<std::string_view, 2> kBad = {"refuse", "skip"};
  source.skips_bad =
      options.Choice("bad_rules", 0, kBad,
                     "fate of rules with an error; a rule that is right but "
                     "not supported is always left out, and told") == 1;
  source.cache = options.Text(
      "cache", "auto", "FOLDER|auto|off",
      "folder of compiled patterns; auto is $XDG_CACHE_HOME/snf, or "
      "~/.cache/snf");
  static constexpr std::array<std::string_view, 3> kActions = {"alert", "rule",
                                                               "drop"};
  action = static_cast<IdsAction>(options.Choice(
      "action", 0, kActions,
      "fate of packets with an alert: alert forwards all, rule drops packets "
      "of drop and reject rules, drop drops all"));
  static constexpr std::array<std::string_view, 3> kPolicies = {"alert", "pass",
                                                                "drop"};
  const auto policy = [&options](const char* key, IdsPolicy& value,
                                 const char* help) {
    value = static_cast<IdsPolicy>(options.Choice(key, 0, kPolicies, help));
  };
  policy("midstream", midstream,
         "TCP connections whose SYN was not seen: alert tells an anomaly and "
         "takes them as established, pass forwards them unseen, drop drops "
         "their packets");
  policy("on_gap", on_gap,
         "TCP connections of which a part is missing: alert tells an anomaly "
         "and inspects the bytes behind it, pass forwards the rest unseen, "
         "drop drops it");
  policy("on_memcap", on_memcap,
         "TCP connections with more bytes out of order than reorder: alert "
         "tells an anomaly and gives up the gap, pass forwards the rest "
         "unseen, drop drops it; likewise each fragment beyond fragments");
  for (const std::string& type : options.List(
           "events", "flow|http|anomaly|flowbits",
           "events in the log ids.events (--nf_logs), beside alerts in "
           "ids.alerts; flowbits are metadata of alerts and flows")) {
    bool IdsEventTypes::*const which =
        type == "flow"       ? &IdsEventTypes::flow
        : type == "http"     ? &IdsEventTypes::http
        : type == "anomaly"  ? &IdsEventTypes::anomaly
        : type == "flowbits" ? &IdsEventTypes::flowbits
                             : nullptr;
    if (which == nullptr) {
      options.Fail("events", "flow, http, anomaly or flowbits, joined by +");
    } else {
      events.*which = true;
    }
  }
  const auto number = [&options](const char* key, uint32_t& value, int64_t min,
                                 int64_t max, const char* help) {
    value = static_cast<uint32_t>(options.Integer(key, value, min, max, help));
  };
  number("window", window_bytes, 16, 8'192,
         "last bytes of each direction of a TCP connection that are kept to "
         "find patterns over the borders of packets");
  number("reorder", reorder_bytes, 8, 16'384,
         "bytes of each direction of a TCP connection that wait for earlier "
         "ones, with 8 bytes for each segment");
  number("fragments", fragment_bytes, 64, 16'384,
         "bytes of fragments that a flow holds until their packet is whole, "
         "with their headers and 16 bytes for each");
  number("max_body", max_body_bytes, 256, 1 << 20,
         "most bytes that come out of one HTTP body that is compressed or "
         "chunked");
  number("max_alerts", max_alerts, 0, 1 << 24,
         "most alerts of a run that are kept; further ones are counted. 0: all "
         "are counted only, and no table is shared");
  number("top", top, 0, 1'000, "most rules in the report, by alerts");
  number("max_steps", limits.steps, 100, 10'000'000,
         "most attempts to match one rule to one packet");
  number("max_pcre_steps", limits.regex_steps, 100, 10'000'000,
         "most steps of one search of one pcre");
  eve = options.Text("eve", "", "FILE, written",
                     "file to write alerts to, as EVE JSON lines");
  if (!eve.empty() && max_alerts == 0) {
    options.Fail("max_alerts", "above 0 with eve");
  }
  if (shared == nullptr) {
    options.Fail("rules", "at least one file");
    return;
  }
  std::string file;
  for (const char c : shared->files + "+") {
    if (c != '+') {
      file += c;
    } else if (!file.empty()) {
      source.rules.push_back(std::exchange(file, ""));
    }
  }
  if (shared->matcher == nullptr && shared->status.ok()) {
    auto loaded = LoadRules(source);
    shared->status = loaded.status();
    if (loaded.ok()) {
      shared->matcher =
          std::make_shared<const snort::RuleMatcher>(*std::move(loaded));
    }
  }
  matcher = shared->matcher;
  if (matcher == nullptr) {
    options.Fail("rules", "files without an error; " +
                              std::string(shared->status.message()));
  }
}

}  // namespace snf
