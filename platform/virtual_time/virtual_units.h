// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_VIRTUAL_TIME_VIRTUAL_UNITS_H_
#define SNF_PLATFORM_VIRTUAL_TIME_VIRTUAL_UNITS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "base/time.h"
#include "platform/run/run.h"
#include "platform/virtual_time/log_channel.h"
#include "runtime/core/unit.h"
#include "runtime/core/unit_options.h"
#include "runtime/sdk/nf.h"

namespace snf {

// A unit and what surrounds it in virtual time.
struct VirtualUnit {
  Unit unit;
  std::unique_ptr<NetworkFunction> nf;
  std::unique_ptr<LogChannel> log;  // null without loggers
  bool ready = false;
  Instant timer = Instant::max();  // when the earliest wake-up under way comes
};

// The units of a run in virtual time, each made when it is first asked for.
// Owner-thread only.
class VirtualUnits {
 public:
  // The units run `nf`, guarded at each packet (UnitOptions::guard_every), of
  // which `example` is one that runs nothing and must
  // outlive the object. Ids are below `max_units`.
  VirtualUnits(const UnitOptions& options, const NfSpec& nf,
               const NetworkFunction& example, uint32_t max_units);

  VirtualUnit& of(UnitId unit) {
    const std::unique_ptr<VirtualUnit>& made = units_[value(unit)];
    return made != nullptr ? *made : Make(unit);
  }

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
  bool stops_timers_ = false;
  std::vector<std::unique_ptr<VirtualUnit>> units_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_VIRTUAL_TIME_VIRTUAL_UNITS_H_
