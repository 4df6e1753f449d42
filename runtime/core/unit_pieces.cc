// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/unit_pieces.h"

#include <bit>

#include "base/check.h"

namespace snf {

UnitPieces::UnitPieces(UnitId unit,
                       std::span<const NetworkFunction::Pool> pools,
                       bool has_logger)
    : unit_(unit) {
  SNF_CHECK(pools.size() <= kMaxPools);
  for (const NetworkFunction::Pool& pool : pools) {
    SNF_CHECK(pool.first <= pool.last);
    pools_.push_back({.set = PieceSet(pool.words()),
                      .given = PieceSet(has_logger ? pool.words() : 0),
                      .first = pool.first,
                      .last = pool.last});
  }
}

uint64_t UnitPieces::Pool::PiecesOf(uint32_t word) const {
  if (word < first / 64 || word > last / 64) return 0;
  uint64_t pieces = ~uint64_t{0};
  if (word == first / 64) pieces &= ~uint64_t{0} << first % 64;
  if (word == last / 64) pieces &= ~uint64_t{0} >> (63 - last % 64);
  return pieces;
}

std::optional<uint32_t> UnitPieces::Take(uint16_t pool,
                                         const PiecePreference& wish) {
  if (taken_count_ == kMaxTakesPerCall) return std::nullopt;
  const std::optional<uint32_t> piece = pools_[pool].set.Take(wish);
  spare_ -= piece.has_value() ? 1 : 0;
  taken_of_[taken_count_] = piece.has_value() ? pool : kNoPool;
  return taken_[taken_count_++] = piece;
}

bool UnitPieces::Untake(uint16_t pool, uint32_t piece) {
  for (uint32_t i = 0; i < taken_count_; ++i) {
    if (taken_of_[i] != pool || taken_[i] != piece) continue;
    taken_of_[i] = kNoPool;
    return true;
  }
  return false;
}

void UnitPieces::AppendTaken(std::vector<PieceUse>& uses) const {
  for (uint32_t i = 0; i < taken_count_; ++i) {
    if (taken_of_[i] == kNoPool) continue;
    uses.push_back({.piece = *taken_[i], .pool = taken_of_[i], .gives = 0});
  }
}

bool UnitPieces::Give(uint16_t pool, uint32_t piece) {
  Pool& p = pools_[pool];
  if (piece < p.first || piece > p.last) return false;
  if (p.set.Add(piece / 64, uint64_t{1} << piece % 64) != 0) return false;
  ++spare_;
  return true;
}

bool UnitPieces::GiveLater(uint16_t pool, uint32_t piece) {
  Pool& p = pools_[pool];
  if (piece < p.first || piece > p.last || p.set.Has(piece)) return false;
  return p.given.Add(piece / 64, uint64_t{1} << piece % 64) == 0;
}

void UnitPieces::GiveReleased(const PieceBlock& pieces) {
  Pool& p = pools_[pieces.pool];
  const uint64_t given = p.given.Remove(pieces.word, pieces.mask);
  p.set.Add(pieces.word, given);
  spare_ += static_cast<uint32_t>(std::popcount(given));
}

void UnitPieces::Ask(uint16_t pool, bool is_ahead, UnitOut& out) {
  if (pools_[pool].requested) return;
  pools_[pool].requested = true;
  pools_[pool].is_ahead = is_ahead;
  ++requests_;
  out.push(UnitCommand::Send(request(pool)));
}

uint64_t UnitPieces::Receive(const PieceBlock& pieces) {
  Pool& pool = pools_[pieces.pool];
  pool.requested = pool.is_ahead = false;
  --requests_;
  const uint64_t good = pieces.mask & pool.PiecesOf(pieces.word);
  const uint64_t fresh =
      good == 0 ? 0 : good & ~pool.set.Add(pieces.word, good);
  spare_ += static_cast<uint32_t>(std::popcount(fresh));
  return fresh;
}

void UnitPieces::ReturnWord(uint16_t pool, UnitOut& out) {
  Pool& p = pools_[pool];
  SNF_CHECK(p.set.size() > 0);
  uint32_t word = p.next_word;
  while (p.set.word(word) == 0) word = (word + 1) % p.set.words();
  p.next_word = word;
  const uint64_t mask = p.set.Remove(word, ~uint64_t{0});
  spare_ -= static_cast<uint32_t>(std::popcount(mask));
  out.push(UnitCommand::Return(
      {.word = word, .pool = pool, .unit = unit_, .mask = mask}));
}

void UnitPieces::Woken(uint16_t pool) {
  Pool& p = pools_[pool];
  if (p.woken++ == 0 && p.reclaimed) ++put_off_;
}

void UnitPieces::Ran(uint16_t pool) {
  Pool& p = pools_[pool];
  SNF_CHECK(p.woken > 0);
  if (--p.woken == 0 && p.reclaimed) --put_off_;
}

void UnitPieces::Reclaim(uint16_t pool) {
  Pool& p = pools_[pool];
  if (p.reclaimed) return;
  p.reclaimed = true;
  ++reclaims_;
  put_off_ += p.woken > 0 ? 1 : 0;
}

void UnitPieces::ReturnReclaimed(UnitOut& out) {
  size_t room = kMaxReturnsPerCall;
  for (uint16_t i = 0; i < pools_.size() && can_return(); ++i) {
    Pool& pool = pools_[i];
    if (!pool.reclaimed || pool.woken > 0) continue;
    for (; pool.set.size() > 0 && room > 0; --room) ReturnWord(i, out);
    if (room == 0) return;
    --room;
    pool.reclaimed = false;
    --reclaims_;
    out.push(UnitCommand::Return({.pool = i, .unit = unit_}));
  }
}

void UnitPieces::ReturnSpare(UnitOut& out) {
  size_t room = kMaxReturnsPerCall;
  for (uint16_t i = 0; i < pools_.size() && spare_ > 0; ++i) {
    for (; pools_[i].set.size() > 0 && room > 0; --room) ReturnWord(i, out);
  }
}

}  // namespace snf
