// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CHECKER_H_
#define SNF_PLATFORM_CHECKER_H_

#include <cstdint>
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
//   I3  the packets of a flow are released in clock order
//   I7  in the end every clock that was given was processed
//
// Owner-thread only. Memory: 40 bytes a flow slot.
class Checker {
 public:
  void OnEnqueue(Instant now, const PacketMeta& meta);
  void OnServiceBegin(Instant now, UnitId unit, const PacketMeta& meta);
  void OnServiceEnd(Instant now, UnitId unit, const PacketMeta& meta);
  void OnRelease(Instant now, const PacketMeta& meta);
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
    UnitId in_service = kNoUnit;
  };
  Flow& Of(FlowId id);
  void CheckAllProcessed(Instant now, const Flow& flow);
  void Violation(Instant now, FlowId flow, const std::string& what);

  std::vector<Flow> flows_;  // by slot
  uint64_t violations_ = 0;
  std::vector<std::string> messages_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_CHECKER_H_
