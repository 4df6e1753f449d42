// SPDX-License-Identifier: Apache-2.0
#include "platform/control/daemon_command.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "platform/bypass/bypass_state.h"
#include "platform/control/daemon_cluster.h"
#include "platform/service/tls_probe.h"

namespace snf {
namespace {

// What gRPC says where the daemon has said nothing.
constexpr char kLate[] = "Deadline Exceeded";

// A client is there until the process ends: when the last one goes, gRPC waits
// for threads of its own, for as long as these may take.
ControlClient* Keep(std::unique_ptr<ControlClient> client) {
  static std::unique_ptr<ControlClient>& kept =
      *new std::unique_ptr<ControlClient>;
  kept = std::move(client);
  return kept.get();
}

}  // namespace

FlagSet::Traits& AddDaemonName(FlagSet& flags, std::string& name) {
  return flags.Text(
      "name", name, "NAME",
      "which daemon, where there are several: small letters, digits, _ "
      "and -");
}

absl::Status NoDaemon(const std::string& name) {
  const std::string flag = name == "default" ? "" : " --name=" + name;
  const absl::StatusOr<DaemonFiles> files = DaemonFiles::Of(name);
  const std::string waits = files.ok() ? WhatWaits(*files) : "";
  if (!waits.empty()) {
    return absl::FailedPreconditionError(fmt::format(
        "no daemon \"{0}\" runs; {2} for snf up{1} with the flags of the one "
        "that was killed, which goes on with their flows; snf down{1} ends "
        "them",
        name, flag, waits));
  }
  const std::string passes = files.ok() ? WhatPasses(*files) : "";
  if (!passes.empty()) {
    return absl::FailedPreconditionError(
        fmt::format("no daemon \"{0}\" runs: {2}; snf up{1} takes its place, "
                    "snf down{1} lets no packets pass",
                    name, flag, passes));
  }
  const auto members = MembersOf(name);
  if (members.ok() && !members->empty()) {
    return absl::FailedPreconditionError(
        fmt::format("\"{}\" are several controllers, of which one is asked, as "
                    "--name={}",
                    name, members->front().files.name));
  }
  return absl::FailedPreconditionError(
      fmt::format("no daemon \"{}\" runs; snf up{} starts one", name, flag));
}

DaemonCommand::DaemonCommand(Text text) : FlagCommand(std::move(text)) {
  AddDaemonName(flags(), daemon_);
  tls_.AddTo(flags(),
             "ask a daemon that listens there, as snf up --control says, "
             "instead of one of this machine");
}

absl::StatusOr<ControlClient*> DaemonCommand::Connect() {
  if (client_ != nullptr) return client_;
  if (is_remote()) return ConnectRemote();
  const absl::StatusOr<DaemonFiles> files = DaemonFiles::Of(daemon_);
  if (!files.ok()) return files.status();
  const absl::StatusOr<pid_t> pid = PidOf(*files);
  if (!pid.ok()) return pid.status();
  if (*pid == 0) return NoDaemon(daemon_);
  client_ = Keep(ControlClient::Connect(files->socket));
  return client_;
}

absl::StatusOr<ControlClient*> DaemonCommand::ConnectRemote() {
  if (flags().given("name")) {
    return absl::InvalidArgumentError(
        "--name and --control: each names a daemon");
  }
  absl::StatusOr<std::optional<TlsEndpoint>> endpoint =
      tls_.Endpoint(TlsEnd::kClient);
  if (!endpoint.ok()) return endpoint.status();
  endpoint_ = *std::move(endpoint);
  daemon_ = endpoint_->address.text();
  client_ = Keep(ControlClient::Connect(*endpoint_));
  return client_;
}

std::string DaemonCommand::LateLine() const {
  return fmt::format("{}: \"{}\" cannot be asked: this takes too long", name(),
                     daemon_);
}

bool DaemonCommand::HasEnded() const {
  if (!endpoint_.has_value()) return false;
  const std::string why = WhyNotReachable(*endpoint_);
  return why == std::strerror(ECONNREFUSED) || why == kHangsUp;
}

// An answer that there is none is no input or output that failed.
absl::Status DaemonCommand::OfDaemon(const absl::Status& status) const {
  const std::string text =
      fmt::format("\"{}\": {}", daemon_, std::string(status.message()));
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kNotFound:
      return {status.code(), text};
    case absl::StatusCode::kUnavailable:
      return WhyUnavailable(text);
    case absl::StatusCode::kDeadlineExceeded:
      if (status.message() != kLate) return absl::FailedPreconditionError(text);
      return absl::FailedPreconditionError(
          fmt::format("\"{}\" has not answered in time: it stands still, or "
                      "has too much to do",
                      daemon_));
    default:
      return absl::FailedPreconditionError(text);
  }
}

absl::Status DaemonCommand::WhyUnavailable(const std::string& text) const {
  if (endpoint_.has_value()) {
    const std::string why = WhyNotReachable(*endpoint_);
    if (why.empty()) return absl::FailedPreconditionError(text);
    return absl::FailedPreconditionError(
        fmt::format("\"{}\" cannot be asked: {}", daemon_, why));
  }
  // It may have ended meanwhile.
  const absl::StatusOr<DaemonFiles> files = DaemonFiles::Of(daemon_);
  if (files.ok() && PidOf(*files).value_or(0) == 0) return NoDaemon(daemon_);
  return absl::FailedPreconditionError(text);
}

}  // namespace snf
