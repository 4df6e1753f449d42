// SPDX-License-Identifier: Apache-2.0
#include "platform/options/config_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <ranges>
#include <set>
#include <system_error>

#include "absl/strings/escaping.h"
#include "base/text/wording.h"
#include "platform/options/config.h"
#include "platform/options/config_message.h"
#include "traces/byte_sink.h"

namespace snf {
namespace {

namespace pb = google::protobuf;
using ParseLocation = pb::TextFormat::ParseLocation;

constexpr char kPort[] = "port";

// Returns the text of a value as a message shows it.
std::string Shown(const std::string& value) {
  constexpr size_t kMost = 60;
  std::string shown = Printable(value);
  if (shown.size() > kMost) shown = shown.substr(0, kMost) + "…";
  return shown;
}

std::string InQuotes(const std::string& text) {
  return fmt::format("\"{}\"", absl::Utf8SafeCEscape(text));
}

// Returns the offset of a place, whose column goes to the next multiple of 8 at
// each tab.
size_t OffsetOf(const std::string& text, ParseLocation place) {
  constexpr int kTabColumns = 8;
  size_t at = 0;
  for (int line = 0; line < place.line; ++line) at = text.find('\n', at) + 1;
  for (int column = 0; column < place.column; ++at) {
    column += text[at] == '\t' ? kTabColumns - column % kTabColumns : 1;
  }
  return at;
}

// Returns where the field `value: "…"` of the setting is in the text.
std::optional<pb::TextFormat::ParseLocationRange> ValueOf(
    const proto::Config& parsed, ConfigPlaces& places,
    const std::string& name) {
  const auto* const field =
      proto::Config::descriptor()->FindFieldByName("setting");
  for (int i = 0; i < parsed.setting_size(); ++i) {
    const auto* const tree = places.tree()->GetTreeForNested(field, i);
    if (parsed.setting(i).name() != name || tree == nullptr) continue;
    const auto range = tree->GetLocationRange(
        field->message_type()->FindFieldByName("value"), -1);
    if (range.start.line >= 0) return range;
  }
  return std::nullopt;
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

absl::StatusOr<std::string> WithSettings(
    std::string text, const std::string& file,
    const std::map<std::string, std::string>& values) {
  for (const auto& [name, value] : values) {
    ConfigPlaces places(file);
    proto::Config parsed;
    absl::Status status = ParseConfigMessage(text, places, parsed);
    if (!status.ok()) return status;
    const size_t first = text.find_first_not_of(" \t\r\n");
    if (first != text.npos && text[first] == '{') {
      return absl::InvalidArgumentError(fmt::format(
          "{}: is JSON; only protobuf's text format is changed", file));
    }
    if (const auto range = ValueOf(parsed, places, name)) {
      const size_t begin = OffsetOf(text, range->start);
      // The range may have a separator behind the last quote.
      const size_t end =
          text.find_last_of("\"'", OffsetOf(text, range->end) - 1) + 1;
      text.replace(begin, end - begin, "value: " + InQuotes(value));
      continue;
    }
    if (!text.empty() && text.back() != '\n') text += '\n';
    text += fmt::format("setting {{ name: {} value: {} }}\n", InQuotes(name),
                        InQuotes(value));
  }
  return text;
}

absl::Status SaveSettings(const std::string& file,
                          const std::map<std::string, std::string>& values) {
  auto text = ReadConfigFile(file);
  if (!text.ok()) return text.status();
  auto changed = WithSettings(*std::move(text), file, values);
  if (!changed.ok()) return changed.status();
  // A link stays one.
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(file, error);
  const auto permissions = std::filesystem::status(real, error).permissions();
  if (error) {
    return absl::NotFoundError(fmt::format("{}: {}", file, error.message()));
  }
  if (absl::Status s = WriteFile(real.string(), *changed); !s.ok()) return s;
  std::filesystem::permissions(real, permissions, error);
  return absl::OkStatus();
}

}  // namespace snf
