// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_UNIT_LIMITS_H_
#define SNF_RUNTIME_CORE_UNIT_LIMITS_H_

#include <cstddef>

#include "base/ids.h"
#include "base/time.h"
#include "runtime/core/unit_options.h"
#include "runtime/sdk/state.h"

namespace snf {

// How many packets ahead their flows are prefetched: so many cache lines of the
// state, those with slots, the first entry of a table, and so much of a blob.
inline constexpr uint32_t kPrefetchPackets = 6;
inline constexpr uint32_t kPrefetchBytes = 16;
inline constexpr size_t kPrefetchLines = 8;

// Pulls of one flow that may wait: the units ahead of which it runs here again
// and again. Others are refused, and repeated by their senders.
inline constexpr size_t kMaxPullsPerFlow = 64;

// Answers to Pulls in one call; others wait for the next change of the flow, or
// for their repetition. More than one is a fault of the units that ask.
inline constexpr size_t kMaxAnswersPerCall = 4;

// Words of pieces that one call gives back to the controller; the rest go with
// the calls of begin() that follow.
inline constexpr size_t kMaxReturnsPerCall = 8;

// Pieces that an NF may take while it handles one packet: there are no more for
// it, it is told then.
inline constexpr size_t kMaxTakesPerCall = 8;

// How often a packet is run again where there are pieces, but none that it
// wants. Then the pool is as good as exhausted: two units could hand pieces to
// and fro that neither can use.
inline constexpr uint32_t kMaxRunsInVain = 16;

// Pools that may have nothing for a packet, one after the other. It waits for
// no third, or it could for ever.
inline constexpr size_t kMaxRefusals = 2;

// Flows looked after in one call of on_timers.
inline constexpr int kMaxTimersPerCall = 256;

// What one call of a unit may push: packets emitted, at a packet and at the end
// of its flow, pushes to the replicas or repetitions, answers, words of pieces,
// requests after a take, and a few single ones. begin() and on_timers() push so
// much a step, and stop where the next might not fit.
inline constexpr size_t kMaxUnitCommandsPerCall =
    2 * FlowState::kMaxEmits + kMaxReplicas + kMaxAnswersPerCall +
    kMaxReturnsPerCall + kMaxTakesPerCall + 12;

// A Pull that its sender does not repeat for so long, which it does as long as
// it waits, is forgotten.
inline constexpr Nanos kPullLifetime = Seconds(20);
static_assert(kPullLifetime > UnitOptions::kMaxRetryDelay);

// How late a timer of an NF may be that comes with a State: one that is due for
// longer counts as due for so long.
inline constexpr Nanos kMaxTimerLag = Seconds(20);

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_UNIT_LIMITS_H_
