// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_UNITS_UNIT_BARS_H_
#define SNF_CONTROLLER_UNITS_UNIT_BARS_H_

#include <cstdint>

#include "base/ids.h"
#include "controller/units/unit_set.h"

namespace snf {

// Theory of operation. The units that are barred: they get no flowlet while
// there is another unit. Those are the units that an operator has drained, and
// all from the limit of usable units on, among them the spare ones
// (UnitPoolOptions::spare_units). An operator may lower the limit, and raise it
// again.
//
// Worked example: of 8 units the last is a spare one, so 7 are usable. Unit 2
// is drained, and the limit becomes 5: units 2, 5, 6 and 7 are barred.
//
// A value; owner-thread only; nothing is allocated after construction.
class UnitBars {
 public:
  UnitBars(uint32_t max_units, uint32_t usable)
      : max_units_(max_units), usable_(usable), drained_(max_units) {}

  bool any() const { return usable_ < max_units_ || drained_.size() > 0; }
  bool Has(UnitId unit) const {
    return value(unit) >= usable_ || drained_.Has(unit);
  }
  // Returns the number of units, from the lowest ids on, that are not barred
  // unless drained.
  uint32_t usable() const { return usable_; }
  void set_usable(uint32_t usable) { usable_ = usable; }

  bool drained(UnitId unit) const { return drained_.Has(unit); }
  const UnitSet& drained() const { return drained_; }
  // Returns false if the unit is drained already.
  bool Drain(UnitId unit) { return drained_.Insert(unit); }
  void Undrain(UnitId unit) { drained_.Erase(unit); }

 private:
  uint32_t max_units_;
  uint32_t usable_;
  UnitSet drained_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_UNITS_UNIT_BARS_H_
