// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/live_settings.h"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/text/wording.h"
#include "platform/options/run_flags.h"

namespace snf {
namespace {

constexpr char kLogLevel[] = "log_level";

absl::Status Refuse(const std::string& text) {
  return absl::InvalidArgumentError(text);
}

absl::Status CheckNames(const LiveSettings::Values& values,
                        const FlagSet& flags) {
  for (const auto& [name, value] : values) {
    if (name == kLogLevel) continue;
    const FlagSet::Traits* const flag = flags.Find(name);
    if (flag == nullptr) {
      return Refuse(
          fmt::format("there is no setting \"{}\"; snf set without any lists "
                      "them",
                      Printable(name)));
    }
    if (!LiveSettings::MayChange(name, flags)) {
      return Refuse(fmt::format("{} cannot change while it runs", name));
    }
  }
  return absl::OkStatus();
}

// Returns the file's name as it is in any working folder; "" of "".
std::string AbsoluteOf(const std::string& file) {
  std::error_code error;
  const auto path = std::filesystem::absolute(file, error);
  return error ? file : path.string();
}

// Memory is allocated once, for as many as the run was started with.
absl::Status CheckMost(std::string_view name, uint32_t wanted, uint32_t built) {
  if (wanted <= built) return absl::OkStatus();
  return Refuse(
      fmt::format("{}={}: it was started with {}, and can have no "
                  "more",
                  name, wanted, built));
}

LiveSettings::Tuning TuningOf(const RunRequest& options) {
  if (options.has_one_chain()) return {{"", options.run.controller}};
  LiveSettings::Tuning tuning;
  for (const Config::Chain& chain : options.config.chains) {
    tuning[chain.name] = OptionsOf(chain, options.run).controller;
  }
  return tuning;
}

}  // namespace

bool LiveSettings::MayChange(const std::string& name, const FlagSet& flags) {
  return name == kLogLevel || flags.Find(name)->may_change;
}

LiveSettings::LiveSettings(const RunRequest& options, LogLevel log_level)
    : given_(options.given),
      unchanged_(options.given),
      present_(options.changeable),
      arguments_(options.arguments),
      config_file_(AbsoluteOf(options.config_file)),
      config_text_(options.config_text),
      first_level_(Name(log_level)),
      began_(TuningOf(options)),
      steering_(options.steering),
      has_own_ports_(options.has_own_ports) {
  for (const PortSpec& port : options.ports) {
    ports_.push_back("--port=" + port.text());
  }
  present_[kLogLevel] = Name(log_level);
  for (const Config::Chain& chain : options.config.chains) {
    const std::string name = options.has_one_chain() ? "" : chain.name;
    files_[name] = FileVersionsOf(chain.nf);
  }
}

std::vector<std::string> LiveSettings::CommandLine(const Values& values) const {
  std::vector<std::string> words = ports_;
  if (!config_file_.empty()) words.push_back("--config=" + config_file_);
  Values all = values;
  all.insert(given_.begin(), given_.end());
  all.erase(kLogLevel);
  for (const auto& [name, value] : all) {
    words.push_back(fmt::format("--{}={}", name, value));
  }
  return words;
}

absl::Status LiveSettings::Settle(
    const Values& values, const std::map<std::string, std::string>& chains,
    FlagSet& flags, RunFlags& run_flags) const {
  const auto parsed = flags.ParseCommandLine(CommandLine(values));
  if (!parsed.ok()) return parsed.status();
  run_flags.TellNoNotes();
  run_flags.UseConfig(config_text_);
  run_flags.HaveOwnPorts(has_own_ports_);
  for (const auto& [name, text] : chains) run_flags.ReplaceChain(name, text);
  return run_flags.Settle();
}

const FileVersions& LiveSettings::files(const std::string& chain) const {
  const auto found = files_.find(chain);
  SNF_CHECK(found != files_.end());
  return found->second;
}

absl::StatusOr<LiveSettings::Tuning> LiveSettings::Check(
    const Values& values) const {
  FlagSet flags;
  RunFlags run_flags(flags, RunFlags::Input::kPorts);
  if (absl::Status s = CheckNames(values, flags); !s.ok()) return s;
  if (const auto level = values.find(kLogLevel); level != values.end()) {
    LogLevel parsed;
    if (!ParseLogLevel(level->second, parsed)) {
      return Refuse(
          fmt::format("log_level={}: want debug, info, warning or error",
                      Printable(level->second)));
    }
  }
  if (began_.begin()->second.leased && values.contains("max_units")) {
    return Refuse("max_units: the resource manager has the units");
  }
  if (absl::Status s = Settle(values, chains_, flags, run_flags); !s.ok()) {
    return s;
  }
  const Tuning tuning = TuningOf(run_flags.options());
  absl::Status status;
  for (const auto& [name, options] : tuning) {
    const auto began = began_.find(name);
    SNF_CHECK(began != began_.end());
    status.Update(
        CheckMost("max_units", options.max_units, began->second.max_units));
    if (!values.contains("replicas")) continue;
    status.Update(
        CheckMost("replicas", options.replicas, began->second.replicas));
  }
  if (!status.ok()) return status;
  return tuning;
}

absl::StatusOr<RunRequest> LiveSettings::OptionsWith(
    const std::map<std::string, std::string>& chains) const {
  FlagSet flags;
  RunFlags run_flags(flags, RunFlags::Input::kPorts);
  if (absl::Status s = Settle({}, chains, flags, run_flags); !s.ok()) return s;
  const auto& steering = run_flags.options().steering;
  if (steering_ != nullptr && *steering != *steering_) {
    return Refuse(
        "the chain has other external addresses or ports, by which those who "
        "share the ports tell whose a packet is; start them anew");
  }
  return run_flags.options();
}

void LiveSettings::AcceptConfig(std::string file, std::string text,
                                Values flags,
                                std::map<std::string, std::string> chains) {
  chains_ = std::move(chains);
  given_ = flags;
  unchanged_ = std::move(flags);
  first_level_ = present_[kLogLevel];
  config_file_ = std::move(file);
  config_text_ = std::move(text);
}

LiveSettings::Values LiveSettings::changed() const {
  Values changed;
  for (const auto& [name, value] : given_) {
    const auto before = unchanged_.find(name);
    const bool is_same = before != unchanged_.end() && before->second == value;
    if (present_.contains(name) && !is_same) changed[name] = value;
  }
  const std::string& level = present_.at(kLogLevel);
  if (level != first_level_) changed[kLogLevel] = level;
  return changed;
}

void LiveSettings::Accept(const Values& values) {
  for (const auto& [name, value] : values) {
    present_[name] = value;
    LogLevel level;
    if (name == kLogLevel && ParseLogLevel(value, level)) {
      SetLogLevel(level);
    } else {
      given_[name] = value;
    }
  }
}

}  // namespace snf
