// SPDX-License-Identifier: Apache-2.0
#include "platform/check/uniqueness_check.h"

#include <bit>

#include "base/packet/flow_key_text.h"
#include "fmt/format.h"

namespace snf {
namespace {

std::string NameOf(FlowId flow) {
  return fmt::format("flow slot {} generation {}", slot_of(flow),
                     generation_of(flow));
}

// "pieces 200 … of pool 0", by the first one of the mask.
std::string NameOf(const PieceBlock& pieces, uint64_t mask) {
  const auto first = static_cast<uint32_t>(std::countr_zero(mask));
  return fmt::format("{} of pool {}, the first of them {},",
                     std::popcount(mask) == 1
                         ? "a piece"
                         : fmt::format("{} pieces", std::popcount(mask)),
                     pieces.pool, pieces.word * 64 + first);
}

}  // namespace

std::string UniquenessCheck::on_granted(const PieceBlock& pieces) {
  if (keeps_grants_ && pieces.mask != 0) {
    grants_[pieces.unit].push_back(pieces);
  }
  uint64_t& away = away_[Name(pieces.pool, pieces.word)];
  const uint64_t twice = away & pieces.mask;
  away |= pieces.mask;
  if (twice == 0) return {};
  return fmt::format("was granted {} which had not come back",
                     NameOf(pieces, twice));
}

std::string UniquenessCheck::on_returned(const PieceBlock& pieces) {
  uint64_t& away = away_[Name(pieces.pool, pieces.word)];
  const uint64_t unknown = pieces.mask & ~away;
  away &= ~pieces.mask;
  if (unknown == 0) return {};
  return fmt::format("returned {} which no unit was granted",
                     NameOf(pieces, unknown));
}

void UniquenessCheck::on_grants_sealed(UnitId unit, uint64_t logged) {
  std::vector<PieceBlock>& grants = grants_[unit];
  for (size_t i = logged; i < grants.size(); ++i) {
    away_[Name(grants[i].pool, grants[i].word)] &= ~grants[i].mask;
  }
  grants.clear();
}

void UniquenessCheck::on_grant_unsent(const PieceBlock& pieces) {
  away_[Name(pieces.pool, pieces.word)] &= ~pieces.mask;
  std::vector<PieceBlock>& grants = grants_[pieces.unit];
  for (size_t i = grants.size(); i-- > 0;) {
    if (grants[i].pool != pieces.pool || grants[i].word != pieces.word ||
        grants[i].mask != pieces.mask) {
      continue;
    }
    grants.erase(grants.begin() + static_cast<ptrdiff_t>(i));
    return;
  }
}

std::string UniquenessCheck::on_taken(FlowId flow, PoolId pool,
                                      uint32_t piece) {
  const auto index = static_cast<uint16_t>(pool);
  const uint64_t name = Name(index, piece);
  over_.erase(flow);
  if (const auto taker = takers_.find(name);
      taker != takers_.end() && over_.contains(taker->second)) {
    on_given_back(taker->second, pool, piece);
  }
  const auto [entry, is_new] = takers_.try_emplace(name, flow);
  if (!is_new) {
    return fmt::format("took piece {} of pool {}, which {} has", piece, index,
                       NameOf(entry->second));
  }
  pieces_[flow].push_back(name);
  const auto away = away_.find(Name(index, piece / 64));
  if (away != away_.end() && (away->second >> piece % 64 & 1) != 0) return {};
  return fmt::format("took piece {} of pool {}, which no unit was granted",
                     piece, index);
}

void UniquenessCheck::on_given_back(FlowId flow, PoolId pool, uint32_t piece) {
  const uint64_t name = Name(static_cast<uint16_t>(pool), piece);
  const auto taker = takers_.find(name);
  if (taker == takers_.end() || taker->second != flow) return;
  takers_.erase(taker);
  const auto pieces = pieces_.find(flow);
  std::erase(pieces->second, name);
  if (!pieces->second.empty()) return;
  pieces_.erase(pieces);
  over_.erase(flow);
}

void UniquenessCheck::on_pieces_gone(FlowId flow) {
  const auto pieces = pieces_.find(flow);
  if (pieces == pieces_.end()) return;
  for (const uint64_t name : pieces->second) takers_.erase(name);
  pieces_.erase(pieces);
  over_.erase(flow);
}

void UniquenessCheck::on_over(FlowId flow) {
  if (pieces_.contains(flow)) over_.insert(flow);
}

std::vector<uint64_t> UniquenessCheck::PiecesOf(FlowId flow) const {
  const auto pieces = pieces_.find(flow);
  const bool has_any = pieces != pieces_.end() && !over_.contains(flow);
  return has_any ? pieces->second : std::vector<uint64_t>{};
}

void UniquenessCheck::on_moved_here(FlowId flow,
                                    const std::vector<uint64_t>& pieces) {
  if (pieces.empty()) return;
  pieces_[flow] = pieces;
  for (const uint64_t name : pieces) {
    takers_[name] = flow;
    const auto pool = static_cast<uint16_t>(name >> 32);
    const auto piece = static_cast<uint32_t>(name);
    away_[Name(pool, piece / 64)] |= uint64_t{1} << piece % 64;
  }
}

std::string UniquenessCheck::on_alias(const Alias& alias) {
  const auto [holder, is_new] = holders_.try_emplace(alias.key, alias.flow);
  if (!is_new && holder->second != alias.flow) {
    return fmt::format("was granted {}, which {} has", ToString(alias.key),
                       NameOf(holder->second));
  }
  HeldAlias& held = aliases_[alias.flow];
  if (held.key != alias.key) holders_.erase(held.key);
  held = {.key = alias.key, .clock = alias.clock};
  return {};
}

void UniquenessCheck::on_alias_withdrawn(FlowId flow, Clock clock) {
  const auto held = aliases_.find(flow);
  if (held == aliases_.end() || held->second.clock != clock) return;
  holders_.erase(held->second.key);
  aliases_.erase(held);
}

void UniquenessCheck::on_alias_gone(FlowId flow, Clock clock) {
  const auto held = aliases_.find(flow);
  if (held == aliases_.end() || held->second.clock > clock) return;
  holders_.erase(held->second.key);
  aliases_.erase(held);
}

}  // namespace snf
