// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_TIME_LOOP_HOST_H_
#define SNF_PLATFORM_DRIVERS_REAL_TIME_LOOP_HOST_H_

#include <cstdint>

#include "runtime/live/unit_loop.h"
#include "runtime/live/unit_turns.h"
#include "runtime/ring/doorbell.h"
#include "runtime/sdk/nf_call.h"

namespace snf {

// Runs loops of units of several controllers on threads of its own, whose units
// they share. Thread-safe.
class LoopHost {
 public:
  virtual ~LoopHost() = default;

  // Returns how many threads there are: each driver has a loop for each.
  virtual uint32_t threads() const = 0;
  // Their bells, by thread.
  virtual Doorbell* const* bells() const = 0;
  virtual UnitTurns& TurnsOf(uint8_t controller, uint32_t thread) = 0;
  // The loop takes turns there from now on; or, once that returns, no more.
  // Remove of a loop that takes none does nothing.
  virtual void Add(uint8_t controller, uint32_t thread, UnitLoop& loop,
                   const NfCallNames& names) = 0;
  virtual void Remove(uint8_t controller, uint32_t thread) = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_TIME_LOOP_HOST_H_
