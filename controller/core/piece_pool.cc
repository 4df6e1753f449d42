// SPDX-License-Identifier: Apache-2.0
#include "controller/core/piece_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace snf {
namespace {

// Returns the mask with its lowest `most` bits that are set.
uint64_t FirstOf(uint64_t mask, uint32_t most) {
  uint64_t rest = mask;
  for (uint32_t i = 0; i < most && rest != 0; ++i) rest &= rest - 1;
  return mask & ~rest;
}

}  // namespace

PiecePool::PiecePool(uint16_t pool, uint32_t first, uint32_t last,
                     uint32_t max_units)
    : first_(first),
      last_(last),
      pool_(pool),
      grant_next_(first / 64),
      words_(size_t{last / 64} + 1),
      held_(size_t{last / 64} + 1),
      waiting_(max_units),
      ahead_(max_units),
      asked_(max_units) {
  SNF_CHECK(first <= last);
  for (uint32_t word = first / 64; word <= last / 64; ++word) {
    on_returned(word, ValidMask(word));
  }
}

uint64_t PiecePool::ValidMask(uint32_t word) const {
  uint64_t mask = ~uint64_t{0};
  if (word < first_ / 64 || word > last_ / 64) return 0;
  if (word == first_ / 64) mask &= ~uint64_t{0} << first_ % 64;
  if (word == last_ / 64) mask &= ~uint64_t{0} >> (63 - last_ % 64);
  return mask;
}

uint64_t PiecePool::on_returned(uint32_t word, uint64_t mask) {
  const uint64_t valid = mask & ValidMask(word);
  if (valid == 0) return mask;
  const uint64_t taken = valid & ~words_[word];
  words_[word] |= taken;
  free_ += static_cast<uint32_t>(std::popcount(taken));
  return mask & ~taken;
}

uint64_t PiecePool::HoldBack(uint32_t word, uint64_t mask) {
  const uint64_t valid = mask & ValidMask(word);
  if (valid == 0) return mask;
  const uint64_t taken = valid & ~words_[word] & ~held_[word];
  held_[word] |= taken;
  holds_ = true;
  return mask & ~taken;
}

bool PiecePool::EndHolding() {
  if (!holds_) return false;
  holds_ = false;
  for (uint32_t word = first_ / 64; word <= last_ / 64; ++word) {
    on_returned(word, std::exchange(held_[word], 0));
  }
  return true;
}

uint64_t PiecePool::MarkOut(uint32_t word, uint64_t mask) {
  const uint64_t valid = mask & ValidMask(word);
  if (valid == 0) return 0;
  const uint64_t out = valid & words_[word];
  words_[word] &= ~out;
  free_ -= static_cast<uint32_t>(std::popcount(out));
  return out;
}

Instant PiecePool::Advance(Instant now, UnitSet& holders,
                           PieceCounters& counters, ControllerOut& out) {
  while (out.room() >= kMaxControllerCommandsPerStep) {
    if (waiting_.size() > 0 && free_ > 0) {
      Grant(waiting_, holders, counters, out);
    } else if (ahead_.size() > 0 && free_ > 0) {
      Grant(ahead_, holders, counters, out);
    } else if (ahead_.size() > 0) {
      Refuse(ahead_, counters, out);
    } else if (phase_ == Phase::kAsking) {
      if (!AskNext(holders, out)) phase_ = Phase::kAsked;
    } else if (phase_ == Phase::kAsked) {
      if (asked_.size() > 0 && now < round_until_) return round_until_;
      // Units that have not answered by now are not waited for.
      asked_.Clear();
      phase_ = may_be_spare_ ? Phase::kIdle : Phase::kRefusing;
    } else if (waiting_.size() == 0) {
      phase_ = Phase::kIdle;
      return Instant::max();
    } else if (phase_ == Phase::kIdle && now < round_until_ && may_be_spare_ &&
               CanAsk(holders)) {
      return round_until_;
    } else if (phase_ == Phase::kIdle && now >= round_until_ &&
               CanAsk(holders)) {
      phase_ = Phase::kAsking;
      ask_next_ = 0;
      round_until_ = now + kRound;
      may_be_spare_ = false;
      ++counters.reclaim_rounds;
    } else {
      phase_ = Phase::kRefusing;
      Refuse(waiting_, counters, out);
    }
  }
  return Instant::min();
}

// Removes and returns the next unit that waits, in turn, so that none starves.
UnitId PiecePool::NextOf(UnitSet& waiting) {
  UnitId unit = waiting.NextFrom(serve_next_);
  if (unit == kNoUnit) unit = waiting.NextFrom(0);
  serve_next_ = value(unit) + uint32_t{1};
  waiting.Erase(unit);
  return unit;
}

void PiecePool::Grant(UnitSet& waiting, UnitSet& holders,
                      PieceCounters& counters, ControllerOut& out) {
  const uint32_t share = std::max(free_ / waiting.size(), uint32_t{1});
  const UnitId unit = NextOf(waiting);
  const uint32_t word = FullestWord();
  const uint64_t mask = FirstOf(words_[word], share);
  words_[word] &= ~mask;
  const auto pieces = static_cast<uint32_t>(std::popcount(mask));
  free_ -= pieces;
  may_be_spare_ |= pieces > 1;
  grant_next_ = word + 1;
  holders.Insert(unit);
  ++counters.blocks_granted;
  counters.pieces_out += pieces;
  counters.pieces_out_max =
      std::max(counters.pieces_out_max, counters.pieces_out);
  out.push(ControllerCommand::Pieces(ControllerCommand::Kind::kPieces,
                                     To(unit, word, mask)));
}

void PiecePool::Refuse(UnitSet& waiting, PieceCounters& counters,
                       ControllerOut& out) {
  ++counters.requests_refused;
  out.push(ControllerCommand::Pieces(ControllerCommand::Kind::kPieces,
                                     To(NextOf(waiting), 0, 0)));
}

// Returns the word with the most free pieces. The search begins behind the word
// granted last, so that returned pieces rest as long as possible.
uint32_t PiecePool::FullestWord() const {
  const uint32_t begin = first_ / 64;
  const uint32_t end = last_ / 64 + 1;
  const auto enough = static_cast<int>(std::min(free_, uint32_t{64}));
  uint32_t fullest = 0;
  int most = 0;
  uint32_t word = grant_next_;
  for (uint32_t i = begin; i < end && most < enough; ++i, ++word) {
    if (word == end) word = begin;
    const int pieces = std::popcount(words_[word]);
    if (pieces > most) {
      most = pieces;
      fullest = word;
    }
  }
  return fullest;
}

// Asks the next holder. A unit that waits has no pieces to spare and is
// skipped.
bool PiecePool::AskNext(const UnitSet& holders, ControllerOut& out) {
  const UnitId unit = holders.NextFrom(ask_next_, &waiting_);
  if (unit == kNoUnit) return false;
  ask_next_ = value(unit) + uint32_t{1};
  asked_.Insert(unit);
  out.push(ControllerCommand::Pieces(ControllerCommand::Kind::kReclaim,
                                     To(unit, 0, 0)));
  return true;
}

}  // namespace snf
