// SPDX-License-Identifier: Apache-2.0
#include "platform/control/control_access.h"

#include <fmt/format.h>

#include <string>

#include "base/text/wording.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {
namespace {

absl::Status Want(ControlClientRole role, ClientRole least) {
  if (!role.has_value() || *role >= least) return absl::OkStatus();
  return absl::PermissionDeniedError(fmt::format(
      "the certificate's role is {}, and this wants {}; snf cert --role={} "
      "makes one",
      NameOf(*role), NameOf(least), NameOf(least)));
}

}  // namespace

absl::Status CheckAccess(ControlClientRole /*role*/,
                         const proto::StatusRequest& /*request*/) {
  return absl::OkStatus();
}

absl::Status CheckAccess(ControlClientRole /*role*/,
                         const proto::UnitsRequest& /*request*/) {
  return absl::OkStatus();
}

absl::Status CheckAccess(ControlClientRole role,
                         const proto::FlowsRequest& request) {
  return Want(role, request.deletes() ? ClientRole::kSteer : ClientRole::kLook);
}

absl::Status CheckAccess(ControlClientRole /*role*/,
                         const proto::RulesRequest& /*request*/) {
  return absl::OkStatus();
}

absl::Status CheckAccess(ControlClientRole role,
                         const proto::CaptureRequest& /*request*/) {
  return Want(role, ClientRole::kAdmin);
}

absl::Status CheckAccess(ControlClientRole role,
                         const proto::SetRequest& request) {
  const bool has_config =
      request.tell_config() || !request.config_file().empty();
  if (has_config && role.has_value()) {
    return absl::PermissionDeniedError(
        "a configuration file is looked at, and taken, on the daemon's host "
        "alone, not over TCP");
  }
  return Want(role,
              request.value().empty() ? ClientRole::kLook : ClientRole::kSteer);
}

absl::Status CheckAccess(ControlClientRole role,
                         const proto::DrainRequest& /*request*/) {
  return Want(role, ClientRole::kSteer);
}

absl::Status CheckAccess(ControlClientRole role,
                         const proto::KillRequest& /*request*/) {
  return Want(role, ClientRole::kAdmin);
}

absl::Status CheckAccess(ControlClientRole role,
                         const proto::ChainRequest& request) {
  absl::Status status = Want(role, ClientRole::kAdmin);
  if (!status.ok() || !role.has_value()) return status;
  if (!request.module().empty()) {
    return absl::PermissionDeniedError(fmt::format(
        "{}: a module is deployed on the daemon's host alone, not over TCP",
        Printable(request.module())));
  }
  if (request.text().empty()) return absl::OkStatus();
  status = NfSpec::CheckNamesNoFile(request.text());
  if (!absl::IsPermissionDenied(status)) return status;
  return absl::PermissionDeniedError(
      fmt::format("{}, which no client over TCP may name",
                  Printable(std::string(status.message()))));
}

absl::Status CheckAccess(ControlClientRole role,
                         const proto::UpgradeRequest& /*request*/) {
  if (!role.has_value()) return absl::OkStatus();
  return absl::PermissionDeniedError(
      "a daemon is upgraded on its host alone, not over TCP");
}

absl::Status CheckAccess(ControlClientRole role,
                         const proto::DownRequest& /*request*/) {
  return Want(role, ClientRole::kAdmin);
}

}  // namespace snf
