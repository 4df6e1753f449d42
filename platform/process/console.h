// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_CONSOLE_H_
#define SNF_PLATFORM_PROCESS_CONSOLE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "platform/text/progress.h"
#include "platform/text/text_style.h"

namespace snf {

// What an open file that is printed to can show.
TextStyle StyleOf(int descriptor);

// Writes a file that gets its name only when it is complete; "-" is stdout.
// Errors name the path and the reason.
absl::Status WriteText(const std::string& path, const std::string& text);

// Progress on stderr, by the machine's clock. `total_bytes` may be 0: unknown.
std::unique_ptr<Progress> ShowProgress(const std::string& label,
                                       uint64_t total_bytes, bool quiet);

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_CONSOLE_H_
