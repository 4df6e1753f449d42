// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SHELL_LOG_FIGURES_H_
#define SNF_RUNTIME_SHELL_LOG_FIGURES_H_

#include <cstdint>

namespace snf {

// Counts the entries that units sent their output loggers.
struct UnitLogFigures {
  uint64_t entries = 0;
  uint64_t bytes = 0;        // bytes of entries
  uint64_t whole = 0;        // entries with a whole record
  uint64_t partial = 0;      // entries with the changes of a record
  uint64_t delta_bytes = 0;  // bytes of records and changes
  uint64_t full = 0;  // times that the ring had no room for all, in real time
};

}  // namespace snf

#endif  // SNF_RUNTIME_SHELL_LOG_FIGURES_H_
