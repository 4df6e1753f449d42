// SPDX-License-Identifier: Apache-2.0
#include "controller/core/test_pieces.h"

#include <algorithm>
#include <bit>

namespace snf {

TestPieces::TestPieces(Rng rng, uint32_t units, TestDriver& driver)
    : rng_(rng), units_(units), driver_(driver) {
  for (Pool& pool : pools_) {
    pool.first = static_cast<uint32_t>(rng_.Below(200));
    pool.last = pool.first + static_cast<uint32_t>(rng_.Below(300));
    for (uint32_t piece = pool.first; piece <= pool.last; ++piece) {
      pool.controller.insert(piece);
    }
    pool.units.resize(units);
    pool.requested.resize(units);
    pool.is_ahead.resize(units);
    pool.answer_by.resize(units);
    pool.answer_at.resize(units);
    pool.asked_at.resize(units);
    driver.controller().AddPiecePool(pool.first, pool.last);
  }
}

void TestPieces::Play(Instant now) {
  for (uint16_t pool = 0; pool < kPools; ++pool) {
    for (uint32_t i = 0; i < units_; ++i) {
      const UnitState state = driver_.state(TestDriver::Id(i));
      if (state != UnitState::kStopped && state != UnitState::kStarting) {
        PlayUnit(now, pool, TestDriver::Id(i));
      }
    }
    if (rng_.Chance(600)) SayNonsense(now, pool);
  }
}

void TestPieces::PlayUnit(Instant now, uint16_t p, UnitId unit) {
  Pool& pool = pools_[p];
  auto& answer_at = pool.answer_at[value(unit)];
  if (answer_at.has_value() && *answer_at <= now) {
    answer_at.reset();
    while (ReturnWord(now, p, unit)) {
    }
    Return(now, {.word = 0, .pool = p, .unit = unit, .mask = 0});
  }
  auto& requested = pool.requested[value(unit)];
  if (!requested.has_value() && rng_.Chance(3'000)) {
    requested = now;
    const bool is_ahead = rng_.Chance(20'000);
    pool.is_ahead[value(unit)] = is_ahead;
    Observe(now, driver_.On([&](Controller& c, ControllerOut& out) {
      c.on_piece_request(now, {.pool = p, .unit = unit, .is_ahead = is_ahead},
                         out);
    }));
    waited += requested.has_value() ? 1 : 0;
  }
  if (rng_.Chance(300)) ReturnWord(now, p, unit);
}

void TestPieces::TakeIntoFlow(FlowId flow, UnitId unit) {
  const auto p = static_cast<uint16_t>(rng_.Below(kPools));
  auto& there = pools_[p].units[value(unit)];
  for (uint64_t n = rng_.Below(8); n > 0 && !there.empty(); --n) {
    EXPECT_TRUE(flows_[flow].emplace(p, *there.begin()).second);
    there.erase(there.begin());
  }
}

void TestPieces::on_flow_end(FlowId flow, UnitId unit) {
  for (const auto& [p, piece] : flows_[flow]) {
    pools_[p].units[value(unit)].insert(piece);
    ++from_flows;
  }
  flows_.erase(flow);
}

void TestPieces::Stop(Instant now, UnitId unit) {
  for (uint16_t p = 0; p < kPools; ++p) {
    while (ReturnWord(now, p, unit)) {
    }
    Pool& pool = pools_[p];
    stopped_in_round += pool.answer_at[value(unit)].has_value() ? 1 : 0;
    pool.answer_at[value(unit)].reset();
    pool.requested[value(unit)].reset();
    pool.answer_by[value(unit)].reset();
    pool.asked_at[value(unit)].reset();
  }
  holders_.erase(unit);
  driver_.Stopped(unit);
}

void TestPieces::ReturnAll(Instant now) {
  for (uint16_t p = 0; p < kPools; ++p) {
    for (uint32_t i = 0; i < units_; ++i) {
      while (ReturnWord(now, p, TestDriver::Id(i))) {
      }
    }
  }
}

void TestPieces::Return(Instant now, const PieceBlock& word) {
  Observe(now, driver_.On([&](Controller& c, ControllerOut& out) {
    c.on_pieces_returned(now, word, out);
  }));
}

// Returns the unit's pieces of one word. Returns false if it has none.
bool TestPieces::ReturnWord(Instant now, uint16_t p, UnitId unit) {
  Pool& pool = pools_[p];
  auto& there = pool.units[value(unit)];
  if (there.empty()) return false;
  PieceBlock word = {.word = *there.begin() / 64, .pool = p, .unit = unit};
  for (uint32_t i = 0; i < 64; ++i) {
    if (there.erase(word.word * 64 + i) == 0) continue;
    word.mask |= uint64_t{1} << i;
    pool.controller.insert(word.word * 64 + i);
  }
  Return(now, word);
  return true;
}

// Sends messages about pieces that are at the controller already or not of the
// pool, and about units and pools that do not exist.
void TestPieces::SayNonsense(Instant now, uint16_t p) {
  const Pool& pool = pools_[p];
  const auto piece = static_cast<uint32_t>(
      rng_.Chance(10'000) ? rng_.Next() >> 32 : rng_.Below(pool.last + 100));
  PieceBlock word = {.word = piece / 64,
                     .pool = p,
                     .unit = UnitId{},
                     .mask = uint64_t{1} << piece % 64};
  if (rng_.Chance(20'000)) {
    ++faulty_messages;
    if (rng_.Chance(32'768)) {
      word.pool = kPools;
    } else {
      word.unit = TestDriver::Id(units_);
    }
  } else if (piece < pool.first || piece > pool.last ||
             pool.controller.contains(piece)) {
    ++faulty;
  } else {
    return;
  }
  Return(now, word);
}

void TestPieces::Observe(Instant now, const Commands& commands) {
  for (const ControllerCommand& command : commands) {
    if (command.kind == Kind::kPieces) on_pieces(command.pieces);
    if (command.kind == Kind::kReclaim) on_reclaim(now, command.pieces);
  }
}

void TestPieces::on_pieces(const PieceBlock& word) {
  Pool& pool = pools_.at(word.pool);
  auto& requested = pool.requested.at(value(word.unit));
  EXPECT_TRUE(requested.has_value()) << "nobody asked";
  const bool is_ahead = pool.is_ahead.at(value(word.unit));
  uint32_t waiting = 0;
  for (uint32_t i = 0; i < units_; ++i) {
    waiting += pool.requested[i].has_value() && pool.is_ahead[i] == is_ahead;
    EXPECT_FALSE(is_ahead && word.mask != 0 && pool.requested[i].has_value() &&
                 !pool.is_ahead[i])
        << "a packet waits";
  }
  requested.reset();
  pool.answer_by.at(value(word.unit)).reset();
  if (word.mask == 0) {
    EXPECT_TRUE(pool.controller.empty()) << "refused with pieces there";
    ++refused;
    refused_ahead += is_ahead ? 1 : 0;
    return;
  }
  std::map<uint32_t, int> by_word;
  for (const uint32_t piece : pool.controller) ++by_word[piece / 64];
  for (const auto& [index, pieces] : by_word) {
    EXPECT_LE(pieces, by_word[word.word]) << "there was a fuller word";
  }
  const auto share = std::max<size_t>(pool.controller.size() / waiting, 1);
  const auto pieces = static_cast<size_t>(std::popcount(word.mask));
  const auto in_word = static_cast<size_t>(by_word[word.word]);
  EXPECT_EQ(pieces, std::min(share, in_word));
  shared += pieces < in_word ? 1 : 0;
  for (uint32_t i = 0; i < 64; ++i) {
    if ((word.mask >> i & 1) == 0) continue;
    const uint32_t piece = word.word * 64 + i;
    EXPECT_EQ(pool.controller.erase(piece), 1u);
    EXPECT_TRUE(pool.units[value(word.unit)].insert(piece).second);
  }
  holders_.insert(word.unit);
  ++blocks;
}

void TestPieces::on_reclaim(Instant now, const PieceBlock& word) {
  Pool& pool = pools_.at(word.pool);
  const uint32_t i = value(word.unit);
  EXPECT_TRUE(holders_.contains(word.unit));
  EXPECT_TRUE(pool.controller.empty());
  EXPECT_FALSE(pool.requested[i].has_value() && !pool.is_ahead[i])
      << "it waits itself";
  if (pool.asked_at[i].has_value()) {
    EXPECT_GE(now - *pool.asked_at[i], PiecePool::kRound);
  }
  pool.asked_at[i] = now;
  NoteRound(now, pool);
  if (rng_.Chance(4'000)) {
    ++unanswered;
  } else {
    pool.answer_at[i] = now + Nanos{rng_.Exponential(Milliseconds(2).ns)};
  }
}

// The first unit is asked in a round.
void TestPieces::NoteRound(Instant now, Pool& pool) const {
  if (pool.round_began.has_value() &&
      now - *pool.round_began < PiecePool::kRound) {
    return;
  }
  pool.round_began = now;
  for (uint32_t i = 0; i < units_; ++i) {
    if (!pool.requested[i].has_value() || pool.answer_by[i].has_value()) {
      continue;
    }
    pool.answer_by[i] = now + PiecePool::kRound;
  }
}

void TestPieces::Check() const {
  const PieceCounters& counters = driver_.counters().pieces;
  uint64_t out = 0;
  for (const Pool& pool : pools_) {
    out += pool.last - pool.first + 1 - pool.controller.size();
  }
  EXPECT_EQ(counters.pieces_out, out);
  EXPECT_GE(counters.pieces_out_max, out);
  EXPECT_EQ(counters.pieces_faulty, faulty);
  EXPECT_EQ(counters.messages_faulty, faulty_messages);
  EXPECT_EQ(counters.blocks_granted, blocks);
  EXPECT_EQ(counters.requests_refused, refused);
}

void TestPieces::ExpectAnswers(Instant now) const {
  constexpr Nanos kTick{1 << TimingWheel::kTickShift};
  for (const Pool& pool : pools_) {
    for (uint32_t i = 0; i < units_; ++i) {
      const auto& at = pool.requested[i];
      if (!at.has_value()) continue;
      // Until the next round begins, or until its end.
      EXPECT_LE(now,
                pool.answer_by[i].value_or(*at + PiecePool::kRound) + kTick)
          << "never answered";
    }
  }
}

bool TestPieces::HasOpenRequests() const {
  for (const Pool& pool : pools_) {
    for (const auto& at : pool.requested) {
      if (at.has_value()) return true;
    }
  }
  return false;
}

}  // namespace snf
