// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CONTROL_CONTROL_ACCESS_H_
#define SNF_PLATFORM_CONTROL_CONTROL_ACCESS_H_

#include <optional>

#include "absl/status/status.h"
#include "platform/service/client_role.h"
#include "proto/control.pb.h"

namespace snf {

// Says what a client may ask a daemon for. A client at the unix socket is the
// daemon's own user, and has no role: it may do all. A client over TCP has the
// role of its certificate, and whatever that is, no file of the daemon's host
// is opened by a name that it gives. Errors: PermissionDenied, naming the role
// that is needed or the file; InvalidArgument, a chain cannot be read.
using ControlClientRole = std::optional<ClientRole>;

absl::Status CheckAccess(ControlClientRole role, const proto::StatusRequest&);
absl::Status CheckAccess(ControlClientRole role, const proto::UnitsRequest&);
absl::Status CheckAccess(ControlClientRole role, const proto::FlowsRequest&);
absl::Status CheckAccess(ControlClientRole role, const proto::RulesRequest&);
// A capture shows what users send, so it needs the role of an administrator.
absl::Status CheckAccess(ControlClientRole role, const proto::CaptureRequest&);
absl::Status CheckAccess(ControlClientRole role, const proto::SetRequest&);
absl::Status CheckAccess(ControlClientRole role, const proto::DrainRequest&);
absl::Status CheckAccess(ControlClientRole role, const proto::KillRequest&);
absl::Status CheckAccess(ControlClientRole role, const proto::ChainRequest&);
absl::Status CheckAccess(ControlClientRole role, const proto::UpgradeRequest&);
absl::Status CheckAccess(ControlClientRole role, const proto::DownRequest&);

}  // namespace snf

#endif  // SNF_PLATFORM_CONTROL_CONTROL_ACCESS_H_
