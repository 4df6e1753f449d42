// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_CONSOLE_H_
#define SNF_PLATFORM_PROCESS_CONSOLE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "platform/text/progress.h"

namespace snf {

// Shows progress on stderr, by the machine's clock, as long as what it returns
// lives. `total_bytes` is 0 where it is not known.
std::unique_ptr<Progress> ShowProgress(const std::string& label,
                                       uint64_t total_bytes, bool quiet);

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_CONSOLE_H_
