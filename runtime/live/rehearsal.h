// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LIVE_REHEARSAL_H_
#define SNF_RUNTIME_LIVE_REHEARSAL_H_

#include <cstdint>

#include "runtime/core/unit_options.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {

// Runs some packets through an NF in a loop of units of its own, which is then
// thrown away: so the code, the clock and the allocator of this process have
// been used once before the first packet comes that matters
// (platform/commands/bench/budgets.md, "What these numbers force"). The NF,
// which must be good (NfSpec::check), is made anew for it, and asked for no
// timer. Returns how many of the packets came to an end. Needs no system call
// but those of memory and time.
uint32_t Rehearse(const NfSpec& nf, const UnitOptions& unit);
// Says how many packets there are.
inline constexpr uint32_t kRehearsedPackets = 2;

}  // namespace snf

#endif  // SNF_RUNTIME_LIVE_REHEARSAL_H_
