// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_TEXT_TERMINAL_H_
#define SNF_BASE_TEXT_TERMINAL_H_

#include <cstddef>

namespace snf {

// Describes how a file can show text. The defaults are those of a file that is
// not a terminal.
struct Terminal {
  bool is_terminal = false;
  size_t columns =
      80;  // columns and rows assumed for a terminal that reports none
  size_t rows = 24;
  bool utf8 = true;     // false: ASCII only
  bool colour = false;  // ANSI escapes; a terminal, unless NO_COLOR is set

  // Looks at an open file. Sets the program's LC_CTYPE to the user's, so no
  // other thread may use the locale meanwhile.
  static Terminal Of(int descriptor);
  // Takes over the columns and rows that the terminal has now.
  void Measure(int descriptor);
};

}  // namespace snf

#endif  // SNF_BASE_TEXT_TERMINAL_H_
