// SPDX-License-Identifier: Apache-2.0
#include "controller/core/piece_pools.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "controller/recovery/failover_rules.h"

namespace snf {

void PiecePools::Add(uint32_t first, uint32_t last) {
  SNF_CHECK(pools_.size() < kMaxPools);
  pools_.emplace_back(static_cast<uint16_t>(pools_.size()), first, last,
                      max_units_);
  timers_ = TimingWheel(static_cast<uint32_t>(pools_.size()));
}

void PiecePools::on_request(Instant now, const PieceRequest& request,
                            PieceCounters& counters, ControllerOut& out) {
  if (value(request.unit) >= max_units_) {
    ++counters.messages_faulty;
    return;
  }
  if (request.pool >= pools_.size()) {
    // The unit waits for an answer to every request, so it is refused.
    ++counters.messages_faulty;
    out.push(ControllerCommand::Pieces(
        ControllerCommand::Kind::kPieces,
        {.word = 0, .pool = request.pool, .unit = request.unit, .mask = 0}));
    return;
  }
  if (!pools_[request.pool].on_request(request.unit, request.is_ahead)) {
    ++counters.messages_faulty;
    return;
  }
  Advance(now, request.pool, counters, out);
}

void PiecePools::on_returned(Instant now, const PieceBlock& pieces,
                             PieceCounters& counters, ControllerOut& out) {
  if (value(pieces.unit) >= max_units_ || pieces.pool >= pools_.size()) {
    ++counters.messages_faulty;
    return;
  }
  PiecePool& pool = pools_[pieces.pool];
  if (pieces.mask == 0) {
    pool.on_answer(pieces.unit);
  } else {
    const bool waits =
        SNF_FAILOVER_RULE(kPiecesLast, failing_.Has(pieces.unit), false);
    const uint64_t faulty = waits ? pool.HoldBack(pieces.word, pieces.mask)
                                  : pool.on_returned(pieces.word, pieces.mask);
    counters.pieces_faulty += static_cast<uint64_t>(std::popcount(faulty));
    // Pieces of flows of another controller were not counted as granted.
    const auto back =
        static_cast<uint64_t>(std::popcount(pieces.mask & ~faulty));
    counters.pieces_out -= std::min(counters.pieces_out, back);
  }
  Advance(now, pieces.pool, counters, out);
}

void PiecePools::AddPieces(Instant now, const PieceBlock& pieces, bool were_out,
                           PieceCounters& counters, ControllerOut& out) {
  const uint64_t known =
      pools_[pieces.pool].on_returned(pieces.word, pieces.mask);
  const auto added = static_cast<uint64_t>(std::popcount(pieces.mask & ~known));
  // Pieces inherited from another controller were not counted as granted.
  if (were_out) counters.pieces_out -= std::min(counters.pieces_out, added);
  Advance(now, pieces.pool, counters, out);
}

void PiecePools::Advance(Instant now, uint32_t pool, PieceCounters& counters,
                         ControllerOut& out) {
  const size_t before = out.commands().size();
  timers_.Arm(pool, pools_[pool].Advance(now, holders_, counters, out));
  for (const ControllerCommand& command : out.commands().subspan(before)) {
    if (command.kind != ControllerCommand::Kind::kPieces ||
        command.pieces.mask == 0) {
      continue;
    }
    newest_[next_grant_] = {++grants_[value(command.unit)], command.pieces};
    next_grant_ = (next_grant_ + 1) % kMaxGrants;
  }
}

void PiecePools::on_grants_sealed(Instant now, UnitId unit, uint64_t logged,
                                  PieceCounters& counters, ControllerOut& out) {
  if (value(unit) >= max_units_) {
    ++counters.messages_faulty;
    return;
  }
  for (Grant& grant : newest_.span()) {
    if (grant.pieces.unit != unit || grant.number <= logged) continue;
    grant.number = 0;
    const PieceBlock pieces = grant.pieces;
    on_returned(now, pieces, counters, out);
  }
}

void PiecePools::Restore(const PieceBlock& out, PieceCounters& counters) {
  if (out.pool >= pools_.size()) {
    ++counters.messages_faulty;
    return;
  }
  const uint64_t faulty =
      out.mask & ~pools_[out.pool].MarkOut(out.word, out.mask);
  counters.pieces_faulty += static_cast<uint64_t>(std::popcount(faulty));
}

void PiecePools::on_unit_failed(UnitId unit) {
  failing_.Insert(unit);
  ForgetUnit(unit);
}

void PiecePools::EndHolding() {
  failing_.Clear();
  for (uint32_t i = 0; i < pools_.size(); ++i) {
    if (pools_[i].EndHolding()) timers_.Arm(i, Instant::min());
  }
}

void PiecePools::ForgetUnit(UnitId unit) {
  for (uint32_t i = 0; i < pools_.size(); ++i) {
    // The round may have waited only for this unit.
    if (pools_[i].on_unit_stopped(unit)) timers_.Arm(i, Instant::min());
  }
}

void PiecePools::on_unit_stopped(UnitId unit) {
  grants_[value(unit)] = 0;
  for (Grant& grant : newest_.span()) {
    if (grant.pieces.unit == unit) grant.number = 0;
  }
  holders_.Erase(unit);
  ForgetUnit(unit);
}

bool PiecePools::on_timer(Instant now, PieceCounters& counters,
                          ControllerOut& out) {
  if (out.room() < kMaxControllerCommandsPerStep) return false;
  const uint32_t pool = timers_.PopDue(now);
  if (pool == TimingWheel::kNone) return false;
  Advance(now, pool, counters, out);
  return true;
}

}  // namespace snf
