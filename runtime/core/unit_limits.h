// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_UNIT_LIMITS_H_
#define SNF_RUNTIME_CORE_UNIT_LIMITS_H_

#include <cstddef>

#include "base/ids.h"
#include "base/time.h"
#include "runtime/core/unit_options.h"
#include "runtime/logger/log_entry.h"
#include "runtime/sdk/state.h"

namespace snf {

// Prefetching: packets ahead of a flow's turn, and the most cache lines of its
// state: the lines with slots, with the first entry of a table and with the
// first kPrefetchBytes of a blob.
inline constexpr uint32_t kPrefetchPackets = 6;
inline constexpr uint32_t kPrefetchBytes = 16;
inline constexpr size_t kPrefetchLines = 8;

// Most Pulls of one flow that wait; they come from units that the flow left
// repeatedly. Further Pulls are refused, and repeated by their senders.
inline constexpr size_t kMaxPullsPerFlow = 64;

// Most Pulls that one call answers; further ones wait for the next change of
// the flow, or for their repetition. More than one is a fault of the asking
// units.
inline constexpr size_t kMaxAnswersPerCall = 4;

// Most words of pieces that one call returns to the controller; the next call
// of begin() or Resume() returns the others.
inline constexpr size_t kMaxReturnsPerCall = 8;

// Most pieces that an NF may take while it handles one packet; further takes
// find none.
inline constexpr size_t kMaxTakesPerCall = 8;

// Most pieces that an NF may take and give back in one call if there is a
// logger: they go with the packet's entry, which may cover two calls (U9).
inline constexpr size_t kMaxPieceUsesPerCall = kMaxPieceUses / 2;
static_assert(kMaxTakesPerCall < kMaxPieceUsesPerCall);

// A packet is run again so often where there are pieces, but none that it
// wants. Then the pool is as good as exhausted: two units could hand pieces to
// and fro that neither can use.
inline constexpr uint32_t kMaxRunsInVain = 16;

// Most pools that may be empty for one packet, one after the other. The packet
// does not wait for a third, otherwise it could wait for ever.
inline constexpr size_t kMaxRefusals = 2;

// Most flows that one call of on_timers handles.
inline constexpr int kMaxTimersPerCall = 256;

// Most commands that one call of a unit pushes: packets emitted, at a packet
// and at the end of its flow, pushes to the replicas or repetitions, answers,
// words of pieces, requests after a take, and a few single ones. begin() and
// on_timers() push at most this many in a step, and stop before a step that
// might not fit. With a logger, the commands of an entry take the room of the
// pushes, the answers and the end of the flow, which wait for its release.
inline constexpr size_t kMaxUnitCommandsPerCall =
    2 * FlowState::kMaxEmits + kMaxReplicas + kMaxAnswersPerCall +
    kMaxReturnsPerCall + kMaxTakesPerCall + 12;

// Time without a repetition after which a Pull is forgotten; its sender repeats
// it as long as it waits.
inline constexpr Nanos kPullLifetime = Seconds(20);
static_assert(kPullLifetime > UnitOptions::kMaxRetryDelay);

// A timer of an NF that comes with a State and is late by more than this counts
// as late by this.
inline constexpr Nanos kMaxTimerLag = Seconds(20);

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_UNIT_LIMITS_H_
