// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_cluster/cluster_pools.h"

#include <algorithm>

#include "base/check.h"

namespace snf {
namespace {

constexpr uint32_t kWord = 64;

}  // namespace

ClusterPools::ClusterPools(const NetworkFunction& example, uint32_t controllers)
    : pools_(example.pools().begin(), example.pools().end()),
      owners_(pools_.size()) {
  for (size_t p = 0; p < pools_.size(); ++p) {
    owners_[p].resize(pools_[p].words());
    for (uint32_t i = 0; i < controllers; ++i) {
      const auto part = PartOf(pools_[p], i, controllers);
      SNF_CHECK(part.has_value());
      std::fill(owners_[p].begin() + part->first / kWord,
                owners_[p].begin() + part->last / kWord + 1,
                ControllerId{static_cast<uint8_t>(i)});
    }
  }
}

uint64_t ClusterPools::MaskOf(uint16_t pool, uint32_t word) const {
  const NetworkFunction::Pool& p = pools_[pool];
  uint64_t mask = ~uint64_t{0};
  if (word == p.first / kWord) mask &= ~uint64_t{0} << p.first % kWord;
  if (word == p.last / kWord)
    mask &= ~uint64_t{0} >> (kWord - 1 - p.last % kWord);
  return mask;
}

void ClusterPools::AddTo(Controller& controller, ControllerId id) const {
  for (uint16_t p = 0; p < pools_.size(); ++p) {
    controller.AddPiecePool(pools_[p].first, pools_[p].last);
    for (uint32_t w = pools_[p].first / kWord; w < owners_[p].size(); ++w) {
      if (owners_[p][w] == id) continue;
      controller.RemovePieces({.word = w, .pool = p, .mask = MaskOf(p, w)});
    }
  }
}

uint32_t ClusterPools::WholeWords(const Controller& controller, ControllerId id,
                                  uint16_t pool) const {
  uint32_t count = 0;
  for (uint32_t w = pools_[pool].first / kWord; w < owners_[pool].size(); ++w) {
    count += owners_[pool][w] == id &&
                     controller.free_pieces(pool, w) == MaskOf(pool, w)
                 ? 1
                 : 0;
  }
  return count;
}

std::vector<PieceBlock> ClusterPools::Split(const Controller& donor,
                                            ControllerId from, ControllerId to,
                                            uint16_t pool) {
  uint32_t left = std::min((WholeWords(donor, from, pool) + 1) / 2, kMostWords);
  std::vector<PieceBlock> words;
  // The highest ones: the donor uses its lowest first.
  for (auto w = static_cast<uint32_t>(owners_[pool].size()); w-- > 0;) {
    const uint64_t mask = MaskOf(pool, w);
    if (left == 0) break;
    if (owners_[pool][w] != from || donor.free_pieces(pool, w) != mask) {
      continue;
    }
    --left;
    owners_[pool][w] = to;
    words.push_back({.word = w, .pool = pool, .mask = mask});
  }
  return words;
}

void ClusterPools::Inherit(ControllerId from, ControllerId to) {
  for (auto& owners : owners_) std::ranges::replace(owners, from, to);
}

}  // namespace snf
