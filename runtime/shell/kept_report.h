// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SHELL_KEPT_REPORT_H_
#define SNF_RUNTIME_SHELL_KEPT_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/messages/report_messages.h"

namespace snf {

// Theory of operation. Data kept at a unit for a new controller, which outlive
// the unit like its logger (proto/protocol.md F9, F10):
//
//   names   the controller's names of flows (FlowName), and the previous name
//           of a flow whose alias has changed since: the clock of the newer
//           alias may be lost (U9)
//   pieces  a ledger, a bit for each piece, flipped by each grant that came and
//           each return that the controller accepted
//   grants  grants that the unit's logger does not know yet
//
// A piece goes with the state of its flow, so it may come to one unit and
// return from another: a unit's ledger alone does not show its pieces. But the
// XOR of the ledgers of all units shows which pieces are not at the controller.
//
// Worked example: unit 0 is granted pieces 0-63 and returns all but piece 5,
// which flow 7 has: its ledger has piece 5. The flow moves to unit 1 and ends
// there, and unit 1 returns piece 5: its ledger has piece 5 as well. The XOR of
// both has none.
//
// A value; owner-thread only. Grows with the flows that are kept, and with the
// words of pools that were granted.
class KeptReport {
 public:
  // When there are many, forgets names of flows of which nothing is kept any
  // more, except recent ones: their packets follow.
  void on_name(const FlowName& name, absl::FunctionRef<bool(FlowId)> keeps);

  // A grant came to the unit, which numbers them 1, 2, 3 …
  void on_grant(const PieceBlock& pieces);
  // The logger knows of the grants up to that number.
  void on_grants_logged(uint64_t number);
  // The controller has taken these back.
  void on_returned(const PieceBlock& pieces) { TurnOver(pieces); }
  // The unit has failed: its grants after the first `logged` are the
  // controller's again.
  void on_grants_sealed(uint64_t logged);
  // Begins with a new process of the unit. Names of flows that the logger
  // `keeps` from the previous process stay.
  void BeginAnew(absl::FunctionRef<bool(FlowId)> keeps);

  // Calls `visit` for each name, of the ledger and for each unlogged grant.
  void ForEachName(absl::FunctionRef<void(const FlowName&)> visit) const;
  void ForEachWord(UnitId unit,
                   absl::FunctionRef<void(const PieceBlock&)> visit) const;
  void ForEachGrant(absl::FunctionRef<void(const GrantReport&)> visit) const;
  uint64_t grants() const { return grants_; }
  size_t names() const { return names_.size(); }

 private:
  static constexpr size_t kFewNames = 64;
  struct Kept {
    FlowName name;
    FlowName before;     // kNoFlow: none with another alias
    uint64_t round = 0;  // of forgetting in which it came
  };

  void TurnOver(const PieceBlock& pieces) {
    ledger_[{pieces.pool, pieces.word}] ^= pieces.mask;
  }

  std::map<FlowId, Kept> names_;
  size_t forget_at_ = kFewNames;
  uint64_t round_ = 0;
  std::map<std::pair<uint16_t, uint32_t>, uint64_t> ledger_;
  std::deque<GrantReport> unlogged_;
  uint64_t grants_ = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_SHELL_KEPT_REPORT_H_
