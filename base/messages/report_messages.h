// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_MESSAGES_REPORT_MESSAGES_H_
#define SNF_BASE_MESSAGES_REPORT_MESSAGES_H_

#include <cstdint>
#include <type_traits>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/packet/flow_key.h"
#include "base/time.h"

// The messages from which a new controller is built after the old one failed
// (proto/protocol.md F9): plain structs, as in messages.h.

namespace snf {

// Reports with a clock above the first limit are refused. Successors leave out
// flows with a clock above the second limit. The distance keeps honest units
// below the first limit after another unit has lied.
inline constexpr Clock kMaxReportedClock{uint64_t{1} << 63};
inline constexpr Clock kMaxRestoredClock{uint64_t{1} << 62};

// A controller tells a flow's owner its own data of the flow: ahead of the
// first packet that makes the unit the owner, and whenever it changes. The unit
// keeps it for the next controller.
struct FlowName {
  FlowId flow = kNoFlow;
  uint64_t version = 0;  // larger in newer messages about one flow
  FlowKey key{};
  FlowKey alias{};      // FlowKey{}: the flow has none
  Clock alias_clock{};  // at which it was asked for
  uint64_t alias_group = 0;
  Clock timeout_clock{};  // 0: the flow has the controller's idle timeout
  Nanos idle_timeout{};
};
static_assert(sizeof(FlowName) == 128);

// A unit's report of a flow of which it has a copy, a mark, or an
// unacknowledged Takeover.
struct FlowReport {
  enum class Kind : uint8_t {
    // The unit has processed `clock` itself, and keeps the state after it.
    kRan,
    // The same, and another unit has asked for that state and was given it: so
    // there was a packet of the next clock.
    kHandedOver,
    // The unit has been told that the flow ended with `clock`, or has ended it;
    // the end may not be in a logger yet.
    kEnd,
    // The unit has sent a Takeover of `clock` that is not acknowledged yet:
    // older copies are void.
    kTookOver,
    // The sealed logger of the unit keeps the state after it.
    kAtLogger,
    // The sealed logger of the unit knows that the flow is over.
    kOverAtLogger,
  };
  FlowId flow = kNoFlow;
  Clock clock{};
  uint32_t flowlet = 0;  // the newest that began there; 0 if that is not known
  UnitId unit = kNoUnit;
  Kind kind{};
  // Set for kRan and kHandedOver only: the clock is released, too.
  bool is_released = true;
};
static_assert(sizeof(FlowReport) == 24);

// A unit's report of a packet that waits in it unprocessed.
struct PacketReport {
  PacketMeta meta{};
  UnitId unit = kNoUnit;
  PacketHandle packet = kNoPacket;  // if the clock has its packet still
};
static_assert(sizeof(PacketReport) == 56);

// A grant of pieces that the unit's logger does not know yet.
struct GrantReport {
  uint64_t number = 0;
  PieceBlock pieces{};
};

// A unit's report of itself, the last of its reports.
struct UnitReport {
  enum class State : uint8_t { kStopped, kStarting, kActive, kWarm };
  UnitId unit = kNoUnit;
  State state = State::kStopped;
  bool was_sealed = false;   // its logger was, some time
  bool has_failed = false;   // while there was no controller
  uint32_t incarnation = 0;  // 0: it was never started
  uint32_t slots = 0;        // of its channel in use
  uint64_t bytes = 0;        // cost of the packets in these slots (PacketCost)
  uint64_t grants = 0;       // how many it has got
};

static_assert(std::is_trivially_copyable_v<FlowName> &&
              std::is_trivially_copyable_v<FlowReport> &&
              std::is_trivially_copyable_v<PacketReport> &&
              std::is_trivially_copyable_v<GrantReport> &&
              std::is_trivially_copyable_v<UnitReport>);

}  // namespace snf

#endif  // SNF_BASE_MESSAGES_REPORT_MESSAGES_H_
