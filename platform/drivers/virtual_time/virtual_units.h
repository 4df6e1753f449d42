// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_VIRTUAL_UNITS_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_VIRTUAL_UNITS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "base/messages/failure_messages.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "platform/drivers/virtual_time/log_channel.h"
#include "platform/run/run.h"
#include "runtime/core/unit.h"
#include "runtime/core/unit_options.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/nf_spec.h"
#include "runtime/shell/unit_shell.h"

namespace snf {

// A unit's process where units fail (RunOptions::faults).
struct UnitProcess {
  // kDead: died, and not detected yet. kFailed: the controller knows of the
  // death. kStopped: ended in good order.
  enum class State : uint8_t { kRuns, kDead, kFailed, kStopped };
  struct Inside {
    PacketHandle packet = kNoPacket;
    PacketMeta meta;
  };
  bool lives() const {
    return state == State::kRuns || state == State::kStopped;
  }

  State state = State::kRuns;
  bool is_up = false;  // counted as in use
  // Numbers of the channel with the controller, and of the process that the
  // logger logs.
  uint16_t life = 1;
  uint16_t log_life = 1;
  // Epochs of the controllers to which the unit, and its logger, reported last.
  uint16_t epoch = 0;
  uint16_t log_epoch = 0;
  uint32_t in_channel = 0;  // slots of the channel in use
  uint32_t waiting = 0;     // packets that are to be run again
  Instant died;
  Seal seal;          // the newest
  uint64_t told = 0;  // newest entry whose news has reached the controller
  // Packets in the unit, also without payload.
  std::map<std::pair<FlowId, Clock>, Inside> inside;
};

// Counts the packets between the controller and units of a run in virtual time,
// in all units and in the process of each: slots of channels in use, and
// packets in units that wait to be run again. Owner-thread only.
class ChannelUse {
 public:
  uint64_t slots() const { return slots_; }
  uint64_t waiting() const { return waiting_; }
  // Returns when a packet last left a unit.
  Instant last_drain() const { return last_drain_; }
  // Says that no unit is expected to have drained a packet before `time`.
  void BeginEnd(Instant time) { last_drain_ = std::max(last_drain_, time); }

  // The controller sent a packet, which its failure may then undo.
  void on_enqueue(UnitProcess& process) {
    ++slots_;
    ++process.in_channel;
  }
  void on_unsent(UnitProcess& process) {
    --slots_;
    --process.in_channel;
  }
  // A packet left the unit.
  void on_drained(UnitProcess& process, Instant now) {
    --slots_;
    --process.in_channel;
    last_drain_ = now;
  }
  // A packet waits in the unit, and is served again.
  void on_wait(UnitProcess& process) {
    ++waiting_;
    ++process.waiting;
  }
  void on_served_again(UnitProcess& process) {
    --waiting_;
    --process.waiting;
  }
  // The process has died with all its packets.
  void on_failure(UnitProcess& process) {
    slots_ -= std::exchange(process.in_channel, 0);
    waiting_ -= std::exchange(process.waiting, 0);
  }

 private:
  uint64_t slots_ = 0;
  uint64_t waiting_ = 0;
  Instant last_drain_ = Instant::min();
};

// A unit with its logger and its process.
struct VirtualUnit : UnitShell {
  std::unique_ptr<LogChannel> log;  // null without loggers
  bool stopping = false;            // a Stop is on its way, or has come
  Instant timer = Instant::max();   // when the earliest wake-up under way comes
  UnitProcess process{};
};

// The units of a run in virtual time, each made at its first use.
// Owner-thread only.
class VirtualUnits {
 public:
  // The units run `nf`, guarded at each packet (UnitOptions::guard_every).
  // `example` is such an NF that runs nothing; it must outlive the object. Ids
  // are below `max_units`. If `logs_tables`, updates of shared tables are
  // logged.
  VirtualUnits(const UnitOptions& options, const NfSpec& nf,
               const NetworkFunction& example, uint32_t max_units,
               bool loggers_fail, bool logs_tables);

  VirtualUnit& of(UnitId unit) {
    const std::unique_ptr<VirtualUnit>& made = units_[value(unit)];
    return made != nullptr ? *made : Make(unit);
  }

  // Begins a new process of the unit, with an empty unit and NF. Counts of the
  // old ones are kept. References that `of` returned for the unit are invalid.
  void Renew(UnitId unit);

  // Count the flows whose state units keep: without, and only, replicas.
  uint64_t flows() const;
  uint64_t replicas() const;

  // Stops the timers of all units' NFs, also of units made later.
  // Costs nothing from the second call on.
  void StopTimers();

  // Calls `visit` for each unit that was made.
  void ForEach(absl::FunctionRef<void(VirtualUnit&)> visit);

  // Adds what units and their NFs have counted.
  void AddTotals(RunResult& result) const;

 private:
  VirtualUnit& Make(UnitId unit);

  UnitOptions options_;
  NfSpec nf_;
  const NetworkFunction& example_;
  StateSchema schema_;
  bool loggers_fail_;
  bool logs_tables_;
  std::vector<TableShape> tables_;  // that are logged
  bool stops_timers_ = false;
  std::vector<std::unique_ptr<VirtualUnit>> units_;
  // Counts of processes that have ended.
  UnitCounters former_;
  std::vector<uint64_t> former_counts_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_VIRTUAL_UNITS_H_
