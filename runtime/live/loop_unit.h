// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LIVE_LOOP_UNIT_H_
#define SNF_RUNTIME_LIVE_LOOP_UNIT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/counters.h"
#include "base/time.h"
#include "runtime/live/paced_service.h"
#include "runtime/live/unit_loop_options.h"
#include "runtime/sdk/nf.h"
#include "runtime/shell/kept_report.h"
#include "runtime/shell/unit_shell.h"
#include "runtime/tables/unit_tables.h"

namespace snf {

// A unit of a loop (unit_loop.h), with the state that the parts of the loop
// have for the unit.
struct LoopUnit : UnitShell {
  UnitTables tables;
  bool is_listed = false;    // in the list of PacketServer
  uint32_t asked_round = 0;  // of a DoneQuery without an answer; 0: none
  bool awaits_turn = false;  // of UnitTurns: its packet is not served yet
  bool has_left = false;     // nothing of its controller is here
  PacedService service{};    // of a unit with a capacity
  uint32_t incarnation = 0;  // 0: it was never started
  KeptReport kept{};         // for another controller

  // Adds what the unit and its NF counted.
  void AddTo(UnitLoopFigures& figures) const {
    AddCounters(figures.state.units, unit.counters());
    size_t i = 0;
    for (const NetworkFunction::Part& part : nf->parts()) {
      for (const uint64_t n : part.nf->counts()) {
        if (i == figures.nf_counts.size()) figures.nf_counts.push_back(0);
        figures.nf_counts[i++] += n;
      }
    }
  }
  Instant next_timer() const {
    return std::min(unit.next_wakeup(), tables.next_wakeup());
  }
};

}  // namespace snf

#endif  // SNF_RUNTIME_LIVE_LOOP_UNIT_H_
