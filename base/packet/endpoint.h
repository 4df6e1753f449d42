// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_ENDPOINT_H_
#define SNF_BASE_PACKET_ENDPOINT_H_

#include "base/packet/classifier.h"
#include "base/packet/flow_key.h"
#include "base/packet/ip_address.h"
#include "base/packet/protocol_numbers.h"

namespace snf {

// One end of connections as a FlowKey: address and port (ICMP queries:
// identifier) of one protocol stand in its source, the destination is zero, and
// its form is kIpv4Endpoint or kIpv6Endpoint. It is the key of a flow of scope
// inside_endpoint, and of its alias (proto/decisions.md 15, 20).
FlowKey EndpointKey(const IpAddress& address, be16 port, IpProtocol protocol,
                    FlowKeyForm form);

// The ends of a packet as its connection key and direction say, which are those
// of the quoted packet, exchanged, in an ICMP error, and those of the first
// fragment in the others.
struct Endpoints {
  FlowKey from;
  FlowKey to;
};
// Whether they are known: not of a fragment before its first.
bool HasEnds(const FlowKey& connection);
// Requires HasEnds. VLANs are kept.
Endpoints EndpointsOf(const FlowKey& connection, Direction direction);

}  // namespace snf

#endif  // SNF_BASE_PACKET_ENDPOINT_H_
