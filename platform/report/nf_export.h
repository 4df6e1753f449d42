// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_NF_EXPORT_H_
#define SNF_PLATFORM_REPORT_NF_EXPORT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "runtime/sdk/nf_report.h"

namespace snf {

// Sends the messages to their collector, and returns when the last is handed to
// the kernel. Unavailable names the collector and the reason: no such host, no
// answer within seconds, refused. Messages over UDP may be lost on the way;
// they leave at most kUdpBytesPerSecond, so that a collector can follow.
absl::Status SendExport(const NfReport::Export& exported);

inline constexpr int64_t kUdpBytesPerSecond = 20'000'000;

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_NF_EXPORT_H_
