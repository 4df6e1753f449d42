// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PATIENCE_H_
#define SNF_BASE_PATIENCE_H_

#include <algorithm>

#include "base/time.h"

namespace snf {

// Tells whether a peer has been silent for too long. Waits in steps, of an
// eighth of the whole time. A step that took longer than two counts as two: the
// waiting thread stood still, as the whole machine may have done, and so the
// peer's answer may just be on its way.
//
// Worked example: of 800 ms, steps take 100 ms. After one step of 100 ms the
// machine is stopped for an hour: 500 ms are left.
//
// A value.
class Patience {
 public:
  explicit Patience(Nanos whole)
      : left_(whole), step_{std::max(whole.ns / 8, Milliseconds(1).ns)} {}

  bool is_over() const { return left_.ns <= 0; }
  // Returns how long to wait next; 0 if it is over.
  Nanos step() const { return std::clamp(left_, Nanos{0}, step_); }
  // Records how long the caller has waited.
  void Spend(Nanos took) { left_.ns -= std::min(took.ns, 2 * step_.ns); }

 private:
  Nanos left_;
  Nanos step_;
};

}  // namespace snf

#endif  // SNF_BASE_PATIENCE_H_
