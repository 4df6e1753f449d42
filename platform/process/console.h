// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_CONSOLE_H_
#define SNF_PLATFORM_PROCESS_CONSOLE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/text/progress.h"

namespace snf {

// Shows progress on stderr, by the machine's clock, while the returned object
// lives. `total_bytes` is 0 if unknown.
std::unique_ptr<Progress> ShowProgress(const std::string& label,
                                       uint64_t total_bytes, bool quiet);

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_CONSOLE_H_
