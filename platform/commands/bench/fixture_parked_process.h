// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_BENCH_FIXTURE_PARKED_PROCESS_H_
#define SNF_PLATFORM_COMMANDS_BENCH_FIXTURE_PARKED_PROCESS_H_

#include <sys/types.h>

#include <memory>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace snf {

// For benchmarks: a process that has a unit with a NAT loaded and run once, and
// starts such units in two ways.
//
//   this ──fork──► loader ──fork──► parked unit, there before it is wanted
//                     └──fork──► unit, when it is wanted
//
// Packets and times are in memory that all share. All end with this. Make it
// while this process is small. Owner-thread only.
class ParkedProcess {
 public:
  // Error: Unavailable, with the system's reason.
  static absl::StatusOr<std::unique_ptr<ParkedProcess>> Start();
  ParkedProcess(const ParkedProcess&) = delete;
  ParkedProcess& operator=(const ParkedProcess&) = delete;
  ~ParkedProcess();

  // Return how long it takes from the wish for a unit until its first packet is
  // done: Wake of the parked unit, after a millisecond of rest, Fork of a new
  // one, as its loader sees it. A unit that spins looks for packets instead of
  // sleeping, on a CPU of its own if there are several. Returns Nanos::max() if
  // no packet is done within a second.
  Nanos Wake(bool spins);
  Nanos Fork();

 private:
  struct Board;

  ParkedProcess(Board& board, pid_t loader) : board_(board), loader_(loader) {}
  static int Load(Board& board);
  static int Park(Board& board);

  Board& board_;
  const pid_t loader_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_BENCH_FIXTURE_PARKED_PROCESS_H_
