// SPDX-License-Identifier: Apache-2.0
#include "platform/manager/manager_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>

#include "base/quantity.h"
#include "platform/control/background.h"
#include "platform/control/control_handler.h"
#include "platform/control/control_server.h"
#include "platform/control/daemon_command.h"
#include "platform/manager/lease_server.h"
#include "platform/manager/manager_desk.h"
#include "platform/process/clean_interrupt.h"
#include "platform/process/real_clock.h"
#include "platform/process/version.h"
#include "platform/text/wording.h"

namespace snf {
namespace {

constexpr uint32_t kMostUnits = 1'024;
constexpr int64_t kLeastCapacity = 1'000;
constexpr int64_t kMostCapacity = 1'000'000'000'000;

// Answers the control service as far as a resource manager has what that asks
// for: so snf status and snf down know it.
class ManagerControl final : public ControlHandler {
 public:
  ManagerControl(std::string name, std::atomic<bool>& down)
      : name_(std::move(name)), down_(down), began_(RealClock::Monotonic()) {}

  absl::Status Status(Deadline /*deadline*/,
                      const proto::StatusRequest& /*request*/,
                      proto::StatusReply& reply) override {
    reply.set_name(name_);
    reply.set_version(kVersion);
    reply.set_pid(getpid());
    reply.set_nf("a resource manager");
    reply.set_policy("leases");
    reply.set_elapsed_ns((RealClock::Monotonic() - began_).ns);
    return absl::OkStatus();
  }
  absl::Status Down(Deadline /*deadline*/,
                    const proto::DownRequest& /*request*/,
                    proto::DownReply& /*reply*/) override {
    LogLine(LogLevel::kInfo, "is asked to end");
    down_.store(true);
    return absl::OkStatus();
  }

#define SNF_NONE(name)                                                        \
  absl::Status name(Deadline /*deadline*/,                                    \
                    const proto::name##Request& /*request*/,                  \
                    proto::name##Reply& /*reply*/) override {                 \
    return absl::FailedPreconditionError(                                     \
        "it is a resource manager, without packets; snf leases looks at it"); \
  }
  SNF_NONE(Units)
  SNF_NONE(Flows)
  SNF_NONE(Set)
  SNF_NONE(Drain)
  SNF_NONE(Kill)
  SNF_NONE(Chain)
  SNF_NONE(Upgrade)
#undef SNF_NONE

 private:
  const std::string name_;
  std::atomic<bool>& down_;
  const Instant began_;
};

}  // namespace

StartManagerCommand::StartManagerCommand()
    : FlagCommand(
          {.summary = "start a resource manager for several daemons",
           .usage = "snf manager [--units=COUNT] [--unit_capacity=RATE] "
                    "[--name=NAME]",
           .about =
               "Starts a resource manager in the background: daemons of this "
               "machine that are started with snf up --manager=NAME lease the "
               "units that it has, in parts, by their load. snf leases tells "
               "who has what. If it is killed, daemons go on with what they "
               "have, and the next snf manager with the same flags asks them "
               "for that; snf down --name=NAME ends it, and leaves the daemons "
               "as they are."}) {
  AddDaemonName(flags(), name_of_manager_);
  flags().Count("units", units_, 1, kMostUnits,
                "how much there is to lease, in units");
  flags().BitRate("unit_capacity", unit_capacity_bps_, kLeastCapacity,
                  kMostCapacity, "what a unit processes, of this machine");
  flags().Switch("foreground", foreground_,
                 "stay in the foreground, and tell systemd when it is ready");
  flags().Text("log", log_, "FILE",
               "append the log to FILE (- is stderr). Without it, stderr in "
               "the foreground; else a file beside the control socket, which "
               "is removed if it ends well");
  flags().Switch("log_json", log_json_, "each line of the log is JSON");
  flags().Choice("log_level", log_level_,
                 {{"debug", "all"},
                  {"info", "who comes and goes"},
                  {"warning", "what is wrong"},
                  {"error", "what ends it"}},
                 "what is logged:");
}

LogOptions StartManagerCommand::LogOf(const DaemonFiles& files) const {
  LogOptions log = {.file = log_,
                    .json = log_json_,
                    .level = LogLevel{static_cast<uint8_t>(log_level_)}};
  if (log.file.empty()) log.file = foreground_ ? "-" : files.log;
  return log;
}

absl::Status StartManagerCommand::Run() {
  const absl::StatusOr<DaemonFiles> files = DaemonFiles::Of(name_of_manager_);
  if (!files.ok()) return files.status();
  if (!foreground_ && log_ == "-") {
    return absl::InvalidArgumentError(
        "--log=-: a daemon in the background has no terminal; with "
        "--foreground it has");
  }
  if (foreground_) return Serve(*files);
  const absl::StatusOr<std::optional<int>> begun = Background::Begin();
  if (!begun.ok()) return begun.status();
  if (!begun->has_value()) return Serve(*files);
  set_exit_code(ExitCode{**begun});
  if (**begun == kExitOk) TellReady(*files);
  return absl::OkStatus();
}

// In the parent of a manager in the background.
void StartManagerCommand::TellReady(const DaemonFiles& files) const {
  const absl::StatusOr<pid_t> pid = PidOf(files);
  fmt::print(
      "\"{0}\" is a resource manager of {1} of {2}, as process {3}.\n"
      "To lease of it: snf up --manager={0} --name=OTHER …; to look at it: snf "
      "leases --name={0}; to end it: snf down --name={0}\n",
      files.name, Plural(units_, "unit"), FormatBitRate(unit_capacity_bps_),
      pid.ok() ? *pid : 0);
}

absl::Status StartManagerCommand::Serve(const DaemonFiles& files) {
  static FirstInterrupt interrupt;
  EndCleanlyWhenInterrupted(name(), &interrupt);
  interrupt.is_awaited = true;
  absl::StatusOr<DaemonLock> lock = DaemonLock::Take(files);
  if (!lock.ok()) return lock.status();
  const LogOptions log = LogOf(files);
  if (absl::Status s = OpenLog(log); !s.ok()) return s;
  auto desk = ManagerDesk::Start({.name = files.name,
                                  .units = units_,
                                  .unit_capacity_bps = unit_capacity_bps_,
                                  .file = files.members,
                                  .notice = [](const std::string& line) {
                                    LogLine(LogLevel::kInfo, line);
                                  }});
  if (!desk.ok()) return desk.status();
  ManagerControl control(files.name, interrupt.came);
  auto control_server =
      ControlServer::Start(files.socket, std::nullopt, control);
  if (!control_server.ok()) return control_server.status();
  auto server = LeaseServer::Start(files.leases, **desk);
  if (!server.ok()) return server.status();
  LogLine(LogLevel::kInfo,
          fmt::format("manages {} of {} bit/s", Plural(units_, "unit"),
                      unit_capacity_bps_));
  Background::SayReady(log.file);
  NotifySystemd(fmt::format("MAINPID={}\nREADY=1", getpid()).c_str());
  while (!interrupt.came.load()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  NotifySystemd("STOPPING=1");
  server->reset();
  control_server->reset();
  desk->reset();
  LogLine(LogLevel::kInfo, "has ended");
  if (log.file == files.log) unlink(files.log.c_str());
  return absl::OkStatus();
}

}  // namespace snf
