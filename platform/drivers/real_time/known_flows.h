// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_TIME_KNOWN_FLOWS_H_
#define SNF_PLATFORM_DRIVERS_REAL_TIME_KNOWN_FLOWS_H_

#include <optional>

#include "base/packet/classifier.h"
#include "base/time.h"
#include "controller/live/controller_loop.h"
#include "platform/run/run.h"
#include "runtime/ring/real_clock.h"
#include "runtime/sdk/nf.h"
#include "traces/capture_reader.h"

namespace snf {

// Tells whether a packet is for the flows of a controller, without taking the
// packet: of several controllers that serve one after the other, the older ones
// keep the flows that they have (platform/daemon/live_chains.h).
//
// Owner-thread only.
class KnownFlows {
 public:
  // Later fragments stay with an older controller for this long.
  static constexpr Nanos kLateFragments = Seconds(30);

  // All references must outlive the object. `example` runs nothing.
  KnownFlows(const RunOptions& options, const NetworkFunction& example,
             const ControllerLoop& loop, const RealClock& clock)
      : options_(options), example_(example), loop_(loop), clock_(clock) {}

  // New flows are for a newer controller from now on.
  void BecomeOlder() { older_since_ = clock_.Now(); }
  // Returns true if the packet is of one of the controller's flows.
  bool Knows(const CapturedPacket& captured);
  // Returns by which key the packet's flow is found; nothing for a packet
  // without a flow, and for a fragment.
  struct Sought {
    FlowKey key;
    bool by_alias = false;
    IpAddress host{};  // inside: whose flow it is, or would be
  };
  std::optional<Sought> SoughtBy(const CapturedPacket& captured);
  // Returns true if the packet may answer a packet of the NF's own, as a health
  // check (OwnFlow::is_answer).
  bool MayHaveAskedFor(const CapturedPacket& captured);

 private:
  struct Seen {
    ParsedPacket headers;
    FlowKey key;
    Direction direction{};
  };
  static bool IsOfFragment(const FlowKey& key);
  std::optional<Sought> SoughtBy(const CapturedPacket& captured,
                                 const Seen& seen) const;
  Seen Look(const CapturedPacket& captured);
  FlowClassifier& looker();

  const RunOptions& options_;
  const NetworkFunction& example_;
  const ControllerLoop& loop_;
  const RealClock& clock_;
  std::optional<FlowClassifier> looker_;  // made at the first use
  Instant older_since_ = Instant::min();  // never
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_TIME_KNOWN_FLOWS_H_
