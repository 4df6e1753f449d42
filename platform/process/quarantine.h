// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_QUARANTINE_H_
#define SNF_PLATFORM_PROCESS_QUARANTINE_H_

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "base/ids.h"
#include "base/packet/flow_key.h"
#include "base/time.h"

namespace snf {

// Decides which packets and flows are withheld from an NF whose process ended
// during calls for them (proto/protocol.md F12).
//
// If the process failed by itself, the packet is dropped at once. A SIGKILL may
// have come from anybody: the packet is dropped if two processes in a row were
// killed during a call for it. A flow that has had kMostFailures of either is
// blocked. It is let in again after it has sent nothing for kForget.
//
// Worked example: the NF crashes on clock 7 of a flow, and clock 7 is dropped.
// It crashes on clocks 9 and 12 as well: the flow is blocked.
//
// A value; owner-thread only. Keeps at most kMostFlows flows, and forgets the
// flow with the oldest failure or packet, if there are more.
class Quarantine {
 public:
  static constexpr uint32_t kMostFailures = 3;
  static constexpr Nanos kForget = Seconds(300);
  static constexpr size_t kMostFlows = 4'096;

  struct Verdict {
    bool drops_packet = false;
    bool blocks_flow = false;
  };
  // A process ended amid a call for that clock of the flow. `was_killed`: by
  // SIGKILL.
  Verdict on_end(Instant now, const FlowKey& flow, Clock clock,
                 bool was_killed);
  bool has_blocked() const { return blocked_ > 0; }
  // A packet of the flow has come. Returns true if the flow is blocked.
  bool IsBlocked(Instant now, const FlowKey& flow);

 private:
  struct Flow {
    Instant last;     // failure, or packet of a blocked flow
    Clock suspect{};  // during which a process was killed
    uint32_t failures = 0;
  };

  void Forget(Instant now);

  absl::flat_hash_map<FlowKey, Flow, FlowKeyHash> flows_;
  size_t blocked_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_QUARANTINE_H_
