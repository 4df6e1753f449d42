// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_MOVE_CHANCES_H_
#define SNF_CONTROLLER_CORE_MOVE_CHANCES_H_

#include <array>
#include <cstdint>

#include "base/check.h"
#include "base/ids.h"
#include "controller/core/options.h"
#include "controller/units/unit_pool.h"

namespace snf {

// Theory of operation. The chance that a flow's next flowlet is placed on
// another unit, learned from what became of flowlets of the same kind. Two
// things tell flows apart (proto/decisions.md 34): whether the flowlet runs at
// the placeable unit of the highest id, which is the next to be closed; and how
// much room it needs, for what needs little nearly always finds it where it is.
// The chance of a kind moves by 1/256 of the way towards each outcome.
//
// Worked example: of the small flowlets at the highest unit 44 % move, and of
// those at others 4 %. With replica_chance 1/16 the first are pushed to
// 0.44 · 16 = 7 units, or K, the others to none.
//
// A value; owner-thread only; nothing is allocated.
class MoveChances {
 public:
  static constexpr uint32_t kKinds = 8;

  explicit MoveChances(const ControllerOptions& options)
      : least_(static_cast<int32_t>(options.replica_chance_65536)) {
    SNF_CHECK(least_ > 0);
    chances_.fill(least_);
  }

  // Returns the kind, below kKinds, of a flowlet that runs at `unit` and needs
  // `demand` quanta.
  static uint32_t KindOf(UnitId unit, uint32_t demand, const UnitPool& units) {
    const uint32_t placeable = units.placeable_units();
    const bool is_last = placeable > 0 && units.Ranked(placeable - 1) == unit;
    const uint32_t size = (demand >= 16 ? 1 : 0) + (demand >= 64 ? 1 : 0) +
                          (demand >= 256 ? 1 : 0);
    return (is_last ? 4 : 0) + size;
  }

  // Counts that the flowlet after one of this kind moved, or did not.
  void Count(uint32_t kind, bool moved) {
    chances_[kind] += ((moved ? kOne : 0) - chances_[kind]) / 256;
  }

  // Returns the number of replicas that are worth a push, each of which is to
  // be used with the chance replica_chance.
  uint32_t Replicas(uint32_t kind) const {
    return static_cast<uint32_t>(chances_[kind] / least_);
  }

 private:
  static constexpr int32_t kOne = 65'536;

  int32_t least_;  // in 1/65536, as the chances
  std::array<int32_t, kKinds> chances_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_MOVE_CHANCES_H_
