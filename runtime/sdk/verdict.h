// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_VERDICT_H_
#define SNF_RUNTIME_SDK_VERDICT_H_

#include <cstdint>

#include "runtime/sdk/piece_set.h"

namespace snf {

// An NF's decision on a packet.
class Verdict {
 public:
  enum class Kind : uint8_t { kForward, kDrop, kConsume, kWait };

  // Forwards the packet. `label` is an index into NetworkFunction::labels() and
  // decides which branch of a chain the packet takes; label 0 needs none there.
  static constexpr Verdict forward(uint8_t label = 0) {
    return {Kind::kForward, label};
  }
  // Drops the packet. `reason` is an index into
  // NetworkFunction::drop_reasons().
  static constexpr Verdict drop(uint8_t reason) {
    return {Kind::kDrop, reason};
  }
  // The packet was for the NF itself and goes no further.
  static constexpr Verdict consume() { return {Kind::kConsume, 0}; }

  // Makes the packet wait for a piece of `pool`, of which FlowState::take had
  // none: the NF is called again when pieces may have come. The NF must have
  // changed, taken and emitted nothing. A packet may wait for one pool and, if
  // that is_exhausted(), for one other; then it is dropped.
  static constexpr Verdict wait(PoolId pool) { return {Kind::kWait, 0, pool}; }

  constexpr Kind kind() const { return kind_; }
  constexpr uint8_t label() const { return number_; }
  constexpr uint8_t reason() const { return number_; }
  constexpr PoolId pool() const { return pool_; }
  // Returns true if the packet is forwarded with a label below `labels`. Costs
  // one comparison.
  constexpr bool forwards_below(uint16_t labels) const {
    return (uint32_t{number_} | static_cast<uint32_t>(kind_) << 8) < labels;
  }

 private:
  constexpr Verdict(Kind kind, uint8_t number, PoolId pool = {})
      : number_(number), kind_(kind), pool_(pool) {}
  // The order makes one number of the two for forwards_below.
  uint8_t number_;
  Kind kind_;
  PoolId pool_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_VERDICT_H_
