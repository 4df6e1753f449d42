// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_SETUP_H_
#define SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_SETUP_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "platform/drivers/loops/loop_region.h"
#include "platform/drivers/real_time/real_options.h"
#include "platform/run/run.h"
#include "resource_manager/launch/launcher.h"
#include "runtime/live/host_store.h"
#include "runtime/ring/shared_region.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {

// Holds what a run in real time needs before its driver is made: options that
// agree, memory, and processes that were kept for it. RealDriver::Start makes
// one and takes it apart.
//
// Example: 4 threads with output loggers on 8 CPUs give a layout of 2 loops of
// units; the third worker's thread runs the loggers.
struct RealSetup {
  // Errors: InvalidArgument, options that do not agree, more threads than may
  // be or, pinned, than CPUs; those of SharedRegion.
  static absl::StatusOr<RealSetup> Make(const RunOptions& options,
                                        const RealOptions& real,
                                        const NfSpec& nf);

  RunOptions run;         // with limits of failures
  RealOptions real;       // `threads` is the number of threads
  std::vector<int> cpus;  // of the threads, if they are pinned
  bool recovers;          // processes of units may be killed
  bool may_fail;          // the controller may, or its process
  LoopRegion::Options layout;
  std::string identity;  // of what is kept; "" if nothing is
  LoopRegion region;
  std::optional<SharedRegion> tables;  // homes of shared tables that are kept
  // The records that units show each other (RealOptions::host_state).
  HostStore::Options host_of;
  std::optional<SharedRegion> host;
  // Processes to take over, whose memory `region` is; absent: the run begins
  // anew.
  std::optional<Launcher::Kept> kept;
};

// Returns the values that processes of units depend on (LaunchKeep::identity):
// a line "NAME<tab>VALUE" for each flag, and for each file that the NFs read,
// the modules and the program, whose values change with the content. A run
// takes over kept processes only if all lines are equal.
//
// Example: "--max_flows\t65536\nfile fw.txt (firewall: rules)\t34 bytes, …".
// Files that a file includes are not looked at. Reads all files; for set-up
// only.
std::string KeptIdentity(const RunOptions& options, const RealOptions& real,
                         const LoopRegion::Options& of, const NfSpec& nf);

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_SETUP_H_
