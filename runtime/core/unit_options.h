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
  // Most flows of the controller that the unit keeps at one time.
  uint32_t max_flows = 1 << 20;
  // Slots of the unit's channel, one for each packet that is not finished.
  uint32_t queue_packets = 1024;
  // Slots of the channels of all other units. Each may hold the last packet of
  // a flow that has ended for the controller and whose state is still here, so
  // this unit keeps up to that many flows above max_flows. Costs memory only
  // when used.
  uint32_t packets_elsewhere = 65'536;
  // Most packets that wait here for state with their payload; a further one
  // becomes a tombstone. Values above queue_packets have no effect.
  uint32_t hold_packets = 1024;

  // Units to which a flow's state is pushed (K), at most kMaxReplicas.
  uint32_t replicas = 3;
  // Idle time after which a flow's state is pushed: T/2 (SNF §5.2.1).
  Nanos push_after = Microseconds(250);
  // Most replicas that are kept for other units; the oldest is evicted first.
  // Replicas take no room of the unit's own flows.
  uint32_t max_replicas = 65'536;
  // Flows whose last pushed state is kept, so that the next push takes only
  // what changed (push_bases.h), at most; 0: each push is whole.
  uint32_t push_bases = 0;
  // Time without use after which a replica is forgotten; Nanos::max() = never.
  Nanos replica_lifetime = Seconds(300);

  // A Pull or Takeover without an answer is repeated after this time, then
  // after twice as long, and so on up to kMaxRetryDelay, without end: its
  // packets wait for the answer. Nanos::max(): never, and Pulls of other units
  // are kept for ever, too.
  Nanos retry_after = Milliseconds(10);
  static constexpr Nanos kMaxRetryDelay = Seconds(1);

  // If true, an output logger releases the effects of packets, and the driver
  // tells the unit (Unit::on_released). If false, an applied clock counts as
  // released.
  bool has_logger = false;

  // The state of flows is in a store outside of units: pushes go only there,
  // once a flow has been idle for push_after, and ended flows are removed there
  // (UnitCommand::kSendState). The driver sends Pulls to it.
  bool has_store = false;

  // Every n-th packet is checked for writes of the NF outside of the packet
  // (packet_guard.h).
  uint32_t guard_every = 64;

  // The logs of NFs have a reader; otherwise FlowState::log does nothing.
  bool nf_logs = false;

  // Large tables ask for large pages. Each such table is a mapping or two of
  // its own, of which Linux gives a process 65,530 (vm.max_map_count): not for
  // thousands of units in one process.
  bool large_pages = true;
  static constexpr uint32_t kMostWithLargePages = 1'024;  // units
};

// Reasons why a unit refuses a message about state. The run continues.
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
  kDeltaWithoutBase,  // a push of changes since a clock that is not the copy's
};
inline constexpr size_t kStateRefusals =
    static_cast<size_t>(StateRefusal::kDeltaWithoutBase) + 1;
// Returns the name that the JSON result has for it, such as "stale".
std::string_view ToString(StateRefusal refusal);

// Reasons why a record of the host's store is not shown, or not taken from
// there (host_records.h). The state is pulled by its bytes then.
enum class HostMiss : uint8_t {
  kUnknown,    // the unit shows no record of the flow
  kStale,      // shows one of another clock
  kTorn,       // was written while it was read, or its unit died meanwhile
  kMalformed,  // has a length, schema or content that cannot be
  kFull,       // the unit has no place for a further record
  kAhead,      // the unit has reported to a newer controller than the reader
  kAway,       // the unit is on another host
};
inline constexpr size_t kHostMisses = static_cast<size_t>(HostMiss::kAway) + 1;
// Returns the name that the JSON result has for it, such as "stale".
std::string_view ToString(HostMiss miss);

// Counters of a unit since it was made.
struct UnitCounters {
  uint64_t replicas_taken = 0;    // came by push
  uint64_t replicas_evicted = 0;  // evicted for others
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
  // Log records of the NF for which the unit had no buffer.
  uint64_t records_refused = 0;
  std::array<uint64_t, kStateRefusals> refused{};
  // Of the records that units of a host show each other (U16):
  uint64_t records_shown = 0;
  uint64_t records_read = 0;   // by units to which the flows moved
  uint64_t records_named = 0;  // in answer to Pulls, in place of their bytes
  uint64_t records_recovered = 0;  // among records_read, of units that failed
  uint64_t records_rebuilt = 0;    // of units that failed, from their loggers
  std::array<uint64_t, kHostMisses> records_missed{};
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_UNIT_OPTIONS_H_
