// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/manager_membership.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>

#include "base/quantity.h"
#include "base/text/wording.h"
#include "platform/daemon/lease_member.h"
#include "platform/service/daemon_files.h"
#include "platform/service/daemon_log.h"
#include "resource_manager/live/member_file.h"
#include "resource_manager/live/process_watch.h"

namespace snf {

absl::Status ManagerMembership::Settle(FlagSet& flags, bool upgrade) const {
  const auto refuse = [this](const std::string& why) {
    return absl::InvalidArgumentError(
        fmt::format("--manager={}: {}", Printable(manager_), why));
  };
  if (manager_.find_first_of(":/") != std::string::npos) {
    return refuse("wants the name of a resource manager of this machine");
  }
  if (manager_ == daemon_) {
    return refuse("the daemon wants a name of its own, by --name");
  }
  for (const char* const flag :
       {"max_units", "unit_capacity", "warm_pool", "warm_units"}) {
    if (!flags.given(flag)) continue;
    return refuse(
        fmt::format("--{}: the resource manager has the units", flag));
  }
  if (upgrade) return refuse("is not for --upgrade");
  const absl::StatusOr<DaemonFiles> files = DaemonFiles::Of(manager_);
  if (!files.ok()) return files.status();
  const absl::StatusOr<pid_t> pid = PidOf(*files);
  if (!pid.ok()) return pid.status();
  const auto noted = MemberFile::Read(files->members);
  if (!noted.ok()) return noted.status();
  if (*pid == 0 || !noted->has_value()) {
    return absl::FailedPreconditionError(
        fmt::format("no resource manager \"{0}\" runs; snf manager --name={0} "
                    "starts one",
                    manager_));
  }
  flags.Give("max_units", {std::to_string((*noted)->units)});
  flags.Give("unit_capacity",
             {FormatBitRate((*noted)->unit_capacity_bps, Precision::kExact)});
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DaemonLeases>> ManagerMembership::Join(
    const RunRequest& options) const {
  constexpr Nanos kPatience = Seconds(10);
  const absl::StatusOr<DaemonFiles> files = DaemonFiles::Of(manager_);
  if (!files.ok()) return files.status();
  const ControllerOptions& controller = options.run.controller;
  std::optional<ControllerId> id;
  if (options.controller.count > 1) {
    id = ControllerId{static_cast<uint8_t>(options.controller.id)};
  }
  auto member = LeaseMember::Join(
      {.socket = files->leases,
       .manager = manager_,
       .process = OwnProcessId(),
       .name = daemon_,
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
