// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_FLOW_KEYS_H_
#define SNF_PLATFORM_RUN_FLOW_KEYS_H_

#include <cstdint>

#include "base/ids.h"
#include "base/packet/endpoint.h"
#include "base/packet/flow_key.h"
#include "base/packet/packet_info.h"
#include "base/packet/protocol_numbers.h"
#include "controller/core/flow_table.h"

namespace snf {

// Returns the key of the flow; FlowKey{} if the controller has forgotten the
// flow, or if its slot is not below `slots`. May be called by a thread that is
// not the table's while the flow is in use, since its key does not change then.
inline FlowKey KeyOf(const FlowTable& flows, uint32_t slots, FlowId flow) {
  const uint32_t slot = slot_of(flow);
  const bool is_there =
      slot < slots && flows.numbers(slot).generation == generation_of(flow);
  return is_there ? flows.hot(slot).key : FlowKey{};
}

// As above, by the table's own thread.
inline FlowKey KeyOf(const FlowTable& flows, FlowId flow) {
  return KeyOf(flows, flows.used(), flow);
}

// Notes the side of a packet of an NF with two sides, and the end of its
// connection at the outside. The identifier of an ICMP query belongs to the
// inside end, and a NAT changes it: the far end has none.
inline void SetFarEnd(PacketInfo& info, Side side, const Endpoints& ends) {
  const FlowKey& far_end = side == Side::kOutside ? ends.from : ends.to;
  info.side = side;
  info.far_address = far_end.source;
  info.far_port = IsIcmp(far_end.protocol) ? be16(0) : far_end.source_port;
}

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_FLOW_KEYS_H_
