// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_TEXT_TERMINAL_H_
#define SNF_PLATFORM_TEXT_TERMINAL_H_

#include <cstddef>

namespace snf {

// What a file that text is written to can show.
struct Terminal {
  bool is_terminal = false;
  size_t columns = 80;  // as rows, of a terminal that does not say
  size_t rows = 24;
  bool utf8 = true;     // also of what is no terminal
  bool colour = false;  // a terminal, unless NO_COLOR is set

  // Sets the program's LC_CTYPE to the user's: no other thread may run.
  static Terminal Of(int descriptor);
  // Columns and rows as they are now.
  void Measure(int descriptor);
};

}  // namespace snf

#endif  // SNF_PLATFORM_TEXT_TERMINAL_H_
