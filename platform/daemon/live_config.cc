// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/live_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "base/quantity.h"
#include "base/text/wording.h"
#include "platform/modules/file_versions.h"
#include "platform/options/config.h"
#include "platform/service/daemon_log.h"

namespace snf {
namespace {

constexpr char kAtStart[] = "it is read at the start";
constexpr char kRules[] = "rules";
// A single chain, and one of several.
constexpr char kChain[] = "chain";
constexpr char kNamedChain[] = "chain \"";
constexpr char kFile[] = "file ";  // that NFs of a chain read

std::string NameOf(const Config::Chain& chain, bool is_single) {
  return is_single ? kChain : fmt::format("{}{}\"", kNamedChain, chain.name);
}

bool IsSetting(const proto::ConfigChange& change) {
  const std::string& name = change.name();
  return name != kRules && name != kChain && !name.starts_with(kNamedChain) &&
         !name.starts_with(kFile);
}

std::string ListOf(const std::vector<Config::Chain>& chains) {
  std::string list;
  for (const Config::Chain& chain : chains) {
    list += (list.empty() ? "" : ", ") + chain.name;
  }
  return list;
}

void AddChange(const std::string& name, const std::string& before,
               const std::string& after, const std::string& why_not,
               proto::SetReply& reply) {
  if (before == after) return;
  proto::ConfigChange& change = *reply.add_change();
  change.set_name(name);
  change.set_before(before);
  change.set_after(after);
  change.set_why_not(why_not);
}

// Returns the sizes that a chain has from its own lines in the file.
std::string SizesOf(const Config::Chain& chain) {
  std::string text;
  if (chain.max_units.has_value()) {
    text += fmt::format("max_units {}", *chain.max_units);
  }
  if (chain.unit_capacity_bps.has_value()) {
    text +=
        fmt::format("{}unit_capacity {}", text.empty() ? "" : ", ",
                    FormatBitRate(*chain.unit_capacity_bps, Precision::kExact));
  }
  return text;
}

// Returns the settings among the changes that can be made.
LiveSettings::Values ValuesOf(const proto::SetReply& plan) {
  LiveSettings::Values values;
  for (const proto::ConfigChange& change : plan.change()) {
    if (change.why_not().empty() && IsSetting(change)) {
      values[change.name()] = change.after();
    }
  }
  return values;
}

// Returns an error that names each change that cannot be made; OK if all can.
absl::Status CheckAllCan(const std::string& file, const proto::SetReply& plan) {
  std::string text;
  for (const proto::ConfigChange& change : plan.change()) {
    if (change.why_not().empty()) continue;
    text +=
        fmt::format("{}{} from \"{}\" to \"{}\" ({})", text.empty() ? "" : "; ",
                    change.name(), Printable(change.before()),
                    Printable(change.after()), Printable(change.why_not()));
  }
  if (text.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{}: nothing has changed; this wants a restart: {}",
                  Printable(file), text));
}

}  // namespace

absl::Status LiveConfig::SettlePresent(PlannedDaemon& present) const {
  PlannedDaemon::Input input = {.command_line = settings_.arguments(),
                                .file = settings_.config_file(),
                                .set = settings_.changed(),
                                .chains = settings_.chains()};
  if (!input.file.empty()) input.text = settings_.config_text();
  present.TellNoNotes();
  absl::Status status = present.Parse(input);
  return status.ok() ? present.Settle() : status;
}

absl::StatusOr<std::string> LiveConfig::Text() const {
  PlannedDaemon present;
  if (absl::Status s = SettlePresent(present); !s.ok()) return s;
  return present.Text();
}

std::vector<proto::ConfigChange> LiveConfig::ChangedFilesOf(
    const Config::Chain& wanted) const {
  const FileVersions& before =
      settings_.files(chains_.has_rules() ? wanted.name : "");
  std::vector<proto::ConfigChange> changes;
  for (const auto& [file, version] : FileVersionsOf(wanted.nf)) {
    // The text of the chain names files that are new in it.
    const auto known = before.find(file);
    if (known == before.end() || known->second == version) continue;
    proto::ConfigChange& change = changes.emplace_back();
    change.set_name(kFile + file);
    change.set_before(known->second);
    change.set_after(version);
  }
  return changes;
}

// Chains are told apart by their names; a single one is the same by any name.
void LiveConfig::CompareChains(const RunRequest& present,
                               const RunRequest& wanted,
                               proto::SetReply& reply) const {
  const std::vector<Config::Chain>& before = present.config.chains;
  const std::vector<Config::Chain>& after = wanted.config.chains;
  const bool is_single = present.has_one_chain() && wanted.has_one_chain();
  const bool are_same =
      is_single || (present.has_one_chain() == wanted.has_one_chain() &&
                    std::ranges::equal(before, after, {}, &Config::Chain::name,
                                       &Config::Chain::name));
  if (!are_same) {
    AddChange("chains", ListOf(before), ListOf(after), kAtStart, reply);
    return;
  }
  const std::string why_not(chains_.CheckAnother().message());
  for (size_t i = 0; i < before.size(); ++i) {
    const std::string name = NameOf(after[i], is_single);
    AddChange("sizes of the " + name, SizesOf(before[i]), SizesOf(after[i]),
              kAtStart, reply);
    AddChange(name, before[i].nf.text(), after[i].nf.text(), why_not, reply);
    for (const proto::ConfigChange& file : ChangedFilesOf(after[i])) {
      AddChange(fmt::format("{} of the {}", file.name(), name), file.before(),
                file.after(), why_not, reply);
    }
  }
}

absl::Status LiveConfig::SetChains(const PlannedDaemon& present,
                                   const PlannedDaemon& wanted,
                                   Mailbox& mailbox,
                                   Mailbox::Deadline deadline) {
  const std::vector<Config::Chain>& before = present.options().config.chains;
  const std::vector<Config::Chain>& after = wanted.options().config.chains;
  const auto set = [&](const Config::Chain& chain) {
    proto::ChainReply reply;
    return chains_.SetTried(mailbox, deadline,
                            chains_.has_rules() ? chain.name : "",
                            chain.nf.text(), reply);
  };
  const auto has_text = [&](size_t i) {
    return before[i].nf.text() != after[i].nf.text();
  };
  std::string files;  // of the chains that are set
  absl::Status status;
  size_t done = 0;
  for (; done < after.size(); ++done) {
    const auto changed = ChangedFilesOf(after[done]);
    if (has_text(done) || !changed.empty()) status = set(after[done]);
    if (!status.ok()) break;
    for (const proto::ConfigChange& file : changed) {
      files += (files.empty() ? "" : ", ") + file.name();
    }
  }
  if (status.ok() && present.rules() != wanted.rules()) {
    status = chains_.SetRules(mailbox, deadline, wanted.options());
  }
  if (status.ok()) return status;
  for (size_t i = 0; i < done; ++i) {
    if (has_text(i)) set(before[i]).IgnoreError();
  }
  if (files.empty()) return status;
  // The earlier content is gone.
  return absl::Status(status.code(),
                      fmt::format("{}; but in force is the new content of {}",
                                  std::string(status.message()), files));
}

absl::Status LiveConfig::Compare(const PlannedDaemon& present,
                                 const PlannedDaemon& wanted,
                                 proto::SetReply& reply) const {
  AddChange("port", present.ports(), wanted.ports(), kAtStart, reply);
  const auto before = present.settings();
  const auto after = wanted.settings();
  std::map<std::string, std::string> values(before.begin(), before.end());
  for (const auto& [name, value] : after) {
    AddChange(name, values[name], value,
              wanted.may_change(name) ? "" : kAtStart, reply);
    values.erase(name);
  }
  for (const auto& [name, value] : values) {
    AddChange(name, value, "", kAtStart, reply);
  }
  CompareChains(present.options(), wanted.options(), reply);
  const bool has_rules =
      !present.rules().empty() && present.rules() != wanted.rules();
  if (has_rules || !wanted.rules().empty()) {
    AddChange(kRules, present.rules(), wanted.rules(),
              has_rules && !wanted.rules().empty() ? "" : kAtStart, reply);
  }
  const auto can = settings_.Check(ValuesOf(reply));
  if (can.ok()) return absl::OkStatus();
  // One of the values alone, such as more units than there is memory for.
  const std::string why(can.status().message());
  for (proto::ConfigChange& change : *reply.mutable_change()) {
    if (!why.starts_with(change.name() + "=")) continue;
    change.set_why_not(why.substr(why.find(": ") + 2));
    return absl::OkStatus();
  }
  return can.status();
}

absl::Status LiveConfig::Change(const PlannedDaemon& present,
                                const PlannedDaemon& wanted, Mailbox& mailbox,
                                Mailbox::Deadline deadline,
                                const SetValues& set,
                                const proto::SetReply& plan) {
  const LiveSettings::Values values = ValuesOf(plan);
  LiveSettings::Values earlier;
  for (const auto& [name, value] : settings_.List()) {
    if (values.contains(name)) earlier[name] = value;
  }
  if (!values.empty()) {
    if (absl::Status s = set(values); !s.ok()) return s;
  }
  const absl::Status status = SetChains(present, wanted, mailbox, deadline);
  if (status.ok() || values.empty()) return status;
  const absl::Status undone = set(earlier);
  if (undone.ok()) return status;
  return absl::Status(status.code(),
                      fmt::format("{}; settings could not be set back: {}",
                                  std::string(status.message()),
                                  std::string(undone.message())));
}

absl::Status LiveConfig::Take(const proto::SetRequest& request,
                              Mailbox& mailbox, Mailbox::Deadline deadline,
                              const SetValues& set, proto::SetReply& reply) {
  const std::string& file = request.config_file();
  // A pipe might never have anything to read.
  std::error_code error;
  if (std::filesystem::exists(file, error) &&
      !std::filesystem::is_regular_file(file, error)) {
    return absl::DataLossError(
        fmt::format("{}: is no regular file", Printable(file)));
  }
  const auto text = ReadConfigFile(file);
  if (!text.ok()) return text.status();
  PlannedDaemon wanted;
  wanted.TellNoNotes();
  absl::Status status = wanted.Parse(
      {.command_line = settings_.arguments(), .file = file, .text = *text});
  if (status.ok()) status = chains_.TryConfig(file, *text);
  // From here on NFs are known not to crash where they are made.
  if (status.ok()) status = wanted.Settle();
  PlannedDaemon present;
  if (status.ok()) status = SettlePresent(present);
  if (status.ok()) status = Compare(present, wanted, reply);
  if (!status.ok() || request.only_plan()) return status;
  if (absl::Status s = CheckAllCan(file, reply); !s.ok()) return s;
  status = Change(present, wanted, mailbox, deadline, set, reply);
  if (!status.ok()) {
    return absl::Status(
        status.code(),
        fmt::format("{}: nothing has changed: {}", Printable(file),
                    std::string(status.message())));
  }
  std::map<std::string, std::string> texts;
  for (const Config::Chain& chain : wanted.options().config.chains) {
    texts[chains_.has_rules() ? chain.name : ""] = chain.nf.text();
  }
  settings_.AcceptConfig(file, *text, wanted.options().given, std::move(texts));
  chains_.BeginFrom(wanted.options().given);
  LogLine(LogLevel::kInfo,
          fmt::format("took {}: {}", Printable(file),
                      reply.change().empty()
                          ? "nothing in it has changed"
                          : Plural(static_cast<uint64_t>(reply.change_size()),
                                   "change")));
  for (const std::string& note : wanted.options().config.notes) {
    LogLine(LogLevel::kWarning, note);
  }
  return absl::OkStatus();
}

}  // namespace snf
