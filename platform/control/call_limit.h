// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CONTROL_CALL_LIMIT_H_
#define SNF_PLATFORM_CONTROL_CALL_LIMIT_H_

#include <string>

#include "base/time.h"

namespace snf {

// Bounds what a command waits for, whatever that is: unless this ends in time,
// the process ends with a line on stderr and kExitUnavailable. It is for
// commands that have nothing to bring to its end, beside the deadlines of the
// calls themselves, which somebody has to look at. One at a time; it takes
// SIGALRM.
class CallLimit {
 public:
  CallLimit(const std::string& line, Nanos most);
  ~CallLimit();
  CallLimit(const CallLimit&) = delete;
  CallLimit& operator=(const CallLimit&) = delete;
};

}  // namespace snf

#endif  // SNF_PLATFORM_CONTROL_CALL_LIMIT_H_
