// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_CLUSTER_PACKET_DISPATCHER_H_
#define SNF_PLATFORM_DRIVERS_REAL_CLUSTER_PACKET_DISPATCHER_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/messages/drop_reason.h"
#include "base/messages/lease_messages.h"
#include "base/messages/messages.h"
#include "base/packet/classifier.h"
#include "base/packet/flow_key.h"
#include "base/packet/packet_parser.h"
#include "base/time.h"
#include "platform/drivers/cluster/flow_dispatcher.h"
#include "platform/run/ingress.h"
#include "platform/run/run.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/sdk/nf.h"
#include "traces/capture_reader.h"

namespace snf {

// Theory of operation. Stands where a switch would, in front of several
// controllers that run an NF: says which of them a captured packet is for
// (FlowDispatcher). What has no flow goes to the first one.
//
// Where the NF has two sides, it also plays the far side, as Ingress does for a
// single controller: a packet from the outside is rewritten to the alias that
// it would have been sent to, which tells its controller, and each packet says
// its side. So it has to hear of aliases.
//
// Worked example: controllers 0 and 1 have the ports 1024-33279 and
// 33280-65535 of 198.51.100.1. Inside endpoint 10.0.0.1:5000 hashes to 1, which
// announces 198.51.100.1:33280 for it. The capture's answer to 10.0.0.1:5000
// becomes one to 198.51.100.1:33280, and goes to 1.
//
// Owner-thread only.
class PacketDispatcher {
 public:
  // The NF must pass FlowDispatcher::Check.
  PacketDispatcher(const RunOptions& options, const NetworkFunction& example,
                   uint32_t controllers);

  struct Placed {
    // Why the packet is for no controller; absent: it is for `to`.
    std::optional<DropReason> dropped;
    // The one that has the packet's flow, also if it is dropped.
    ControllerId to{};
    CapturedPacket packet;  // as it is on the way to the controller
  };
  // Valid until the next call.
  const Placed& Place(Instant arrival, const CapturedPacket& captured);
  // The last packet once more, which was dropped as kNotTranslated.
  const Placed& PlaceAgain(Instant arrival, const CapturedPacket& captured);

  // A flow of that controller, with the key `inside`, has the alias from now
  // on; or none that it was granted up to the clock.
  void on_alias(ControllerId of, const Alias& alias, const FlowKey& inside);
  void on_alias_over(FlowId flow, Clock clock) {
    ingress_.ForgetAlias(flow, clock);
  }

  // Returns the controller of the flow that has the alias; none: no flow has.
  std::optional<ControllerId> OwnerOf(const FlowKey& alias) const {
    if (ingress_.FlowOf(alias) == alias) return std::nullopt;
    return flows_.Steer(alias, true);
  }

  bool has_sides() const { return has_sides_; }
  ClassifierCounters counters() const {
    return has_sides_ ? ingress_.counters() : classifier_.counters();
  }
  size_t aliases_max() const { return ingress_.aliases_max(); }
  // Counts aliases in a block of another controller than their own.
  uint64_t foreign_aliases() const { return foreign_aliases_; }

 private:
  void PlaceTaken(const CapturedPacket& captured, const Ingress::Taken& taken);

  bool has_sides_;
  FlowDispatcher flows_;
  FlowClassifier classifier_;  // where there are no sides
  BufferPool buffers_;         // of the one packet that is rewritten
  OwnKeys own_keys_;
  Ingress ingress_;
  PacketHandle rewritten_ = kNoPacket;  // whose bytes placed_ has
  Placed placed_;
  uint64_t foreign_aliases_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_CLUSTER_PACKET_DISPATCHER_H_
