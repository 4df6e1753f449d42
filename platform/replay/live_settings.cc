// SPDX-License-Identifier: Apache-2.0
#include "platform/replay/live_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "platform/process/flags.h"
#include "platform/replay/replay_flags.h"
#include "platform/text/wording.h"

namespace snf {
namespace {

constexpr std::string_view kLogLevel = "log_level";

// Controller::Tune takes them over.
constexpr std::array<std::string_view, 14> kChangeable = {
    "alpha",         "demand_floor",     "evict_after",     "ewma_delta",
    "flow_timeout",  "flowlet_bytes",    "flowlet_timeout", "keep_warm",
    "max_units",     "push_delay",       "reassign_period", "replicas",
    "start_timeout", "unit_idle_timeout"};

bool IsChangeable(std::string_view name) {
  return std::ranges::find(kChangeable, name) != kChangeable.end();
}

// These say how the run is kept, and are no flags of the run itself, but for
// ports, which are named one by one.
bool IsOfDaemon(std::string_view name) {
  constexpr std::array<std::string_view, 11> kOfDaemon = {
      "control", "foreground", "keep", "log",     "log_json", "log_level",
      "name",    "port",       "tls",  "upgrade", "within"};
  return std::ranges::find(kOfDaemon, name) != kOfDaemon.end();
}

bool HasFlag(const FlagSet& flags, std::string_view name) {
  const auto all = flags.values();
  return std::ranges::any_of(
      all, [name](const auto& flag) { return flag.first == name; });
}

absl::Status Refuse(const std::string& text) {
  return absl::InvalidArgumentError(text);
}

absl::Status CheckNames(const ControlSettings::Values& values,
                        const FlagSet& flags) {
  for (const auto& [name, value] : values) {
    if (IsChangeable(name) || name == kLogLevel) continue;
    const bool is_flag = HasFlag(flags, name);
    return Refuse(is_flag ? fmt::format("{} cannot change while it runs", name)
                          : fmt::format("there is no setting \"{}\"; snf set "
                                        "without any lists them",
                                        Printable(name)));
  }
  return absl::OkStatus();
}

// What was built for so many cannot become more.
absl::Status CheckMost(std::string_view name, uint32_t wanted, uint32_t built) {
  if (wanted <= built) return absl::OkStatus();
  return Refuse(
      fmt::format("{}={}: it was started with {}, and can have no "
                  "more",
                  name, wanted, built));
}

}  // namespace

LiveSettings::LiveSettings(const ReplayOptions& options, LogLevel log_level)
    : began_(options.run.controller),
      steering_(options.ports.front().steering) {
  for (const PortSpec& port : options.ports) {
    ports_.push_back("--port=" + port.text());
  }
  for (const RunInfo::Flag& flag : options.flags) {
    if (flag.repeat && !IsOfDaemon(flag.name)) given_[flag.name] = flag.value;
    if (IsChangeable(flag.name)) list_.emplace_back(flag.name, flag.value);
  }
  list_.emplace_back(kLogLevel, Name(log_level));
  std::ranges::sort(list_);
}

std::vector<std::pair<std::string, std::string>> LiveSettings::List() const {
  return list_;
}

std::vector<std::string> LiveSettings::CommandLine(const Values& values) const {
  std::vector<std::string> words = ports_;
  Values all = values;
  all.insert(given_.begin(), given_.end());
  all.erase(std::string(kLogLevel));
  for (const auto& [name, value] : all) {
    words.push_back(fmt::format("--{}={}", name, value));
  }
  return words;
}

absl::StatusOr<ControllerOptions> LiveSettings::Check(
    const Values& values) const {
  FlagSet flags;
  ReplayFlags run_flags(flags, ReplayFlags::Input::kPorts);
  if (absl::Status s = CheckNames(values, flags); !s.ok()) return s;
  if (const auto level = values.find(std::string(kLogLevel));
      level != values.end()) {
    LogLevel parsed;
    if (!ParseLogLevel(level->second, parsed)) {
      return Refuse(
          fmt::format("log_level={}: want debug, info, warning or error",
                      Printable(level->second)));
    }
  }
  const auto parsed = flags.ParseCommandLine(CommandLine(values));
  if (!parsed.ok()) return parsed.status();
  for (const auto& [name, text] : chains_) run_flags.ReplaceChain(name, text);
  if (absl::Status s = run_flags.Settle(); !s.ok()) return s;
  const ControllerOptions& options = run_flags.options().run.controller;
  absl::Status status =
      CheckMost("max_units", options.max_units, began_.max_units);
  if (values.contains("replicas")) {
    status.Update(CheckMost("replicas", options.replicas, began_.replicas));
  }
  if (!status.ok()) return status;
  return options;
}

absl::StatusOr<ReplayOptions> LiveSettings::OptionsWith(
    const std::map<std::string, std::string>& chains) const {
  FlagSet flags;
  ReplayFlags run_flags(flags, ReplayFlags::Input::kPorts);
  const auto parsed = flags.ParseCommandLine(CommandLine());
  if (!parsed.ok()) return parsed.status();
  for (const auto& [name, text] : chains) run_flags.ReplaceChain(name, text);
  if (absl::Status s = run_flags.Settle(); !s.ok()) return s;
  const auto& steering = run_flags.options().ports.front().steering;
  if (steering_ != nullptr && *steering != *steering_) {
    return Refuse(
        "the chain has other external addresses or ports, by which those who "
        "share the ports tell whose a packet is; start them anew");
  }
  return run_flags.options();
}

void LiveSettings::Accept(const Values& values) {
  for (const auto& [name, value] : values) {
    const auto setting = std::ranges::find(
        list_, name, [](const auto& one) -> const auto& { return one.first; });
    setting->second = value;
    LogLevel level;
    if (name == kLogLevel && ParseLogLevel(value, level)) {
      SetLogLevel(level);
    } else {
      given_[name] = value;
    }
  }
}

}  // namespace snf
