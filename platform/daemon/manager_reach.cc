// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/manager_reach.h"

#include <fmt/format.h>

#include "base/text/wording.h"
#include "platform/service/tls_endpoint.h"
#include "platform/service/tls_probe.h"

namespace snf {

// The library's own words for Unavailable say neither who is to blame nor what
// to do.
std::string WhyNoManager(const LeaseAddress& address,
                         const absl::Status& status) {
  const std::string said =
      status.ok() ? "the connection ended"
                  : Printable(std::string(status.message()));
  if (!address.tls.has_value()) {
    return absl::IsUnavailable(status)
               ? fmt::format("{}: no manager leads there", address.target)
               : fmt::format("{}: {}", address.target, said);
  }
  const auto tcp = ParseTcpAddress("tcp:" + address.target);
  if (!tcp.ok()) return fmt::format("{}: {}", address.target, said);
  const std::string why =
      WhyNotReachable({.address = *tcp,
                       .files = {.authority = address.tls->authority,
                                 .certificate = address.tls->certificate,
                                 .key = address.tls->key}},
                      "--manager_tls");
  return fmt::format("{}: {}", address.target, why.empty() ? said : why);
}

}  // namespace snf
