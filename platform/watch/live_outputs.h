// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_WATCH_LIVE_OUTPUTS_H_
#define SNF_PLATFORM_WATCH_LIVE_OUTPUTS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "platform/process/metrics_server.h"
#include "platform/run/live_board.h"
#include "platform/text/terminal.h"
#include "platform/watch/live_view.h"

namespace snf {

// Shows a run in real time while it goes on: to a user on stderr (--watch), and
// to Prometheus (--metrics_port). Owner-thread only.
class LiveOutputs {
 public:
  struct Options {
    bool watch = false;
    uint16_t metrics_port = 0;  // 0: none
    bool has_readers = false;   // others look at the board
    std::string title;          // of what is watched
  };
  // Call while no other thread uses the locale (Terminal::Of). From then on
  // Prometheus is answered. Errors are those of MetricsServer.
  static absl::StatusOr<std::unique_ptr<LiveOutputs>> Create(
      Options options, LiveBoard::Done done);

  // Returns the board that figures go to; null if nobody looks.
  LiveBoard* board() {
    return options_.watch || server_ || options_.has_readers ? &board_
                                                             : nullptr;
  }

  // Begin and end the view, to which stderr belongs in between. Call each once
  // at the most; the destructor hides the view, too.
  void Show();
  void Hide() { view_.reset(); }

 private:
  LiveOutputs(Options options, LiveBoard::Done done);

  Options options_;
  Terminal terminal_;
  LiveBoard board_;
  std::unique_ptr<MetricsServer> server_;
  std::unique_ptr<LiveView> view_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_WATCH_LIVE_OUTPUTS_H_
