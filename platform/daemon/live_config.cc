// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/live_config.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <system_error>

#include "base/quantity.h"
#include "base/text/wording.h"
#include "platform/options/config.h"
#include "platform/service/daemon_log.h"

namespace snf {
namespace {

constexpr char kChain[] = "chain";

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
    if (change.why_not().empty() && change.name() != kChain) {
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
  absl::Status status = present.Parse(input);
  return status.ok() ? present.Settle() : status;
}

absl::StatusOr<std::string> LiveConfig::Text() const {
  PlannedDaemon present;
  if (absl::Status s = SettlePresent(present); !s.ok()) return s;
  return present.Text();
}

absl::Status LiveConfig::Compare(const PlannedDaemon& present,
                                 const PlannedDaemon& wanted,
                                 proto::SetReply& reply) const {
  constexpr char kAtStart[] = "it is read at the start";
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
  AddChange("rules", present.rules(), wanted.rules(), kAtStart, reply);
  AddChange("the chain's sizes", SizesOf(present.chain()),
            SizesOf(wanted.chain()), kAtStart, reply);
  AddChange(kChain, present.chain().nf.text(), wanted.chain().nf.text(),
            std::string(chains_.CheckAnother(wanted.options()).message()),
            reply);
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

absl::Status LiveConfig::Change(const PlannedDaemon& wanted, Mailbox& mailbox,
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
  absl::Status status;
  for (const proto::ConfigChange& change : plan.change()) {
    if (change.name() != kChain) continue;
    proto::ChainReply reply;
    status =
        chains_.SetTried(mailbox, deadline, wanted.chain().nf.text(), reply);
  }
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
  status = Change(wanted, mailbox, deadline, set, reply);
  if (!status.ok()) {
    return absl::Status(
        status.code(),
        fmt::format("{}: nothing has changed: {}", Printable(file),
                    std::string(status.message())));
  }
  settings_.AcceptConfig(file, *text, wanted.options().given,
                         wanted.chain().nf.text());
  chains_.BeginFrom(wanted.options().given);
  LogLine(LogLevel::kInfo,
          fmt::format("took {}: {}", Printable(file),
                      reply.change().empty()
                          ? "nothing in it has changed"
                          : Plural(static_cast<uint64_t>(reply.change_size()),
                                   "change")));
  return absl::OkStatus();
}

}  // namespace snf
