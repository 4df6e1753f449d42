// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_IDLE_TIMEOUTS_H_
#define SNF_CONTROLLER_CORE_IDLE_TIMEOUTS_H_

#include <algorithm>
#include <cstdint>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/time.h"

namespace snf {

// The idle timeout of each flow: the last one set by its NF, or else the
// default. A value; owner-thread only; nothing is allocated after construction.
// Takes 16 bytes a flow slot, and none until a timeout is set.
class IdleTimeouts {
 public:
  IdleTimeouts(uint32_t max_flows, Nanos otherwise)
      : otherwise_(otherwise), said_(max_flows) {}

  // Sets the default, also for existing flows.
  void set_otherwise(Nanos otherwise) { otherwise_ = otherwise; }
  Nanos Of(uint32_t slot) const {
    if (size_ == 0 || said_[slot].timeout.ns == 0) return otherwise_;
    return said_[slot].timeout;
  }
  // Sets the timeout that the NF named at `clock`. Returns false, and changes
  // nothing, if one of a newer clock is set. A timeout below 1 ns counts as 1
  // ns.
  bool Set(uint32_t slot, Clock clock, Nanos timeout) {
    Said& said = said_[slot];
    if (clock < said.clock) return false;
    size_ += said.timeout.ns == 0 ? 1 : 0;
    said = {.timeout = std::max(timeout, Nanos{1}), .clock = clock};
    return true;
  }
  // Reads the timeout that the NF set; changes nothing if it has set none.
  void Read(uint32_t slot, Clock& clock, Nanos& timeout) const {
    if (size_ == 0 || said_[slot].timeout.ns == 0) return;
    clock = said_[slot].clock;
    timeout = said_[slot].timeout;
  }
  void Erase(uint32_t slot) {
    if (size_ == 0 || said_[slot].timeout.ns == 0) return;
    said_[slot] = {};
    --size_;
  }

 private:
  struct Said {
    Nanos timeout;  // 0: not set
    Clock clock;
  };
  static_assert(sizeof(Said) == 16);

  Nanos otherwise_;
  uint32_t size_ = 0;  // flows with a timeout of their own
  LazyArray<Said> said_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_IDLE_TIMEOUTS_H_
