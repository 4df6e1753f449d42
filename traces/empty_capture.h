// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_EMPTY_CAPTURE_H_
#define SNF_TRACES_EMPTY_CAPTURE_H_

#include "absl/status/status.h"

namespace snf {

// Returns true if `status` is the error of CaptureReader about a whole capture
// without packets. A capture that is cut off has another error.
bool IsEmptyCapture(const absl::Status& status);

}  // namespace snf

#endif  // SNF_TRACES_EMPTY_CAPTURE_H_
