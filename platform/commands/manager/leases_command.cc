// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/manager/leases_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "base/messages/lease_messages.h"
#include "base/quantity.h"
#include "base/text/wording.h"
#include "platform/control/control_text.h"
#include "platform/control/daemon_cluster.h"
#include "platform/control/daemon_command.h"
#include "platform/process/standard_streams.h"
#include "platform/service/daemon_files.h"
#include "resource_manager/live/lease_client.h"

namespace snf {
namespace {

constexpr Nanos kPatience = Seconds(5);

std::string UnitsOf(int64_t share) {
  return fmt::format("{:.3f}", static_cast<double>(share) / double{kWholeUnit});
}

std::string LineOf(const proto::Member& member) {
  std::string line = fmt::format("  {:>4}  {}, process {}: holds {}",
                                 member.controller(), Printable(member.name()),
                                 member.pid(), UnitsOf(member.held()));
  if (member.asked() > 0) {
    line += fmt::format(", waits for {} more", UnitsOf(member.asked()));
  }
  if (member.is_away()) line += ", on another machine";
  if (!member.is_connected()) line += ", is not connected";
  return line + "\n";
}

std::string LineOf(const proto::LeasedUnit& unit) {
  std::string line = fmt::format("  {:>4}  ", unit.unit());
  for (const proto::Lease& lease : unit.lease()) {
    line +=
        fmt::format("{} at {}{}, ", UnitsOf(lease.share()), lease.controller(),
                    lease.state() == "held"
                        ? ""
                        : fmt::format(" ({})", Printable(lease.state())));
  }
  line += fmt::format("{} free", UnitsOf(unit.free()));
  if (!unit.host().empty()) {
    line += fmt::format(", on {}", Printable(unit.host()));
  }
  return line + "\n";
}

}  // namespace

std::string TextOf(const proto::LookReply& reply) {
  std::string text = fmt::format(
      "{}: a resource manager of {} of {}, process {}, epoch {}, {}\n",
      Printable(reply.name()), Plural(reply.units(), "unit"),
      FormatBitRate(reply.unit_capacity_bps()), reply.pid(),
      reply.manager_epoch(), FormatDuration({reply.elapsed_ns()}));
  if (reply.is_recovering()) {
    text += "  it grants no leases yet: it waits for the reports of";
    for (const std::string& name : reply.awaited()) {
      text += ' ' + Printable(name);
    }
    text += '\n';
  }
  text += reply.member_size() > 0
              ? "controllers, with the units that each holds\n"
              : "no controller has joined\n";
  for (const proto::Member& member : reply.member()) text += LineOf(member);
  if (reply.unit_size() > 0) text += "units, with the parts that are leased\n";
  // A unit that is being left has no host for others.
  const uint32_t units =
      reply.follows_hosts() ? reply.units_placed() : reply.units();
  int64_t free =
      std::max(int64_t{units} - reply.unit_size(), int64_t{0}) * kWholeUnit;
  for (const proto::LeasedUnit& unit : reply.unit()) {
    text += LineOf(unit);
    free += unit.free();
  }
  return text + fmt::format("{} of {}{} free\n", UnitsOf(free),
                            Plural(units, "unit"),
                            reply.follows_hosts() ? " on hosts" : "");
}

LeasesCommand::LeasesCommand()
    : FlagCommand({.summary = "list the leases of a resource manager",
                   .usage = "snf leases [--json] [--watch] [--name=NAME]",
                   .about = "Lists which controller holds which share of which "
                            "unit of a resource manager (snf manager), and "
                            "which controllers wait for more."}) {
  AddDaemonName(flags(), manager_);
  flags().Switch("json", json_, "print a JSON object on one line");
  flags().Switch("watch", watch_,
                 "repeat every second until the manager ends or Ctrl-C; on a "
                 "terminal, redraw in place");
}

// A manager that does not lead serves no leases.
absl::Status LeasesCommand::WhyNoLeases(const DaemonFiles& files,
                                        pid_t pid) const {
  const auto reply = StatusOf(files);
  if (!reply.ok()) {
    return absl::FailedPreconditionError(
        fmt::format("\"{}\" (process {}) does not answer: {}", manager_, pid,
                    std::string(reply.status().message())));
  }
  return absl::FailedPreconditionError(
      IsManager(*reply)
          ? fmt::format("\"{}\" (process {}) is {}", manager_, pid,
                        Printable(reply->nf()))
          : fmt::format("\"{}\" (process {}) is a daemon, and no resource "
                        "manager",
                        manager_, pid));
}

absl::StatusOr<proto::LookReply> LeasesCommand::Look() const {
  const absl::StatusOr<DaemonFiles> files = DaemonFiles::Of(manager_);
  if (!files.ok()) return files.status();
  const absl::StatusOr<pid_t> pid = PidOf(*files);
  if (!pid.ok()) return pid.status();
  if (*pid == 0) {
    return absl::FailedPreconditionError(
        fmt::format("no resource manager \"{0}\" runs; snf manager --name={0} "
                    "starts one",
                    manager_));
  }
  if (access(files->leases.c_str(), F_OK) != 0)
    return WhyNoLeases(*files, *pid);
  auto reply = LookAtLeases(LeaseAddress::OfSocket(files->leases), kPatience);
  if (reply.ok()) return reply;
  return absl::FailedPreconditionError(
      fmt::format("the resource manager \"{}\" does not answer: {}", manager_,
                  std::string(reply.status().message())));
}

absl::Status LeasesCommand::Run() {
  auto reply = Look();
  if (!reply.ok()) return reply.status();
  const bool wipes = watch_ && !json_ && isatty(STDOUT_FILENO) != 0;
  while (true) {
    fmt::print("{}{}", wipes ? "\033[H\033[2J" : "",
               json_ ? JsonOf(*reply) + "\n" : TextOf(*reply));
    if (absl::Status s = FlushStdout(); !s.ok()) return s;
    if (!watch_) return absl::OkStatus();
    std::this_thread::sleep_for(std::chrono::seconds(1));
    reply = Look();
    if (!reply.ok()) return absl::OkStatus();
  }
}

}  // namespace snf
