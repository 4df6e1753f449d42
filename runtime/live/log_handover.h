// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LIVE_LOG_HANDOVER_H_
#define SNF_RUNTIME_LIVE_LOG_HANDOVER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "runtime/core/unit.h"
#include "runtime/live/unit_logs.h"
#include "runtime/logger/log_entry.h"
#include "runtime/ring/loop_control.h"
#include "runtime/ring/thread_link.h"
#include "runtime/sdk/state_schema.h"
#include "runtime/shell/kept_report.h"
#include "runtime/wire/kept_word.h"

namespace snf {

// Hands over all that the units of a loop keep to a new process of their
// loggers (proto/protocol.md F8): of each unit what its LogKeeper has, then its
// flows' records, as of its newest entry, and their names. Of a flow's clocks
// those count as released whose entries are; the others are in the ring of
// entries still, out of which the new process releases them. The record of a
// flow that waits for its alias is more than its entries say: it goes over all
// the same, marked, since the next entry of that flow has the whole record.
//
// Worked example: of flow 7 clock 9 is applied, and the entries of clocks 8 and
// 9 are not released. The record goes over as of clock 9, with 7 as released.
//
// Owner-thread only. Allocates as much as one unit's keeper shows, and its
// names; and a node for each flow with clocks that are not released.
class LogHandover {
 public:
  // The schema is that of the units' NF, and must outlive the object.
  LogHandover(LinkOut link, const StateSchema& schema);

  // Names what the loop has of a unit.
  struct Kept {
    const Unit* unit;
    const KeptReport* names;
  };
  // Returns true while another process of loggers is to get what units keep.
  bool is_due(const LoopControl& control) const {
    return control.logger_process.load(std::memory_order_relaxed) != done_;
  }
  // Returns the process that Begin was called for last; 0: it never was.
  uint32_t process() const { return process_; }
  // Begins the handover to the process of that number; one that is under way is
  // void. Until Send returns true neither the units nor `logs` may change.
  void Begin(uint32_t process, const UnitLogs& logs, std::vector<Kept> units);
  // Goes on as far as there is room; returns true if that was all.
  bool Send();

 private:
  bool SendUnit(const Kept& kept);
  void SendRecord(const Unit& unit, const Unit::LoggedFlow& flow);
  void SendNames(const Kept& kept);
  void SendEntry(UnitId unit, bool is_ahead, std::span<const std::byte> bytes);

  LinkOut link_;
  const StateSchema* schema_;
  uint32_t process_ = 0;
  uint32_t done_ = 0;  // the process that has got all
  const UnitLogs* logs_ = nullptr;
  std::vector<Kept> units_;  // to hand over
  size_t next_ = 0;          // of them
  bool has_begun_ = false;   // that one
  uint32_t at_ = 0;          // among its flows
  bool has_ended_ = true;
  std::map<std::pair<UnitId, FlowId>, Clock> released_;  // if not all are
  std::vector<std::byte> entry_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_LIVE_LOG_HANDOVER_H_
