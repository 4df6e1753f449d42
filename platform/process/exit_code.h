// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_EXIT_CODE_H_
#define SNF_PLATFORM_PROCESS_EXIT_CODE_H_

#include "absl/status/status.h"

namespace snf {

// Exit codes of the `snf` command, after sysexits.h.
enum ExitCode : int {
  kExitOk = 0,
  kExitCheckFailed = 1,   // packets do not add up, or an invariant broke
  kExitUsage = 2,         // a flag or an argument
  kExitNf = 3,            // a network function failed (nf_guard.h)
  kExitBadData = 65,      // the contents of an input, also of an unknown kind
  kExitUnavailable = 69,  // something that this machine does not have
  kExitInternal = 70,
  kExitIo = 74,  // a file could not be opened, read or written
  kExitPermission = 77,
  kExitInterrupted = 130,  // before there was anything to bring to its end
};

// Returns the exit code of a command that ends with `status`.
inline ExitCode ExitCodeFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kUnimplemented:
      return kExitBadData;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnavailable:
      return kExitIo;
    case absl::StatusCode::kCancelled:
      return kExitInterrupted;
    case absl::StatusCode::kFailedPrecondition:
      return kExitUnavailable;
    case absl::StatusCode::kPermissionDenied:
      return kExitPermission;
    default:
      return kExitInternal;
  }
}

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_EXIT_CODE_H_
