// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_NAT_OTHER_H_
#define SNF_NFS_NAT_OTHER_H_

#include <cstdint>

#include "base/packet/flow_key.h"
#include "nfs/nat_packet.h"
#include "runtime/sdk/packet.h"

namespace snf {

// The fields of an IPv6 packet that a NAT of IPv4 looks at before the packet
// passes.
struct NatOtherView {
  // The sender's end. FlowKey{} if no answer can reach it: in later fragments
  // and ICMP errors, and with a source that is no host's address.
  FlowKey from;
  uint8_t tcp_flags = 0;  // 0 if the packet has none

  bool has_end() const { return from != FlowKey{}; }
};

// Fills in the view of a packet that is not of IPv4, or returns why it must not
// pass: it is not of IPv6, or has an IPv4 address in the mapped form at an end
// (RFC 4942 §2.2). Budget: ≤ 10 ns.
NatDrop ReadOther(const Packet& packet, NatOtherView& view);

}  // namespace snf

#endif  // SNF_NFS_NAT_OTHER_H_
