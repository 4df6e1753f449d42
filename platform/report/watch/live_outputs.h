// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_WATCH_LIVE_OUTPUTS_H_
#define SNF_PLATFORM_REPORT_WATCH_LIVE_OUTPUTS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/text/terminal.h"
#include "platform/process/metrics_server.h"
#include "platform/report/watch/live_view.h"
#include "platform/run/figures/live_board.h"

namespace snf {

// Shows a run in real time while it runs: to a user on stderr (--watch), and to
// Prometheus (--metrics_port). Owner-thread only.
class LiveOutputs {
 public:
  struct Options {
    bool watch = false;
    MetricsServer::Options metrics{};  // port 0: none
    bool has_readers = false;          // the board has other readers
    std::string title;                 // of the watched run
  };
  // Call while no other thread uses the locale (Terminal::Of). From then on
  // Prometheus is answered. Errors as in MetricsServer, with the flag.
  static absl::StatusOr<std::unique_ptr<LiveOutputs>> Create(
      Options options, LiveBoard::Done done);

  // Returns the board for the figures; null if no output is on.
  LiveBoard* board() {
    return options_.watch || server_ || options_.has_readers ? &board_
                                                             : nullptr;
  }

  // Begin and end the view, to which stderr belongs in between. Call each at
  // most once; the destructor hides the view, too.
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

#endif  // SNF_PLATFORM_REPORT_WATCH_LIVE_OUTPUTS_H_
