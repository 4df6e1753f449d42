// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_FAR_END_H_
#define SNF_PLATFORM_RUN_FAR_END_H_

#include "base/packet/endpoint.h"
#include "base/packet/packet_info.h"
#include "base/packet/protocol_numbers.h"

namespace snf {

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

#endif  // SNF_PLATFORM_RUN_FAR_END_H_
