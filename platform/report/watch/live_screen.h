// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_WATCH_LIVE_SCREEN_H_
#define SNF_PLATFORM_REPORT_WATCH_LIVE_SCREEN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/text/terminal.h"
#include "platform/run/figures/live_figures.h"

namespace snf {

// A line without its end, one column a character.
struct LiveText {
  enum class Tone : uint8_t { kPlain, kHeading, kAlarm };
  std::string text;
  Tone tone = Tone::kPlain;
};

// The live view of a run, narrower than the columns and of fewer lines than the
// rows. Rates, and what units do, are between `before` and `now`. Where there
// are more units than rows, it has the busiest. A pure function.
//
//   small.pcap.zst: nat under policy snf
//   12.0 s at 1x, 41 %                now   on average      in all
//   Packets in                   9,211 /s     9,180 /s     110,512
//   …
//   Units   5 up, 300 Mbit/s each
//       0  ████████████▌·······   62 %   187 Mbit/s
std::vector<LiveText> LiveScreen(const std::string& title,
                                 const LiveFigures& before,
                                 const LiveFigures& now,
                                 const Terminal& terminal);

// Tells the same in a line of ASCII, for logs.
std::string LiveLine(const LiveFigures& before, const LiveFigures& now);

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_WATCH_LIVE_SCREEN_H_
