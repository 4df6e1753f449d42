// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OUTCOME_FLOW_FILTER_H_
#define SNF_PLATFORM_OUTCOME_FLOW_FILTER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/packet/flow_key.h"
#include "traces/packet_filter.h"

namespace snf {

// A filter in the language of tcpdump (pcap-filter(7)) that selects flows by
// their keys. A key counts as a bare packet of the flow, in both directions: it
// has addresses, the protocol and ports, no flags, no payload. A text that
// ParseFlowKey reads selects the flow of that key alone, in both directions,
// and no packet by its headers. Owner-thread only.
class FlowFilter {
 public:
  // An empty text selects all. Errors: as PacketFilter::Compile.
  static absl::StatusOr<FlowFilter> Compile(const std::string& text);

  // Returns true if the filter selects the flow. FlowKey{} is no flow: only an
  // empty text selects it.
  bool SelectsFlow(const FlowKey& key);
  // Returns true if the filter selects this packet for its own headers.
  bool SelectsPacket(const CapturedPacket& packet);

 private:
  bool SelectsDirection(const FlowKey& key);

  FlowKey key_{};                         // kNone: see filter_
  std::unique_ptr<PacketFilter> filter_;  // null: all
};

}  // namespace snf

#endif  // SNF_PLATFORM_OUTCOME_FLOW_FILTER_H_
