// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_LXD_LXD_TRANSPORT_H_
#define SNF_RESOURCE_MANAGER_LXD_LXD_TRANSPORT_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace snf {

// A request of LXD's REST API.
struct LxdRequest {
  std::string method = "GET";
  std::string target{};  // "/1.0/instances"
  std::string body{};    // JSON, or nothing
  std::string file{};    // whose contents are the body, if it is named
  std::vector<std::pair<std::string, std::string>> headers{};
  Nanos patience = Seconds(60);
};

struct LxdResponse {
  unsigned status = 0;  // of HTTP
  std::string body{};
};

// Carries requests to a server of LXD. Owner-thread only.
class LxdTransport {
 public:
  virtual ~LxdTransport() = default;

  // Returns LXD's response, also if LXD refuses. Errors: FailedPrecondition,
  // there is no LXD; PermissionDenied, this user may not ask LXD; Unavailable,
  // LXD does not answer within the request's patience, or not by HTTP; errors
  // of the file.
  virtual absl::StatusOr<LxdResponse> Exchange(const LxdRequest& request) = 0;
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_LXD_LXD_TRANSPORT_H_
