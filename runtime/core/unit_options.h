// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_UNIT_OPTIONS_H_
#define SNF_RUNTIME_CORE_UNIT_OPTIONS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/time.h"

namespace snf {

// Sets the limits and times of a unit.
struct UnitOptions {
  // The unit keeps at most so many flows of the controller at one time.
  uint32_t max_flows = 1 << 20;
  // Its channel has so many slots, one for each packet that is not finished.
  uint32_t queue_packets = 1024;
  // The channels of all other units have so many slots. Each may hold the last
  // packet of a flow that is over for the controller and whose state is still
  // here, so that this unit keeps as many flows above max_flows. Costs nothing
  // until it happens.
  uint32_t packets_elsewhere = 65'536;
  // So many packets may wait here for state with their payload: the next
  // becomes a tombstone. No more than queue_packets take effect.
  uint32_t hold_packets = 1024;

  // A flow's state is pushed to so many units (K), at most kMaxReplicas.
  uint32_t replicas = 3;
  // A flow's state is pushed when it has been idle for so long: T/2 (SNF
  // §5.2.1).
  Nanos push_after = Microseconds(250);
  // So many replicas are kept for others; the one that came first goes first.
  // They take none of the room of the unit's own flows.
  uint32_t max_replicas = 65'536;
  // A replica that nobody used for so long is forgotten; Nanos::max() = never.
  Nanos replica_lifetime = Seconds(300);

  // A Pull or Takeover without an answer is repeated after this time, then
  // after twice as long, and so on up to kMaxRetryDelay, without end: nothing
  // but the answer lets its packets go on. Nanos::max(): never, and the Pulls
  // of others are kept without end as well.
  Nanos retry_after = Milliseconds(10);
  static constexpr Nanos kMaxRetryDelay = Seconds(1);

  // An output logger lets out what packets did, and the driver tells the unit
  // (Unit::on_released). Without one, what is applied counts as released.
  bool has_logger = false;

  // The state of flows is in a store outside of units: pushes go there and
  // nowhere else, once a flow has been idle for push_after, and what is over is
  // forgotten there (UnitCommand::kSendState). The driver lets Pulls ask it.
  bool has_store = false;

  // At every so-many-th packet the unit looks whether the NF writes outside of
  // it (packet_guard.h).
  uint32_t guard_every = 64;
};

// Says why a unit did not take a message about state. The run goes on.
enum class StateRefusal : uint8_t {
  kStale,        // its clock is not newer than the copy's: late or repeated
  kMalformed,    // its fields or its record cannot be
  kSchema,       // made by another NF, or another version of it
  kFutureClock,  // of a clock that cannot have run anywhere yet
  kNotTaken,     // a push that comes before the Takeover of the copy here
  kUnsolicited,  // an answer that no packet waits for (any more)
  kStopping,     // a push to a unit that is leaving
  kPullStale,    // a Pull of a clock that its sender has gone past
  kPullsFull,    // more Pulls than can wait
};
inline constexpr size_t kStateRefusals =
    static_cast<size_t>(StateRefusal::kPullsFull) + 1;
// Returns the name that the JSON result has for it, such as "stale".
std::string_view ToString(StateRefusal refusal);

// Counts what happened at a unit since it was made.
struct UnitCounters {
  uint64_t replicas_taken = 0;    // came by push
  uint64_t replicas_evicted = 0;  // made room for others
  uint64_t replicas_expired = 0;
  uint64_t pulls_repeated = 0;
  uint64_t takeovers_repeated = 0;
  uint64_t takeovers_said_once = 0;  // had no room to be repeated
  uint64_t timers_asked_again = 0;   // requests of timer packets repeated
  uint64_t pulls_forgotten = 0;      // came from units that do not ask again
  // Counts pieces that came from the controller or the NF but cannot be: they
  // are of no pool, here already, or were not asked for.
  uint64_t pieces_refused = 0;
  uint64_t timers_left = 0;  // of the NF, did not run because of StopTimers
  std::array<uint64_t, kStateRefusals> refused{};
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_UNIT_OPTIONS_H_
