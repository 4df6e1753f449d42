// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_TEXT_TERMINAL_H_
#define SNF_PLATFORM_TEXT_TERMINAL_H_

#include <cstddef>

namespace snf {

// Says what a file that text is written to can show. The defaults are those of
// a file that is no terminal.
struct Terminal {
  bool is_terminal = false;
  size_t columns = 80;  // and rows: taken for a terminal that does not say
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

#endif  // SNF_PLATFORM_TEXT_TERMINAL_H_
