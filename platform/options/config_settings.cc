// SPDX-License-Identifier: Apache-2.0
#include "platform/options/config_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <set>

#include "base/text/wording.h"
#include "platform/options/config_message.h"

namespace snf {
namespace {

constexpr char kPort[] = "port";

// Returns the text of a value as a message shows it.
std::string Shown(const std::string& value) {
  constexpr size_t kMost = 60;
  std::string shown = Printable(value);
  if (shown.size() > kMost) shown = shown.substr(0, kMost) + "…";
  return shown;
}

}  // namespace

absl::StatusOr<ConfigSettings> ConfigSettings::Parse(const std::string& text,
                                                     const std::string& file) {
  ConfigPlaces places(file);
  proto::Config parsed;
  if (absl::Status s = ParseConfigMessage(text, places, parsed); !s.ok()) {
    return s;
  }
  ConfigSettings settings;
  settings.file_ = file;
  for (int i = 0; i < parsed.port_size(); ++i) {
    settings.entries_.push_back({.flag = kPort,
                                 .value = parsed.port(i),
                                 .place = places.Of(kPort, i),
                                 .is_port = true});
  }
  for (int i = 0; i < parsed.setting_size(); ++i) {
    const proto::FlagValue& setting = parsed.setting(i);
    const char* const field = setting.value().empty() ? "name" : "value";
    settings.entries_.push_back({.flag = setting.name(),
                                 .value = setting.value(),
                                 .place = places.Of("setting", i, field)});
  }
  return settings;
}

std::string ConfigSettings::WhatIsWrong(const Entry& entry,
                                        const FlagSet& flags) const {
  const FlagSet::Traits* const traits = flags.Find(entry.flag);
  if (traits == nullptr) {
    return fmt::format("there is no setting \"{}\"", Shown(entry.flag));
  }
  if (traits->is_of_command) {
    return fmt::format("{} is for the command line, not for a file",
                       entry.flag);
  }
  if (traits->is_repeated != entry.is_port) {
    return fmt::format("{} has a field of its own", entry.flag);
  }
  const auto first = std::ranges::find(entries_, entry.flag, &Entry::flag);
  if (&*first != &entry && !traits->is_repeated) {
    return fmt::format("{} is there twice, first at {}", entry.flag,
                       first->place);
  }
  return "";
}

std::vector<std::string> ConfigSettings::GiveTo(FlagSet& flags) {
  std::vector<std::string> wrong;
  std::set<std::string, std::less<>> on_command_line;
  for (const Entry& entry : entries_) {
    if (flags.given(entry.flag)) on_command_line.insert(entry.flag);
  }
  for (Entry& entry : entries_) {
    std::string what = WhatIsWrong(entry, flags);
    if (what.empty() && on_command_line.contains(entry.flag)) continue;
    if (what.empty()) {
      const absl::Status given = flags.TryGive(entry.flag, entry.value);
      if (!given.ok()) {
        what = fmt::format("{}: {}", entry.flag, std::string(given.message()));
      }
    }
    if (!what.empty()) wrong.push_back(entry.place + ": " + what);
    entry.is_given = what.empty();
  }
  for (const std::string& flag : on_command_line) {
    const std::string printed = flags.Printed(flag);
    std::string in_file;
    std::string place;
    for (const Entry& entry : entries_) {
      if (entry.flag != flag) continue;
      if (place.empty()) place = entry.place;
      in_file += (in_file.empty() ? "" : ",") + entry.value;
    }
    if (printed == fmt::format("--{}={}", flag, in_file)) continue;
    overridden_.push_back(fmt::format("{} instead of \"{}\" at {}",
                                      Shown(printed), Shown(in_file), place));
  }
  return wrong;
}

bool ConfigSettings::gave(std::string_view flag) const {
  return std::ranges::any_of(entries_, [flag](const Entry& entry) {
    return entry.is_given && entry.flag == flag;
  });
}

std::string ConfigSettings::Placed(std::string_view error) const {
  const size_t end = error.find_first_of("=: ");
  if (!error.starts_with("--") || end == error.npos) return std::string(error);
  const std::string_view flag = error.substr(2, end - 2);
  // In an error of a port, its interface follows.
  std::string_view subject = error.substr(std::min(end + 2, error.size()));
  subject = subject.substr(0, subject.find(' '));
  const Entry* found = nullptr;
  for (const Entry& entry : std::views::reverse(entries_)) {
    if (!entry.is_given || entry.flag != flag) continue;
    if (found == nullptr) found = &entry;
    if (flag != kPort) break;
    if (entry.value.ends_with("=" + std::string(subject)) ||
        entry.value.ends_with(":" + std::string(subject))) {
      found = &entry;
      break;
    }
  }
  return found == nullptr ? std::string(error)
                          : fmt::format("{}: {}", found->place, error);
}

}  // namespace snf
