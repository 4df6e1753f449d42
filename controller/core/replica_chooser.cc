// SPDX-License-Identifier: Apache-2.0
#include "controller/core/replica_chooser.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/check.h"

namespace snf {
namespace {

// Ranks in ascending order.
class DrawnRanks {
 public:
  uint32_t size() const { return size_; }
  std::span<const uint32_t> span() const { return {ranks_.data(), size_}; }
  void Add(uint32_t rank) {
    uint32_t i = size_++;
    for (; i > 0 && ranks_[i - 1] > rank; --i) ranks_[i] = ranks_[i - 1];
    ranks_[i] = rank;
  }

 private:
  uint32_t size_ = 0;
  // One more than the replicas: the rank of the flowlet's own unit.
  std::array<uint32_t, kMaxReplicas + 1> ranks_;
};

// The rank whose part of the line `sums` holds `point` < sums[ranks].
uint32_t RankAt(const LazyArray<uint64_t>& sums, uint32_t ranks,
                uint64_t point) {
  uint32_t rank = 1;
  uint32_t half = 0;
  for (uint32_t left = ranks; left > 1; left -= half) {
    half = left / 2;
    // Without a branch, for which way it goes cannot be predicted.
    rank += half & -uint32_t{sums[rank + half - 1] <= point};
  }
  return rank;
}

}  // namespace

ReplicaChooser::ReplicaChooser(const ControllerOptions& options)
    : choice_(options.replica_choice), replicas_(options.replicas) {
  SNF_CHECK(replicas_ <= kMaxReplicas);
  if (choice_ != ReplicaChoice::kWeighted || replicas_ == 0) return;
  weight_sums_ = LazyArray<uint64_t>(size_t{options.max_units} + 1);
  for (uint32_t rank = 1; rank <= options.max_units; ++rank) {
    weight_sums_[rank] = weight_sums_[rank - 1] + (uint64_t{1} << 32) / rank;
  }
}

void ReplicaChooser::Choose(Rng& rng, UnitId unit, const UnitPool& pool,
                            ReplicaSet& set) const {
  set.count = 0;
  switch (choice_) {
    case ReplicaChoice::kWeighted:
      ChooseWeighted(rng, unit, pool, set);
      break;
    case ReplicaChoice::kDeterministic:
      for (uint32_t rank = 0;
           set.count < replicas_ && rank < pool.placeable_units(); ++rank) {
        const UnitId next = pool.Ranked(rank);
        if (next != unit) set.units[set.count++] = next;
      }
      break;
    case ReplicaChoice::kNone:
      break;
  }
}

void ReplicaChooser::ChooseWeighted(Rng& rng, UnitId unit, const UnitPool& pool,
                                    ReplicaSet& set) const {
  const uint32_t ranks = pool.placeable_units();
  DrawnRanks drawn;
  while (set.count < replicas_ && drawn.size() < ranks) {
    const auto weight = [this](uint32_t rank) {
      return weight_sums_[rank] - weight_sums_[rank - 1];
    };
    uint64_t left = weight_sums_[ranks];
    for (const uint32_t rank : drawn.span()) left -= weight(rank);
    uint64_t point = rng.Below(left);
    for (const uint32_t rank : drawn.span()) {
      if (point < weight_sums_[rank - 1]) break;
      point += weight(rank);
    }
    const uint32_t rank = RankAt(weight_sums_, ranks, point);
    drawn.Add(rank);
    const UnitId next = pool.Ranked(rank - 1);
    if (next != unit) set.units[set.count++] = next;
  }
}

}  // namespace snf
