// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPLAY_LIVE_RUN_H_
#define SNF_PLATFORM_REPLAY_LIVE_RUN_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "platform/live/live_chains.h"
#include "platform/live/live_traffic.h"
#include "platform/process/clean_interrupt.h"
#include "platform/process/exit_code.h"
#include "platform/process/mailbox.h"
#include "platform/real_time/real_driver.h"
#include "platform/replay/replay_options.h"
#include "platform/replay/replay_run.h"
#include "platform/run/live_board.h"
#include "platform/run/run_events.h"

namespace snf {

// Looks at a live run, and steers it. All calls are made on its thread.
class LiveSteering {
 public:
  virtual ~LiveSteering() = default;
  // Makes a driver for another chain of the run; on any thread.
  using StartDriver = std::function<absl::StatusOr<std::unique_ptr<RealDriver>>(
      const ReplayOptions& options)>;
  // A chain of a run that was killed, with which this one goes on.
  struct Kept {
    ReplayOptions options;  // with RealOptions::keep
    uint32_t number = 1;
    bool is_newest = true;
    // Flows of the chains before begin anew then (LiveChains::Inherit).
    Instant end_of_older = Instant::max();
  };
  // Returns the next one of these, the newest as the last, whose processes may
  // have ended; none: there is no other. Without any the run begins with the
  // chain of its options. Called before Begin.
  virtual absl::StatusOr<std::optional<Kept>> NextKept() = 0;
  // Everything is there, and packets are about to be taken. The chains live
  // until the mailbox is closed, the others until End. An error ends the run.
  virtual absl::Status Begin(LiveTraffic& traffic, LiveChains& chains,
                             const StartDriver& start,
                             const LiveBoard& board) = 0;
  // A process of units or loggers was killed, or an interface is lost; or it is
  // back.
  virtual void Notice(std::string_view line) = 0;
  // Nothing is under way any more, and all chains have ended.
  virtual void End(LiveChains& chains) = 0;
  // Returns true if this run takes the place of another one.
  virtual bool is_successor() const = 0;
  // Opened between batches; closed once no packet is taken any more.
  virtual Mailbox& mailbox() = 0;
  // Sees the run; may be null.
  virtual RunObserver* observer() = 0;
  // A chain has ended; says so in a line.
  virtual void on_chain_ended(const std::string& line) = 0;
};

// Tells what came of a live run: the result, and how the ports ended.
struct LiveRun {
  ReplayedRun replayed;
  std::string nf;  // of the last chain
  absl::Status ports;
};

// Runs live traffic between the ports until it is interrupted. `steering` may
// be null: then what begins is told on stderr. Errors are those of ports,
// outputs and RealDriver.
absl::StatusOr<LiveRun> RunPorts(const ReplayOptions& options,
                                 FirstInterrupt& interrupt,
                                 LiveSteering* steering = nullptr);

// Writes the report. Returns the exit code, or the error that ended the run.
absl::StatusOr<ExitCode> ReportOf(const ReplayOptions& options,
                                  const LiveRun& live);

// Lists ports: "inside=lan0, outside=wan0".
std::string ListOf(const std::vector<PortSpec>& ports);

}  // namespace snf

#endif  // SNF_PLATFORM_REPLAY_LIVE_RUN_H_
