// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_HAND_OVER_FLOW_SWEEP_H_
#define SNF_CONTROLLER_HAND_OVER_FLOW_SWEEP_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/packet/flow_key.h"
#include "base/time.h"
#include "controller/core/controller.h"
#include "controller/hand_over/hand_over.h"

namespace snf {

// Theory of operation. Says which flows of a controller have changed since they
// were last sent to the controller's heir (proto/protocol.md H5). It goes
// through the table of flows again and again: a sweep. A flow with clocks that
// were not sent is asked for at its unit, whose answer goes to the heir.
//
//   Turn ─ask(flow)─► unit ─state─► OnState ─HandedFlow─► the heir
//     └───ended(flow)─────────────────────────────────────►┘
//
// A sweep begins at most every kPeriod, and looks at kSlotsPerTurn slots and
// asks kAsksPerTurn times each kPause. So the time of a sweep, `last`, bounds
// how old a copy is, apart from the way to the heir. A flow whose unit is busy
// with a packet of it is asked for again in the next sweep.
//
// The heir has all once it has the flows that the first sweep found. It is told
// so without a flow that was asked for kMostAwaited times in vain: that one may
// never be shown.
//
// Worked example: flows A and B have clocks 5 and 2, and were sent as of 5 and
// 1. A sweep asks for B; the unit says clock 2, and B is sent. Then A ends: the
// next sweep finds its slot free, and says so.
//
// Owner-thread only. Memory: 64 bytes a slot in use.
class FlowSweep {
 public:
  static constexpr Nanos kPeriod = Milliseconds(20);
  static constexpr Nanos kPause = Milliseconds(1);
  static constexpr uint32_t kSlotsPerTurn = 8'192;
  static constexpr size_t kAsksPerTurn = 64;
  static constexpr uint8_t kMostAwaited = 50;

  struct Ended {
    FlowKey key;
    FlowId flow{};
  };

  // All flows are to be sent: the heir has none.
  void Begin();
  // Continues the sweep, by at most `room` calls in all. Returns true if
  // the heir has got all flows that there were at Begin, as far as units show
  // them; once.
  bool Turn(Instant now, const Controller& c, size_t room,
            absl::FunctionRef<void(FlowId)> ask,
            absl::FunctionRef<void(const Ended&)> ended);
  // A unit shows a state. Returns the message for the heir; nothing if the
  // flow has ended, or a newer state was sent.
  std::optional<HandedFlow> OnState(const Controller& c, const State& state);

  // The last whole sweep: how long it took, and how many flows it asked for.
  Nanos last() const { return last_; }
  uint64_t behind() const { return behind_; }
  // Counts whole sweeps.
  uint64_t sweeps() const { return sweeps_; }

 private:
  struct Sent {
    FlowKey key{};
    FlowId flow = kNoFlow;  // that has the slot
    Clock clock{};          // 0: nothing was sent
    uint8_t awaited = 0;    // asks for which the whole waits for the flow
  };

  // The whole no longer waits for this flow.
  void StopAwaiting(Sent& sent) {
    if (sent.awaited > 0) --awaited_;
    sent.awaited = 0;
  }
  // Returns false if there was no room.
  bool Look(const Controller& c, uint32_t slot, size_t& asks, size_t& room,
            absl::FunctionRef<void(FlowId)> ask,
            absl::FunctionRef<void(const Ended&)> ended);

  std::vector<Sent> sent_;  // by slot
  uint32_t at_ = 0;         // the next slot
  Instant began_ = Instant::min();
  Instant next_turn_ = Instant::min();
  bool is_first_ = true;  // this sweep, since Begin
  bool is_whole_ = false;
  uint64_t awaited_ = 0;  // flows
  uint64_t asked_ = 0;    // in this sweep
  uint64_t behind_ = 0;
  uint64_t sweeps_ = 0;
  Nanos last_{};
};

}  // namespace snf

#endif  // SNF_CONTROLLER_HAND_OVER_FLOW_SWEEP_H_
