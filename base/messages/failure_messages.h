// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_MESSAGES_FAILURE_MESSAGES_H_
#define SNF_BASE_MESSAGES_FAILURE_MESSAGES_H_

#include <cstdint>
#include <type_traits>

#include "base/ids.h"
#include "base/messages/messages.h"

// The messages by which a controller recovers from the failure of a unit
// (proto/protocol.md F2-F6). They are plain structs, as in messages.h.

namespace snf {

// The controller tells the logger of `unit` to seal it: to apply and release
// the surviving entries of this incarnation, refuse all further deltas of it,
// and then answer (F2).
struct Seal {
  UnitId unit = kNoUnit;
  // True if the logger was sealed in an earlier round and may have been
  // restarted since: only the answer is asked for.
  bool is_sealed = false;
  uint32_t incarnation = 0;
  uint32_t round = 0;  // as the answers must name it
};
static_assert(sizeof(Seal) == 12);

// The controller asks a surviving unit for the clocks that it has applied (F3).
struct DoneQuery {
  uint32_t round = 0;
};
static_assert(sizeof(DoneQuery) == 4);

// A sealed logger, or a surviving unit, has applied all clocks of the flow up
// to `applied`. An answer of kNoFlow says that there are no more.
struct DoneAnswer {
  FlowId flow = kNoFlow;
  Clock applied{};
  uint32_t round = 0;
  UnitId unit = kNoUnit;  // answers, or its logger does
  bool is_over = false;   // the logger has the flow's end
};
static_assert(sizeof(DoneAnswer) == 24);
using SealAnswer = DoneAnswer;

// The controller tells the unit that holds the packet of `clock` that the state
// it needs is elsewhere now. The unit pulls again (F6).
struct Redirect {
  FlowId flow{};
  Clock clock{};
  UnitId source = kNoUnit;
  StateSource source_kind = StateSource::kNone;
};
static_assert(sizeof(Redirect) == 24);

static_assert(std::is_trivially_copyable_v<Seal> &&
              std::is_trivially_copyable_v<DoneQuery> &&
              std::is_trivially_copyable_v<DoneAnswer> &&
              std::is_trivially_copyable_v<Redirect>);

}  // namespace snf

#endif  // SNF_BASE_MESSAGES_FAILURE_MESSAGES_H_
