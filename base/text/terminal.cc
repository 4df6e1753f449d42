// SPDX-License-Identifier: Apache-2.0
#include "base/text/terminal.h"

#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <cstring>

namespace snf {

Terminal Terminal::Of(int descriptor) {
  Terminal terminal;
  terminal.is_terminal = isatty(descriptor) != 0;
  if (!terminal.is_terminal) return terminal;
  terminal.Measure(descriptor);
  std::setlocale(LC_CTYPE, "");
  terminal.utf8 = std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
  terminal.colour = std::getenv("NO_COLOR") == nullptr;
  return terminal;
}

void Terminal::Measure(int descriptor) {
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) != 0) return;
  if (size.ws_col > 0) columns = size.ws_col;
  if (size.ws_row > 0) rows = size.ws_row;
}

}  // namespace snf
