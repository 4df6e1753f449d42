// SPDX-License-Identifier: Apache-2.0
#include "platform/options/fault_flag.h"

#include <charconv>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "controller/core/options.h"
#include "fmt/format.h"
#include "platform/run/chaos_flag.h"

namespace snf {
namespace {

absl::Status Bad(std::string_view kill, const std::string& what) {
  return absl::InvalidArgumentError(fmt::format("\"{}\" {}", kill, what));
}

std::string Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return "";
  return std::string(
      text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

// Reads the number of a unit, or of a host.
absl::Status ParseUnit(const std::string& text, const std::string& word,
                       Kill& kill) {
  uint32_t number = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, number);
  if (error != std::errc() || rest != end || number >= kMaxUnits) {
    return Bad(text, fmt::format("names {} \"{}\"; want a number from 0 to "
                                 "{}",
                                 kill.is_of_host() ? "host" : "unit", word,
                                 kMaxUnits - 1));
  }
  if (kill.is_of_host()) {
    kill.host = static_cast<int>(number);
  } else {
    kill.unit = UnitId{static_cast<uint16_t>(number)};
  }
  return absl::OkStatus();
}

absl::Status ParseController(const std::string& text, const std::string& word,
                             int& controller) {
  constexpr int kMost = 255;  // an id has 8 bits
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, controller);
  if (error != std::errc() || rest != end || controller < 0 ||
      controller > kMost) {
    return Bad(text, fmt::format("names controller \"{}\"; want a number from "
                                 "0 to {}",
                                 word, kMost));
  }
  return absl::OkStatus();
}

absl::StatusOr<Nanos> ParseTime(const std::string& text,
                                const std::string& word) {
  const absl::StatusOr<Nanos> time = ParseDuration(word);
  if (!time.ok()) {
    return Bad(text, "has a bad time: " + std::string(time.status().message()));
  }
  if (time->ns < 0) return Bad(text, "has a time below 0");
  return *time;
}

absl::Status ParseChance(const std::string& text, const std::string& word,
                         Kill& kill) {
  const std::optional<Share> share = ShareOf(word);
  if (!share.has_value()) {
    return Bad(text, fmt::format("has p=\"{}\", which is not a probability "
                                 "from 0 to 1",
                                 word));
  }
  if (share->vanished) {
    return Bad(text, fmt::format("has p=\"{}\", which is less than can be told "
                                 "from 0; least is 0.00001",
                                 word));
  }
  kill.chance_65536 = share->of_65536;
  return absl::OkStatus();
}

// Says who dies, by the words behind "kill" and in front of a unit's number.
struct Victim {
  std::string_view words;
  Kill::Victim victim;
  bool any;
};
constexpr Victim kVictims[] = {
    {"unit", Kill::Victim::kUnit, false},
    {"any unit", Kill::Victim::kUnit, true},
    {"host", Kill::Victim::kHost, false},
    {"any host", Kill::Victim::kHost, true},
    {"logger", Kill::Victim::kLoggerHost, false},
    {"any logger", Kill::Victim::kLoggerHost, true},
    {"process of logger", Kill::Victim::kLoggerProcess, false},
    {"process of any logger", Kill::Victim::kLoggerProcess, true},
    {"controller", Kill::Victim::kController, true},
    {"resource_manager", Kill::Victim::kManager, true},
    {"any", Kill::Victim::kUnit, true},  // behind those that begin so
};

// Returns null if nobody is named so. Sets `at` to the word behind.
const Victim* FindVictim(const std::vector<std::string>& words, size_t& at) {
  for (const Victim& victim : kVictims) {
    std::string name;
    at = 1;
    while (at < words.size() && name.size() < victim.words.size()) {
      name += (name.empty() ? "" : " ") + words[at++];
    }
    if (name == victim.words) return &victim;
  }
  return nullptr;
}

constexpr const char* kWant =
    "is no fault; want for example \"kill unit 3 at 1.2s\", \"kill any "
    "logger p=0.001\" or \"kill controller at 2s\"";

// "add controller at 3s", "remove controller [1] at 4s"
absl::StatusOr<MemberChange> ParseChange(
    const std::string& text, const std::vector<std::string>& words) {
  MemberChange change = {.joins = words[0] == "add"};
  const size_t most = change.joins ? 4 : 5;
  if (words.size() < 4 || words.size() > most || words[1] != "controller" ||
      words[words.size() - 2] != "at") {
    return Bad(text, kWant);
  }
  if (words.size() == 5) {
    absl::Status s = ParseController(text, words[2], change.controller);
    if (!s.ok()) return s;
  }
  const absl::StatusOr<Nanos> time = ParseTime(text, words.back());
  if (!time.ok()) return time.status();
  change.at = *time;
  return change;
}

absl::StatusOr<Kill> ParseKill(const std::string& text,
                               const std::vector<std::string>& words) {
  size_t at = 0;
  const Victim* const victim = FindVictim(words, at);
  if (words.size() < 3 || words[0] != "kill" || victim == nullptr) {
    return Bad(text, kWant);
  }
  Kill kill = {.victim = victim->victim};
  if (!victim->any) {
    if (at == words.size()) return Bad(text, kWant);
    if (absl::Status s = ParseUnit(text, words[at++], kill); !s.ok()) return s;
  }
  if (kill.is_of_controller() && at < words.size() && words[at] != "at" &&
      !words[at].starts_with("p=")) {
    absl::Status s = ParseController(text, words[at++], kill.controller);
    if (!s.ok()) return s;
  }
  if (words.size() == at + 2 && words[at] == "at") {
    const absl::StatusOr<Nanos> time = ParseTime(text, words[at + 1]);
    if (!time.ok()) return time.status();
    kill.at = *time;
    return kill;
  }
  if (words.size() != at + 1 || !words[at].starts_with("p=")) {
    return Bad(text, kWant);
  }
  if (absl::Status s = ParseChance(text, words[at].substr(2), kill); !s.ok()) {
    return s;
  }
  return kill;
}

}  // namespace

absl::StatusOr<FaultOptions> ParseFaults(const std::string& text) {
  FaultOptions faults;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(';', begin), text.size());
    const std::string one = Trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    if (faults.kills.size() + faults.changes.size() == kMaxKills) {
      return Bad(one, fmt::format("is more than the {} faults that can be",
                                  kMaxKills));
    }
    std::istringstream in(one);
    std::vector<std::string> words;
    for (std::string word; in >> word;) words.push_back(word);
    if (!words.empty() && (words[0] == "add" || words[0] == "remove")) {
      const absl::StatusOr<MemberChange> change = ParseChange(one, words);
      if (!change.ok()) return change.status();
      faults.changes.push_back(*change);
      continue;
    }
    const absl::StatusOr<Kill> kill = ParseKill(one, words);
    if (!kill.ok()) return kill.status();
    faults.kills.push_back(*kill);
  }
  return faults;
}

std::string FormatFaults(const FaultOptions& faults) {
  std::string text;
  for (const Kill& kill : faults.kills) {
    text += text.empty() ? "kill " : "; kill ";
    const bool any = kill.unit == kNoUnit && kill.host < 0;
    // The last that means the same is the shortest.
    std::string_view words;
    for (const Victim& each : kVictims) {
      if (each.victim == kill.victim && each.any == any) words = each.words;
    }
    text += words;
    if (kill.unit != kNoUnit) text += fmt::format(" {}", value(kill.unit));
    if (kill.host >= 0) text += fmt::format(" {}", kill.host);
    if (kill.controller >= 0) text += fmt::format(" {}", kill.controller);
    text += kill.at.ns < 0 ? " p=" + FormatShare(kill.chance_65536)
                           : " at " + FormatPlainDuration(kill.at);
  }
  for (const MemberChange& change : faults.changes) {
    if (!text.empty()) text += "; ";
    text += change.joins ? "add controller" : "remove controller";
    if (change.controller >= 0) text += fmt::format(" {}", change.controller);
    text += " at " + FormatPlainDuration(change.at);
  }
  return text;
}

}  // namespace snf
