// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_LOGGER_FAULTS_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_LOGGER_FAULTS_H_

#include "base/rng.h"
#include "base/time.h"
#include "platform/drivers/virtual_time/virtual_event.h"
#include "platform/drivers/virtual_time/virtual_loggers.h"
#include "platform/drivers/virtual_time/virtual_network.h"
#include "platform/drivers/virtual_time/virtual_units.h"
#include "platform/run/run.h"

namespace snf {

// The failures of loggers in a run in virtual time (proto/protocol.md L3, F8):
// what is lost with one, and how another takes its place.
//
//   death ─detection─► a new logger ◄─ all that the unit keeps ─ unit
//                          │ asks for entries that were not released
//
// The unit goes on meanwhile; its entries wait for the new logger. Entries that
// a logger's host had not released die with the host, and count as released. A
// ring that outlives its logger's process keeps them, but for an entry that was
// noted as released and not yet sent.
//
// Owner-thread only.
class LoggerFaults {
 public:
  // All references must outlive the object.
  LoggerFaults(const RunOptions& options, VirtualNetwork& network,
               VirtualLoggers& loggers, FaultFigures& figures);

  // Returns true if the unit runs, and its logger can be replaced.
  static bool CanDie(const VirtualUnit& shell);
  void KillLogger(Instant now, Kill::Victim form, VirtualUnit& shell, Rng& rng);
  // Returns true if the event is for a logger that is not there.
  static bool IsLost(const VirtualEvent& event, const VirtualUnit& shell);
  // The next logger asks the unit for all that it keeps.
  void on_ready(VirtualUnit& shell);
  // The next logger has all that, and takes over.
  void on_restored(VirtualUnit& shell);

 private:
  const Nanos detection_;
  const Nanos logger_delay_;
  VirtualNetwork& network_;
  VirtualLoggers& loggers_;
  FaultFigures& figures_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_LOGGER_FAULTS_H_
