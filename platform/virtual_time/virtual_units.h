// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_VIRTUAL_TIME_VIRTUAL_UNITS_H_
#define SNF_PLATFORM_VIRTUAL_TIME_VIRTUAL_UNITS_H_

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
#include "platform/run/run.h"
#include "platform/virtual_time/log_channel.h"
#include "runtime/core/unit.h"
#include "runtime/core/unit_options.h"
#include "runtime/sdk/nf.h"

namespace snf {

// What is known of a unit's process where units fail (RunOptions::faults).
struct UnitProcess {
  // kDead: nobody knows it yet. kFailed: the controller does. kStopped: it is
  // gone in good order.
  enum class State : uint8_t { kRuns, kDead, kFailed, kStopped };
  struct Inside {
    PacketHandle packet = kNoPacket;
    PacketMeta meta;
  };
  bool lives() const {
    return state == State::kRuns || state == State::kStopped;
  }

  State state = State::kRuns;
  bool is_up = false;  // counts as in use
  // The number of its channel with the controller, and that of the process that
  // its logger logs.
  uint16_t life = 1;
  uint16_t log_life = 1;
  // Of the controllers to which it and its logger have reported last.
  uint16_t epoch = 0;
  uint16_t log_epoch = 0;
  uint32_t in_channel = 0;  // slots of the channel in use
  uint32_t waiting = 0;     // packets here that are to be run again
  Instant died;
  Seal seal;          // the newest
  uint64_t told = 0;  // entries whose tells have reached the controller
  // Packets that it has, also those without payload.
  std::map<std::pair<FlowId, Clock>, Inside> inside;
};

// A unit and what surrounds it in virtual time.
struct VirtualUnit {
  Unit unit;
  std::unique_ptr<NetworkFunction> nf;
  std::unique_ptr<LogChannel> log;  // null without loggers
  bool ready = false;
  bool stopping = false;  // a Stop is on its way, or has come
  bool leaves = false;  // with shared units: its controller sends nothing more
  Instant timer = Instant::max();  // when the earliest wake-up under way comes
  UnitProcess process{};
};

// The units of a run in virtual time, each made when it is first asked for.
// Owner-thread only.
class VirtualUnits {
 public:
  // The units run `nf`, guarded at each packet (UnitOptions::guard_every), of
  // which `example` is one that runs nothing and must
  // outlive the object. Ids are below `max_units`.
  VirtualUnits(const UnitOptions& options, const NfSpec& nf,
               const NetworkFunction& example, uint32_t max_units,
               bool loggers_fail);

  VirtualUnit& of(UnitId unit) {
    const std::unique_ptr<VirtualUnit>& made = units_[value(unit)];
    return made != nullptr ? *made : Make(unit);
  }

  // A new process of the unit begins, with a unit and an NF that know nothing;
  // what the old ones have counted is kept. `of` has to be called again.
  void Renew(UnitId unit);

  // The flows whose state units keep: without, and only, replicas.
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
  bool stops_timers_ = false;
  std::vector<std::unique_ptr<VirtualUnit>> units_;
  // What units and NFs have counted that are gone.
  UnitCounters former_;
  std::vector<uint64_t> former_counts_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_VIRTUAL_TIME_VIRTUAL_UNITS_H_
