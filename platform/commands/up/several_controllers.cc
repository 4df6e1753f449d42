// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/up/several_controllers.h"

#include <fmt/format.h>

#include "base/ipfix/ipfix_collector.h"
#include "platform/control/controllers_start.h"
#include "platform/options/config_message.h"
#include "platform/ports/port_spec.h"

namespace snf {
namespace {

// Each controller would refuse them, once others may have started.
absl::Status CheckChains(const RunRequest& options) {
  if (options.config_file.empty()) return absl::OkStatus();
  ConfigPlaces places(options.config_file);
  proto::Config config;
  absl::Status status = ParseConfigMessage(options.config_text, places, config);
  if (!status.ok() || config.chain_size() <= 1) return status;
  return absl::InvalidArgumentError(
      fmt::format("--controllers with --config={}: several chains have one "
                  "controller each",
                  options.config_file));
}

absl::Status CheckFlags(const SeveralControllers& several) {
  for (const char* flag :
       {"controller", "foreground", "control", "tls", "group_address",
        "group_tls", "manager_tls", "log", "out", "drops", "json", "csv",
        "metrics_port", "metrics_address", "metrics_tls", "watch"}) {
    if (!several.flags.given(flag)) continue;
    return absl::InvalidArgumentError(
        fmt::format("--controllers with --{}: that is of one daemon; snf up "
                    "--controller=I/N starts one",
                    flag));
  }
  const std::string& ipfix = several.run.options().ipfix;
  if (!ipfix.empty() && !IpfixCollector::IsMeantBy(ipfix)) {
    return absl::InvalidArgumentError(fmt::format(
        "--controllers with --ipfix={}: a file is of one daemon; a collector "
        "over UDP takes the records of all",
        ipfix));
  }
  if (several.units > 0 && several.flags.given("keep")) {
    return absl::InvalidArgumentError(
        "--units with --keep: leases end with the daemon");
  }
  if (several.units > 0 && several.upgrade) {
    return absl::InvalidArgumentError(
        "--units with --upgrade: leases end with the daemon");
  }
  if (several.flags.given("within") && !several.upgrade) {
    return absl::InvalidArgumentError("--within: only --upgrade has that");
  }
  if (!several.flags.given("port")) {
    return absl::InvalidArgumentError(
        "--controllers: wants --port, which they share");
  }
  return CheckChains(several.run.options());
}

}  // namespace

absl::Status StartSeveral(const SeveralControllers& several) {
  if (absl::Status s = CheckFlags(several); !s.ok()) return s;
  const FlagSet& flags = several.flags;
  const bool has_manager = several.units > 0;
  ControllersStart start = {.name = several.name,
                            .count = several.controllers,
                            .flags = {},
                            .manager = {},
                            .upgrade = several.upgrade,
                            .program = several.run.options().real.program};
  for (const PortSpec& port : several.run.options().ports) {
    if (several.run.is_from_file("port")) break;  // each reads the file
    start.flags.push_back("--port=" + port.text());
  }
  if (has_manager) start.flags.push_back("--manager=" + several.name);
  for (const auto& [flag, value] : flags.values()) {
    if (!flags.given(flag) || flag == "name" || flag == "controllers" ||
        flag == "port" || (flag == "units" && !has_manager)) {
      continue;
    }
    const bool is_of_manager =
        flag == "units" || (flag == "unit_capacity" && has_manager);
    if (!is_of_manager && several.run.is_from_file(flag)) continue;
    (is_of_manager ? start.manager : start.flags)
        .push_back(fmt::format("--{}={}", flag, value));
  }
  return StartControllers(start);
}

}  // namespace snf
