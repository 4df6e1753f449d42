// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_EMPTY_CAPTURE_H_
#define SNF_TRACES_EMPTY_CAPTURE_H_

#include "absl/status/status.h"

namespace snf {

// Returns true if `status` is the error of CaptureReader about a capture that
// is whole and has no packet, as one of traffic that did not come. A capture
// without packets that is cut off, or is no capture, is none.
bool IsEmptyCapture(const absl::Status& status);

}  // namespace snf

#endif  // SNF_TRACES_EMPTY_CAPTURE_H_
