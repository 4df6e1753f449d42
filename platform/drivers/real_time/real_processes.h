// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_PROCESSES_H_
#define SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_PROCESSES_H_

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "controller/live/controller_loop.h"
#include "platform/drivers/hosts/hosted_units.h"
#include "platform/drivers/loops/loop_region.h"
#include "platform/drivers/loops/loop_results.h"
#include "platform/drivers/loops/unit_processes.h"
#include "platform/drivers/real_time/egress.h"
#include "platform/drivers/real_time/real_faults.h"
#include "platform/drivers/real_time/real_setup.h"
#include "platform/drivers/real_time/unit_starts.h"
#include "platform/hosts/host_place.h"
#include "platform/run/figures/live_figures.h"
#include "platform/run/run.h"
#include "runtime/ring/shared_region.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/nf_call.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {

// The processes of units and loggers of a run in real time, as UnitThreads are
// the loops of a run without processes: starts them, or takes over processes
// that were kept. If units have loggers, processes may fail (RealFaults); with
// a warm pool, they come and go with their units (UnitStarts).
//
// Owner-thread only.
class RealProcesses {
 public:
  // Names what the processes are connected to.
  struct Run {
    LoopRegion& memory;
    Doorbell& bell;                  // the controller's
    const SharedRegion* tables;      // kept homes of tables; may be null
    const NetworkFunction& example;  // runs nothing
    const NfCallNames& names;
    ControllerLoop& loop;
    Egress& egress;
    RunResult& result;
    const HostPlaces& hosts;  // that stay as they are
  };

  // All references must outlive the object.
  explicit RealProcesses(const Run& run) : run_(run) {}
  RealProcesses(const RealProcesses&) = delete;
  RealProcesses& operator=(const RealProcesses&) = delete;

  // Starts the processes, each on its CPU if RealOptions::pin; takes the kept
  // ones out of `setup`. Errors: those of UnitProcesses::Start; Unavailable, a
  // process cannot be pinned.
  absl::Status Start(const NfSpec& nf, RealSetup& setup);

  bool has_started() const { return processes_ != nullptr; }
  // The following require has_started. The pointers are null if processes may
  // not fail, or do not come and go.
  UnitProcesses& all() { return *processes_; }
  const UnitProcesses& all() const { return *processes_; }
  RealFaults* faults() { return faults_.has_value() ? &*faults_ : nullptr; }
  // Null if the hosts of processes stay as they are.
  HostedUnits* hosts() const { return hosts_.get(); }
  // As RealDriver::HostOf.
  std::string_view HostOf(UnitId unit) const;
  // Adds the hosts, and names the hosts of units.
  void AddHosts(LiveFigures& figures) const;
  UnitStarts* starts() { return starts_.has_value() ? &*starts_ : nullptr; }
  // Waits for the ends of all processes, and adds the results of each loop of
  // units: none of a process that has failed.
  void AddResults(std::vector<LoopResults>& results);

 private:
  UnitProcesses::Options OptionsOf(const NfSpec& nf, RealSetup& setup) const;
  LaunchKeep KeepOf(const RealSetup& setup,
                    const std::vector<int>& regions) const;
  // Returns the CPU of each process; nothing without RealOptions::pin.
  static std::vector<int> CpusOf(const RealSetup& setup, size_t processes);

  const Run run_;
  std::unique_ptr<UnitProcesses> processes_;
  std::optional<RealFaults> faults_;
  std::unique_ptr<HostedUnits> hosts_;  // with RealOptions::host_source
  std::optional<UnitStarts> starts_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_PROCESSES_H_
