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

// Flows are prefetched so many packets ahead of their turn, with so many cache
// lines of their state: those with slots, and with the first entry of a table
// or the first kPrefetchBytes of a blob.
inline constexpr uint32_t kPrefetchPackets = 6;
inline constexpr uint32_t kPrefetchBytes = 16;
inline constexpr size_t kPrefetchLines = 8;

// So many Pulls of one flow may wait: they come from the units ahead of which
// it runs here again and again. Others are refused, and repeated by their
// senders.
inline constexpr size_t kMaxPullsPerFlow = 64;

// One call answers so many Pulls; others wait for the next change of the flow,
// or for their repetition. More than one is a fault of the units that ask.
inline constexpr size_t kMaxAnswersPerCall = 4;

// One call gives so many words of pieces back to the controller; the rest go
// with the next call of begin() or Resume().
inline constexpr size_t kMaxReturnsPerCall = 8;

// An NF may take so many pieces while it handles one packet: then it is told
// that there are no more.
inline constexpr size_t kMaxTakesPerCall = 8;

// With a logger, an NF may take and give back so many pieces in one call: they
// go with the packet's entry, which may be of two calls (U9).
inline constexpr size_t kMaxPieceUsesPerCall = kMaxPieceUses / 2;
static_assert(kMaxTakesPerCall < kMaxPieceUsesPerCall);

// A packet is run again so often where there are pieces, but none that it
// wants. Then the pool is as good as exhausted: two units could hand pieces to
// and fro that neither can use.
inline constexpr uint32_t kMaxRunsInVain = 16;

// So many pools may have nothing for a packet, one after the other. It waits
// for no third, or it could for ever.
inline constexpr size_t kMaxRefusals = 2;

// One call of on_timers looks after so many flows.
inline constexpr int kMaxTimersPerCall = 256;

// One call of a unit pushes at most so many commands: packets emitted, at a
// packet and at the end of its flow, pushes to the replicas or repetitions,
// answers, words of pieces, requests after a take, and a few single ones.
// begin() and on_timers() push so much a step, and stop where the next might
// not fit. With a logger, what is pushed for an entry takes the room of the
// pushes, the answers and the end of the flow, which wait for its release.
inline constexpr size_t kMaxUnitCommandsPerCall =
    2 * FlowState::kMaxEmits + kMaxReplicas + kMaxAnswersPerCall +
    kMaxReturnsPerCall + kMaxTakesPerCall + 12;

// A Pull is forgotten when its sender, which repeats it as long as it waits,
// has not repeated it for so long.
inline constexpr Nanos kPullLifetime = Seconds(20);
static_assert(kPullLifetime > UnitOptions::kMaxRetryDelay);

// A timer of an NF that comes with a State and is late by more than this counts
// as late by this.
inline constexpr Nanos kMaxTimerLag = Seconds(20);

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_UNIT_LIMITS_H_
