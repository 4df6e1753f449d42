// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_TEXT_TEXT_STYLE_H_
#define SNF_PLATFORM_TEXT_TEXT_STYLE_H_

namespace snf {

// What the place that text goes to can show.
struct TextStyle {
  int columns = 80;     // no line of prose is longer; taken as at least 72
  bool utf8 = true;     // false: ASCII only
  bool colour = false;  // bold headings, red problems (ANSI escapes)
};

}  // namespace snf

#endif  // SNF_PLATFORM_TEXT_TEXT_STYLE_H_
