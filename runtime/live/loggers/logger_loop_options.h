// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LIVE_LOGGERS_LOGGER_LOOP_OPTIONS_H_
#define SNF_RUNTIME_LIVE_LOGGERS_LOGGER_LOOP_OPTIONS_H_

#include <cstdint>

#include "runtime/tables/table_message.h"

namespace snf {

struct LoggerLoopOptions {
  // The loop runs the loggers of the units of the unit loop with this index
  // among `loops`.
  uint32_t index = 0;
  uint32_t loops = 1;
  uint32_t max_units = 64;
  // A unit keeps at most so many flows of which its logger has a copy.
  uint32_t max_copies = 1 << 20;
  // The controller may fail: loggers report to the next one.
  bool reports = false;
  TableOptions tables{};
  // Numbers the process that runs the loop. Any but the first, which is 0,
  // takes over from the one before it, whose end was seen.
  uint32_t process = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_LIVE_LOGGERS_LOGGER_LOOP_OPTIONS_H_
