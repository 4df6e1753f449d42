// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/daemon.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "base/text/wording.h"
#include "base/version.h"
#include "platform/bypass/bypass_state.h"
#include "platform/control/control_client.h"
#include "platform/daemon/address_notes.h"
#include "platform/daemon/group/group_traffic.h"
#include "platform/daemon/group/host_homes.h"
#include "platform/daemon/live_run.h"
#include "platform/service/background.h"

namespace snf {
namespace {

proto::StatusReply AboutOf(const DaemonFiles& files,
                           const RunRequest& options) {
  proto::StatusReply about;
  about.set_name(files.name);
  about.set_version(kVersion);
  about.set_pid(getpid());
  about.set_nf(options.nf);
  about.set_policy(options.policies.front());
  if (options.controller.count > 1) {
    about.set_controller(options.controller.id);
    about.set_controllers(options.controller.count);
  }
  const auto& keep = options.real.keep;
  if (keep.has_value()) about.set_keep_ns(keep->patience.ns);
  return about;
}

}  // namespace

void Daemon::UnitLog::on_unit_up(Instant /*now*/, UnitId unit) {
  LogLine(LogLevel::kDebug, fmt::format("unit {} starts", value(unit)));
}

void Daemon::UnitLog::on_unit_down(Instant /*now*/, UnitId unit) {
  LogLine(LogLevel::kDebug, fmt::format("unit {} is parked", value(unit)));
}

Daemon::Daemon(const DaemonFiles& files, const std::optional<TlsEndpoint>& tcp,
               const RunRequest& options, const LogOptions& log,
               FirstInterrupt& interrupt, std::optional<DaemonLock>& lock)
    : files_(files),
      lock_(lock),
      interrupt_(interrupt),
      tcp_(tcp),
      options_(options),
      log_(log),
      settings_(options, log.level),
      chains_(settings_, options.real.program, files.modules, interrupt.came),
      desk_(AboutOf(files, options), settings_, interrupt.came) {}

void Daemon::Succeed(std::unique_ptr<LiveSuccessor> successor, Nanos within) {
  successor_ = std::move(successor);
  within_ = within;
}

void Daemon::LeaseBy(std::span<const std::unique_ptr<DaemonLeases>> leases) {
  leases_ = leases;
  chains_.Refuse(
      "--manager: chains that lease units stay as they began; restart the "
      "daemon with the other chain");
}

void Daemon::JoinBy(GroupMembership& group, std::unique_ptr<GroupLink> link,
                    std::unique_ptr<StateLink> states) {
  group_ = &group;
  states_ = std::move(states);
  group_link_ = std::move(link);
}

void Daemon::ContinueBy(GroupMembership& group, std::string states_tls) {
  group_ = &group;
  states_tls_ = std::move(states_tls);
}

absl::Status Daemon::Keep(const RealOptions::Keep& keep) {
  std::vector<std::string> names;
  for (const Config::Chain& chain : options_.config.chains) {
    names.push_back(chain.name);
  }
  if (options_.has_one_chain()) names = {""};
  return chains_.Keep(keep, files_.chains, names);
}

absl::Status Daemon::Begin(LiveTraffic& traffic, ChainSet& chains,
                           const LiveChainSetter::Start& start,
                           const LiveBoard& board) {
  const UpgradePorts ports = UpgradePorts::Of(
      options_.ports, TextOfGroup(), options_.config.chains.front().nf.text());
  if (successor_ != nullptr) {
    absl::Status taken = TakeOver(ports, traffic, chains);
    if (!taken.ok()) return taken;
  }
  chains_.Begin(chains, start, upgrade_);
  for (size_t i = 0; i < leases_.size(); ++i) {
    LiveChains& of = *chains.members()[i].chains;
    leases_[i]->set_driver(of.newest());
    of.LeaseBy(*leases_[i]);
  }
  desk_.Begin(chains_, board, chains.inherited_flows());
  upgrade_.Begin(
      traffic, chains, ports,
      successor_ != nullptr ? successor_->lock_file() : lock_->file(),
      {.close_server = [this] { server_.reset(); },
       .open_server = [this] { ListenAgain(); },
       .end = [this] { interrupt_.came = true; }});
  const bool has_predecessor = successor_ != nullptr && group_ == nullptr;
  if (has_predecessor) desk_.Follow(*successor_);
  if (absl::Status s = Listen(); !s.ok()) return s;
  if (successor_ != nullptr) {
    lock_.emplace(DaemonLock::Adopt(files_, successor_->TakeLock().Release()));
    if (has_predecessor) successor_->Attend(chains, desk_.mailbox());
  }
  if (absl::Status s = StartBypass(); !s.ok()) return s;
  if (group_ != nullptr) JoinGroup(traffic);
  for (const std::string& note : traffic.notes()) {
    LogLine(LogLevel::kInfo, note);
  }
  for (const std::string& note : AddressNotes(options_)) {
    LogLine(LogLevel::kWarning, note);
  }
  LogLine(LogLevel::kInfo,
          fmt::format("runs {} between {}", Printable(options_.nf),
                      ListOf(options_.ports)));
  Background::SayReady(log_.file);
  NotifySystemd(fmt::format("MAINPID={}\nREADY=1", getpid()).c_str());
  const std::scoped_lock lock(reload_mutex_);
  may_reload_ = true;
  return absl::OkStatus();
}

// Names what both processes of a member have in common.
std::string Daemon::TextOfGroup() const {
  if (group_ == nullptr) return "";
  const GatewayGroup::Options& member = group_->options().member;
  return fmt::format(
      "controller {} of {} in group \"{}\"{}{} with {}, and flows in format {}",
      member.self.number, member.shape.controllers, group_->group(),
      member.self.address.empty() ? "" : " at ", member.self.address,
      member.shape.program, PlaceGiving::Format());
}

void Daemon::JoinGroup(LiveTraffic& traffic) {
  auto heirs = std::make_unique<FlowHeirs>(
      std::move(states_), options_.controller.id,
      StandbyFlows::Options{.idle_timeout =
                                options_.run.controller.flow_timeout},
      HostHomes::By(*options_.steering));
  if (received_.has_value()) {
    heirs->Continue(std::move(received_->flows), received_->lost);
  }
  auto group = std::make_unique<GroupTraffic>(*group_, options_.steering,
                                              std::move(group_link_),
                                              options_.ports, std::move(heirs));
  if (received_.has_value()) group->Continue();
  traffic.Follow(std::move(group));
}

// A guard of the daemon before has made way for this one's ports.
absl::Status Daemon::StartBypass() {
  snf::EndBypass(files_);
  if (bypass_.ns == 0) return absl::OkStatus();
  const bool is_swapped = options_.ports.front().side == Side::kOutside;
  auto guard = BypassGuard::Start(
      files_, {.inside = options_.ports[is_swapped ? 1 : 0].interface,
               .outside = options_.ports[is_swapped ? 0 : 1].interface,
               .patience = bypass_,
               .log = log_});
  if (!guard.ok()) return guard.status();
  guard_.emplace(*std::move(guard));
  return absl::OkStatus();
}

void Daemon::EndBypass() {
  if (guard_.has_value()) guard_->End();
}

void Daemon::Notice(std::string_view line) {
  LogLine(LogLevel::kWarning, line);
}

void Daemon::on_chain_ended(std::string_view line) {
  LogLine(LogLevel::kInfo, line);
}

void Daemon::AddManager(LiveFigures& figures) const {
  for (const auto& of_chain : leases_) {
    TakeLonger(of_chain->manager(), figures.manager);
  }
}

void Daemon::set_nf_logs(NfLogFiles* logs) {
  const std::scoped_lock lock(nf_logs_mutex_);
  nf_logs_ = logs;
}

void Daemon::ReopenNfLogs() {
  const std::scoped_lock lock(nf_logs_mutex_);
  if (nf_logs_ != nullptr) nf_logs_->Reopen();
}

void Daemon::Reload() {
  const std::scoped_lock lock(reload_mutex_);
  if (!may_reload_) return;
  if (reloads_.exchange(true)) {
    LogLine(LogLevel::kWarning,
            "SIGHUP while the configuration is taken: it is not taken again");
    return;
  }
  if (reload_.joinable()) reload_.join();
  reload_ = std::thread([this] {
    TakeConfigAgain();
    reloads_ = false;
  });
}

void Daemon::TakeConfigAgain() {
  constexpr std::chrono::nanoseconds kMost(ControlClient::kChainPatience.ns);
  const absl::Status taken =
      desk_.Reload(std::chrono::steady_clock::now() + kMost);
  if (taken.ok()) return;
  LogLine(LogLevel::kError,
          fmt::format("SIGHUP: {}", std::string(taken.message())));
}

void Daemon::EndReload() {
  const std::scoped_lock lock(reload_mutex_);
  may_reload_ = false;
  if (reload_.joinable()) reload_.join();
}

void Daemon::End(ChainSet& chains) {
  EndReload();
  upgrade_.AwaitCall();
  if (group_ != nullptr) upgrade_.Join();
  if (has_handed_on()) {
    upgrade_.End(chains);
    return;
  }
  NotifySystemd("STOPPING=1");
  server_.reset();
}

absl::Status Daemon::Listen() {
  auto server = ControlServer::Start(files_.socket, tcp_, desk_);
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  return absl::OkStatus();
}

// Called if the successor ends before it has taken the place of this daemon.
void Daemon::ListenAgain() {
  lock_->WritePid();
  const absl::Status status = Listen();
  if (!status.ok()) Notice(std::string(status.message()));
}

absl::Status Daemon::TakeOver(const UpgradePorts& ports, LiveTraffic& traffic,
                              ChainSet& chains) {
  const auto client = ControlClient::Connect(files_.socket);
  absl::Status taken =
      group_ != nullptr
          ? TakeOverMember(*client, ports, traffic)
          : successor_->TakeOver(*client, ports, within_, traffic, chains);
  if (!taken.ok()) {
    return absl::FailedPreconditionError(
        fmt::format("\"{}\": {}", files_.name, std::string(taken.message())));
  }
  LogLine(
      LogLevel::kInfo,
      received_.has_value()
          ? fmt::format("has the place of the daemon before, and got {} and "
                        "copies; {} did not come along",
                        Plural(received_->flows.size(), "flow"),
                        received_->lost)
          : fmt::format("has the place of the daemon before, which keeps {}",
                        Plural(successor_->older_flows(), "flow")));
  return absl::OkStatus();
}

absl::Status Daemon::TakeOverMember(ControlClient& client,
                                    const UpgradePorts& ports,
                                    LiveTraffic& traffic) {
  auto member = successor_->TakeOverMember(client, ports, traffic);
  if (!member.ok()) return member.status();
  received_ = std::move(member->received);
  group_link_ = std::move(member->link);
  states_ = StateLink::Adopt(
      std::move(member->states),
      [](bool is_loss, const std::string& text) {
        LogLine(is_loss ? LogLevel::kWarning : LogLevel::kInfo, text);
      },
      states_tls_);
  return group_->Continue(received_->place);
}

}  // namespace snf
