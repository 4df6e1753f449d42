// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CHECKER_H_
#define SNF_PLATFORM_CHECKER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/messages.h"
#include "base/time.h"

namespace snf {

// Watches a run from outside and holds it to the invariants of protocol.md §4.
// It sees only what the cores exchange and shares no code with them; it changes
// nothing, so a run's digest is the same with and without it. Checked so far:
//
//   I1  single writer: a flow is in service at one unit at a time, and no clock
//       is processed twice
//   I2  clock n is processed after n - 1
//   I3  the packets of a flow are released in clock order, and none before it
//       was processed
//   I7  in the end every packet that was given a clock was released, dropped or
//       consumed
//
// A flow may end, and its slot have a next user, while packets of it are still
// under way: both are followed.
//
// Owner-thread only. Memory: 48 bytes a flow slot, and some 100 for each flow
// that lost its slot and has packets under way.
class Checker {
 public:
  void OnEnqueue(Instant now, const PacketMeta& meta);
  void OnServiceBegin(Instant now, UnitId unit, const PacketMeta& meta);
  void OnServiceEnd(Instant now, UnitId unit, const PacketMeta& meta);
  void OnRelease(Instant now, const PacketMeta& meta);
  // The packet was dropped or consumed where it was to be processed.
  void OnTaken(Instant now, const PacketMeta& meta);
  // Call once nothing is in flight any more.
  void OnEnd(Instant now);

  uint64_t violations() const { return violations_; }
  // The first kMaxMessages, one line each.
  const std::vector<std::string>& messages() const { return messages_; }
  static constexpr size_t kMaxMessages = 10;

 private:
  struct Flow {
    FlowId id = kNoFlow;
    uint64_t given = 0;      // last clock enqueued
    uint64_t processed = 0;  // last clock processed
    uint64_t released = 0;   // last clock released
    uint64_t left = 0;       // packets that were released or taken
    UnitId in_service = kNoUnit;
  };
  Flow& InSlot(FlowId id);
  // Null, and a violation, if no packet of the flow was given a clock.
  Flow* Find(Instant now, const PacketMeta& meta);
  void Left(Flow& flow);
  void CheckAllLeft(Instant now, const Flow& flow);
  void Violation(Instant now, FlowId flow, const std::string& what);

  std::vector<Flow> flows_;        // by slot
  std::map<FlowId, Flow> ending_;  // lost their slot, have packets under way
  uint64_t violations_ = 0;
  std::vector<std::string> messages_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_CHECKER_H_
