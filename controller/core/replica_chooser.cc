// SPDX-License-Identifier: Apache-2.0
#include "controller/core/replica_chooser.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/check.h"

namespace snf {
namespace {

// The ranks drawn so far, in ascending order.
class DrawnRanks {
 public:
  // Besides the replicas' ranks, the rank of the flowlet's own unit may be
  // drawn.
  static constexpr uint32_t kMost = kMaxReplicas + 1;
  uint32_t size() const { return size_; }
  std::span<const uint32_t> span() const { return {ranks_.data(), size_}; }
  // Adds a rank. Returns false if it was drawn already.
  bool Add(uint32_t rank) {
    if (std::ranges::find(span(), rank) != span().end()) return false;
    uint32_t i = size_++;
    for (; i > 0 && ranks_[i - 1] > rank; --i) ranks_[i] = ranks_[i - 1];
    ranks_[i] = rank;
    return true;
  }

 private:
  uint32_t size_ = 0;
  std::array<uint32_t, kMost> ranks_;
};

// Finds for each of `points` < sums[ranks] the rank in whose part of the line
// `sums` it lies. All searches advance together, so that they wait for memory
// at the same time, and without branches, which could not be predicted.
void FindRanks(const LazyArray<uint64_t>& sums, uint32_t ranks,
               std::span<const uint64_t> points, uint32_t* found) {
  std::fill_n(found, points.size(), 1);
  uint32_t half = 0;
  for (uint32_t left = ranks; left > 1; left -= half) {
    half = left / 2;
    for (size_t i = 0; i < points.size(); ++i) {
      const bool beyond = sums[found[i] + half - 1] <= points[i];
      found[i] += half & -uint32_t{beyond};
    }
  }
}

// Adds a unit to the set, unless it is on the host of `owner`, or of a unit
// that is in the set.
void AddUnit(UnitId unit, UnitId owner, const HostMap& hosts, ReplicaSet& set) {
  if (hosts.Share(unit, owner)) return;
  const bool is_new = hosts.units_per_host() == 1 ||
                      std::ranges::none_of(set.span(), [&](UnitId other) {
                        return hosts.Share(unit, other);
                      });
  if (is_new) set.units[set.count++] = unit;
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

void ReplicaChooser::Choose(Rng& rng, UnitId unit, const UnitPool& units,
                            ReplicaSet& set) const {
  set.count = 0;
  switch (choice_) {
    case ReplicaChoice::kLikely:
      ChooseLikely(unit, replicas_, units, set);
      break;
    case ReplicaChoice::kWeighted:
      ChooseWeighted(rng, unit, units, set);
      break;
    case ReplicaChoice::kDeterministic:
      for (uint32_t rank = 0;
           set.count < replicas_ && rank < units.placeable_units(); ++rank) {
        AddUnit(units.Ranked(rank), unit, units.hosts(), set);
      }
      break;
    case ReplicaChoice::kNone:
      break;
  }
}

void ReplicaChooser::ChooseLikely(UnitId unit, uint32_t wanted,
                                  const UnitPool& units,
                                  ReplicaSet& set) const {
  set.count = 0;
  const uint32_t ranks = units.placeable_units();
  const uint32_t most = std::min({wanted, replicas_, ranks});
  if (most == 0) return;
  const bool is_last = units.Ranked(ranks - 1) == unit;
  for (uint32_t i = 0; set.count < most && i < ranks; ++i) {
    AddUnit(units.Ranked(is_last ? i : ranks - 1 - i), unit, units.hosts(),
            set);
  }
}

void ReplicaChooser::ChooseWeighted(Rng& rng, UnitId unit,
                                    const UnitPool& units,
                                    ReplicaSet& set) const {
  const uint32_t ranks = units.placeable_units();
  const uint32_t wanted = std::min(replicas_, ranks);
  DrawnRanks drawn;
  const auto draw = [&](uint32_t rank) {
    if (!drawn.Add(rank)) return;
    AddUnit(units.Ranked(rank - 1), unit, units.hosts(), set);
  };
  std::array<uint64_t, kMaxReplicas> points;
  std::array<uint32_t, kMaxReplicas> found;
  for (uint32_t i = 0; i < wanted; ++i) {
    points[i] = rng.Below(weight_sums_[ranks]);
  }
  FindRanks(weight_sums_, ranks, {points.data(), wanted}, found.data());
  for (uint32_t i = 0; i < wanted; ++i) draw(found[i]);
  const uint32_t most = std::min(ranks, DrawnRanks::kMost);
  while (set.count < wanted && drawn.size() < most) {
    points[0] = PointBeside(rng, ranks, drawn.span());
    FindRanks(weight_sums_, ranks, {points.data(), 1}, found.data());
    draw(found[0]);
  }
}

uint64_t ReplicaChooser::PointBeside(Rng& rng, uint32_t ranks,
                                     std::span<const uint32_t> drawn) const {
  const auto weight = [this](uint32_t rank) {
    return weight_sums_[rank] - weight_sums_[rank - 1];
  };
  uint64_t left = weight_sums_[ranks];
  for (const uint32_t rank : drawn) left -= weight(rank);
  uint64_t point = rng.Below(left);
  for (const uint32_t rank : drawn) {
    if (point < weight_sums_[rank - 1]) break;
    point += weight(rank);
  }
  return point;
}

}  // namespace snf
