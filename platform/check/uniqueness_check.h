// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CHECK_UNIQUENESS_CHECK_H_
#define SNF_PLATFORM_CHECK_UNIQUENESS_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/packet/flow_key.h"
#include "runtime/sdk/piece_set.h"

namespace snf {

// Tracks the owners of things that only one flow or unit may have (I8): pieces
// of pools, and external endpoints. Messages are reported to it as the
// controller sees them, and the pieces as the NF of the SingleUnitOracle takes
// them; it knows nothing of the cores' data. Each call returns a description of
// the fault, or "".
//
// Example: the controller grants word 3 of pool 0, a flow takes piece 200 of
// it, ends, and another takes 200: in order. Had the first not ended: "took
// piece 200 of pool 0, which flow slot 7 generation 1 has".
//
// Owner-thread only. Memory: some 32 bytes for each word granted and each piece
// in use, and 100 for each alias.
class UniquenessCheck {
 public:
  std::string on_granted(const PieceBlock& pieces);
  std::string on_returned(const PieceBlock& pieces);

  // From now on units may fail, and the grants to each are kept.
  void KeepGrants() { keeps_grants_ = true; }
  // Called when the unit has failed: its grants after the first `logged` ones
  // came back. A new process of it begins, with no grants.
  void on_grants_sealed(UnitId unit, uint64_t logged);
  void on_process_begins(UnitId unit) { grants_[unit].clear(); }

  // The controller failed before it had sent them to that unit.
  void on_grant_unsent(const PieceBlock& pieces);

  std::string on_taken(FlowId flow, PoolId pool, uint32_t piece);
  void on_given_back(FlowId flow, PoolId pool, uint32_t piece);
  // Marks the flow's pieces as unknown.
  void on_pieces_gone(FlowId flow);
  // on_over: the flow has ended, so its unit may give its pieces to other flows
  // from now on. on_goes_on: the end was never sent, and the flow keeps the
  // pieces that no other flow has taken.
  void on_over(FlowId flow);
  void on_goes_on(FlowId flow) { over_.erase(flow); }

  // Pieces came back that another check knows of.
  void on_pieces_came(const PieceBlock& pieces) {
    away_[Name(pieces.pool, pieces.word)] &= ~pieces.mask;
  }
  // Returns the pieces of a flow that moves to another controller, and so to
  // another check, for on_moved_here there; none if it has ended.
  std::vector<uint64_t> PiecesOf(FlowId flow) const;
  void on_moved_here(FlowId flow, const std::vector<uint64_t>& pieces);

  // Notes a granted alias, which replaces the flow's previous one.
  std::string on_alias(const Alias& alias);
  // The flow has no alias any more, if it was set at or before `clock`.
  void on_alias_gone(FlowId flow, Clock clock);
  // The flow has none, if it was set at this clock.
  void on_alias_withdrawn(FlowId flow, Clock clock);

 private:
  struct HeldAlias {
    FlowKey key;
    Clock clock{};
  };
  static uint64_t Name(uint16_t pool, uint32_t number) {
    return uint64_t{pool} << 32 | number;
  }

  bool keeps_grants_ = false;
  absl::flat_hash_map<UnitId, std::vector<PieceBlock>> grants_;
  // All are looked up, never iterated.
  absl::flat_hash_map<uint64_t, uint64_t> away_;  // pool, word → pieces granted
  absl::flat_hash_map<uint64_t, FlowId> takers_;  // pool, piece → who has it
  absl::flat_hash_map<FlowId, std::vector<uint64_t>> pieces_;
  absl::flat_hash_set<FlowId> over_;  // of these, the flows that have ended
  absl::flat_hash_map<FlowId, HeldAlias> aliases_;
  absl::flat_hash_map<FlowKey, FlowId, FlowKeyHash> holders_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_CHECK_UNIQUENESS_CHECK_H_
