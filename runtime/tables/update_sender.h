// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_TABLES_UPDATE_SENDER_H_
#define SNF_RUNTIME_TABLES_UPDATE_SENDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "runtime/logger/update_log.h"
#include "runtime/tables/table_message.h"

namespace snf {

// Theory of operation. Sends a unit's logged updates of shared tables to the
// tables' homes, in place of a TableReplica (proto/protocol.md T3, T4):
//
//   logger ─ kLogged    merged, seq, key + delta …  ─► home
//          ◄ kLoggedAck merged                      ─
//
// A message holds the updates of one incarnation behind number `merged` up to
// `seq`, merged by key. The home merges the message only if `merged` is the
// number up to which it has the incarnation's updates already, 0 for a new
// incarnation, and answers with incarnation and number as they are then. So
// each update counts once, in whichever messages it is sent, and however often.
// Updates of an incarnation are sent once all earlier incarnations' are merged.
//
// Worked example: a logger sends (3, 8], which is merged, and dies. Its
// successor, which the unit gave the updates behind 3, sends (3, 12]. The home
// refuses, and answers 8; the successor sends (8, 12].
//
// Owner-thread only.
class UpdateSender {
 public:
  UpdateSender(UnitId unit, const TableOptions& options, size_t tables);

  // Takes an answer of a home, of which `log` hears. Returns true if it filled
  // `out` with a message to be sent.
  bool on_message(Instant now, const TableMessage& in, UpdateLog& log,
                  TableMessage& out);
  // The unit has ended: makes all updates due at once.
  void Hurry(const UpdateLog& log);
  // Does one thing that is due. Returns as on_message; the caller calls it
  // until it returns false.
  bool on_timers(Instant now, const UpdateLog& log, TableMessage& out);
  // Returns when on_timers wants to be called; Instant::max() for never.
  Instant next_wakeup(const UpdateLog& log) const;
  uint64_t repeated(size_t table) const { return tables_[table].repeated; }

 private:
  struct Table {
    Instant due = Instant::min();  // of the next message
    // As UpdateLog::added counts:
    uint64_t sent = 0;       // up to the last update sent
    uint64_t round_end = 0;  // up to the last update of the round
    uint64_t repeated = 0;
  };

  TableMessage Make(uint16_t table, const UpdateLog& log) const;

  UnitId unit_;
  TableOptions options_;
  std::vector<Table> tables_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_TABLES_UPDATE_SENDER_H_
