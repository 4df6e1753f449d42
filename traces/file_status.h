// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_FILE_STATUS_H_
#define SNF_TRACES_FILE_STATUS_H_

#include <cerrno>
#include <string>
#include <system_error>

#include "absl/status/status.h"

namespace snf {

// Returns the status "what: text of `error_number`", with the codes that all
// file operations of this folder use: kNotFound, kPermissionDenied, else
// kUnavailable.
inline absl::Status FileStatus(const std::string& what, int error_number) {
  const std::string message =
      what + ": " + std::generic_category().message(error_number);
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    default:
      return absl::UnavailableError(message);
  }
}

}  // namespace snf

#endif  // SNF_TRACES_FILE_STATUS_H_
