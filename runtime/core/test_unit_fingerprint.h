// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_TEST_UNIT_FINGERPRINT_H_
#define SNF_RUNTIME_CORE_TEST_UNIT_FINGERPRINT_H_

#include <cstdint>

#include "runtime/core/unit.h"

namespace snf {

// Reads the inside of a unit, for exploring.
class UnitFingerprint {
 public:
  // Returns a number that is equal for units which behave alike from now on,
  // but for when their timers are due. Costs a walk over all that is kept.
  static uint64_t Of(const Unit& unit);

 private:
  class Mixer;
  static void AddPackets(const Unit& unit, Mixer& all);
  static uint64_t OfFlow(const Unit& unit, uint32_t slot);
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_TEST_UNIT_FINGERPRINT_H_
