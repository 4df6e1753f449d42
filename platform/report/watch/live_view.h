// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_WATCH_LIVE_VIEW_H_
#define SNF_PLATFORM_REPORT_WATCH_LIVE_VIEW_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "platform/report/watch/live_screen.h"
#include "platform/run/figures/live_board.h"

namespace snf {

// A part of a terminal, from the cursor's line on, that is drawn again and
// again. Returns the text to write for that. Between two calls nothing else may
// be written. There is nothing to restore: the cursor is never hidden, and
// stands below the text. A value; owner-thread only.
class LiveCanvas {
 public:
  explicit LiveCanvas(bool colour) : colour_(colour) {}

  // Returns the text that draws the lines in place of the previous ones, some
  // of which may be broken in a terminal that is now `columns` wide.
  std::string Draw(const std::vector<LiveText>& lines, size_t columns);
  // Returns the text that restores the terminal as it was before the first
  // Draw.
  std::string Wipe(size_t columns);

 private:
  std::string ToTop(size_t columns) const;

  bool colour_;
  std::vector<size_t> drawn_;  // columns of each line
};

// Shows a run as long as this lives, by a thread of its own: on a terminal
// LiveScreen, drawn for each figures on the board and wiped at the end;
// elsewhere a LiveLine every two seconds.
class LiveView {
 public:
  struct Options {
    std::string title;
    std::function<Terminal()> terminal;           // asked for each drawing
    std::function<void(std::string_view)> write;  // unbuffered
  };
  // The board must outlive the view; `write` is called by its thread alone.
  LiveView(LiveBoard& board, Options options);
  // Closes the board.
  ~LiveView();
  LiveView(const LiveView&) = delete;
  LiveView& operator=(const LiveView&) = delete;

 private:
  void Run();

  LiveBoard& board_;
  Options options_;
  LiveCanvas canvas_;
  std::thread thread_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_WATCH_LIVE_VIEW_H_
