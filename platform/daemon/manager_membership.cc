// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/manager_membership.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>

#include "absl/strings/str_split.h"
#include "base/quantity.h"
#include "base/text/wording.h"
#include "platform/daemon/lease_member.h"
#include "platform/service/daemon_files.h"
#include "platform/service/daemon_log.h"
#include "resource_manager/live/lease_words.h"
#include "resource_manager/live/member_file.h"
#include "resource_manager/live/process_watch.h"

namespace snf {
namespace {

std::vector<std::string> NamesOf(const std::string& managers) {
  return absl::StrSplit(managers, ',');
}

}  // namespace

absl::Status ManagerMembership::Settle(FlagSet& flags, bool upgrade) const {
  const auto refuse = [this](const std::string& why) {
    return absl::InvalidArgumentError(
        fmt::format("--manager={}: {}", Printable(manager_), why));
  };
  if (manager_.find_first_of(":/") != std::string::npos) {
    return refuse("wants the name of a resource manager of this machine");
  }
  for (const std::string& name : NamesOf(manager_)) {
    if (name != daemon_) continue;
    return refuse("the daemon wants a name of its own, by --name");
  }
  for (const char* const flag :
       {"max_units", "unit_capacity", "warm_pool", "warm_units"}) {
    if (!flags.given(flag)) continue;
    return refuse(
        fmt::format("--{}: the resource manager has the units", flag));
  }
  if (upgrade) return refuse("is not for --upgrade");
  const auto files = Files();
  if (!files.ok()) return files.status();
  // Managers that have led agree on their units.
  for (const DaemonFiles& of : *files) {
    const absl::StatusOr<pid_t> pid = PidOf(of);
    if (!pid.ok()) return pid.status();
    const auto noted = MemberFile::Read(of.members);
    if (!noted.ok()) return noted.status();
    if (*pid == 0 || !noted->has_value()) continue;
    flags.Give("max_units", {std::to_string((*noted)->units)});
    flags.Give("unit_capacity",
               {FormatBitRate((*noted)->unit_capacity_bps, Precision::kExact)});
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(fmt::format(
      "no resource manager \"{0}\" runs{1}; snf manager --name={2} starts one",
      manager_, files->size() > 1 ? ", or none of them leads" : "",
      files->front().name));
}

absl::StatusOr<std::vector<DaemonFiles>> ManagerMembership::Files() const {
  std::vector<DaemonFiles> files;
  for (const std::string& name : NamesOf(manager_)) {
    absl::StatusOr<DaemonFiles> of = DaemonFiles::Of(name);
    if (!of.ok()) return of.status();
    files.push_back(*std::move(of));
  }
  return files;
}

absl::Status ManagerMembership::CheckChains(const RunRequest& options) const {
  for (const Config::Chain& chain : options.config.chains) {
    const size_t bytes = MemberNameOf(chain).size();
    if (!options.has_one_chain() && bytes > kMostOfMemberName) {
      return absl::InvalidArgumentError(fmt::format(
          "--manager={}: chain \"{}\": the resource manager would know it as "
          "{}, of {} bytes; at most {} are possible",
          Printable(manager_), Printable(chain.name),
          Printable(MemberNameOf(chain)), bytes, kMostOfMemberName));
    }
    if (!chain.max_units.has_value() && !chain.unit_capacity_bps.has_value()) {
      continue;
    }
    return absl::InvalidArgumentError(fmt::format(
        "--manager={}: chain \"{}\" has {}: the resource manager has the units",
        Printable(manager_), Printable(chain.name),
        chain.max_units.has_value() ? "max_units" : "unit_capacity"));
  }
  return absl::OkStatus();
}

std::string ManagerMembership::MemberNameOf(const Config::Chain& chain) const {
  return daemon_ + "." + chain.name;
}

absl::StatusOr<std::vector<std::unique_ptr<DaemonLeases>>>
ManagerMembership::Join(const RunRequest& options) const {
  std::vector<std::unique_ptr<DaemonLeases>> all;
  const auto join = [&](const std::string& name, const RunRequest& of) {
    auto joined = JoinAs(name, of);
    if (joined.ok()) all.push_back(*std::move(joined));
    return joined.status();
  };
  if (options.has_one_chain()) {
    if (absl::Status s = join(daemon_, options); !s.ok()) return s;
    return all;
  }
  for (size_t i = 0; i < options.config.chains.size(); ++i) {
    const std::string name = MemberNameOf(options.config.chains[i]);
    if (absl::Status s = join(name, Alone(options, i)); !s.ok()) return s;
  }
  return all;
}

absl::StatusOr<std::unique_ptr<DaemonLeases>> ManagerMembership::JoinAs(
    const std::string& name, const RunRequest& options) const {
  constexpr Nanos kPatience = Seconds(10);
  const auto files = Files();
  if (!files.ok()) return files.status();
  std::vector<std::string> sockets;
  for (const DaemonFiles& of : *files) sockets.push_back(of.leases);
  const ControllerOptions& controller = options.run.controller;
  std::optional<ControllerId> id;
  if (options.controller.count > 1) {
    id = ControllerId{static_cast<uint8_t>(options.controller.id)};
  }
  auto member = LeaseMember::Join(
      {.sockets = std::move(sockets),
       .manager = manager_,
       .process = OwnProcessId(),
       .name = name,
       .controller = id,
       .units = controller.max_units,
       .unit_capacity_bps = controller.unit_capacity_bps,
       .notice =
           [](const std::string& line) { LogLine(LogLevel::kWarning, line); }},
      kPatience);
  if (!member.ok()) return member.status();
  return std::make_unique<DaemonLeases>(*std::move(member), options.run);
}

}  // namespace snf
